"""Label probabilities by vLLM, in this process or over HTTP: one token is sampled, from a label set alone.

With ``allowed_token_ids`` the distribution that is sampled from has only the set's labels, so asking for as many
log-probabilities as it has labels gives Eq. 4's, whatever the vocabulary. The text's own probability (S_seq) is that of
prompt tokens, for which vLLM leaves its prefix cache aside; without the sequence score it is not asked for.
"""

from collections.abc import Callable, Sequence
from typing import Any

from graphwalker.inference.labels import Ask, Told, among, goes_on, likeliest
from graphwalker.inference.vllm_engine import VLLMEngine
from graphwalker.inference.vllm_http import VLLMServer

Answer = tuple[dict[int, float], list[float]]
"""The log-probabilities of the first token's candidates, and those of the prompt's tokens from the second on."""
Query = tuple[list[int], tuple[int, ...], bool]
"""A prompt, the labels that may follow it, and whether the prompt's own log-probabilities are wanted."""


def _tell(asks: Sequence[Ask], query: Callable[[Sequence[Query]], list[Answer]]) -> list[Told]:
    """Go through the label sets of asks, each set of all of them in one call."""
    labels: list[list[tuple[float, ...]]] = [[] for _ in asks]
    logprobs = [0.0] * len(asks)
    prompts = [list(ask.ids) for ask in asks]
    while going := [i for i, ask in enumerate(asks) if goes_on(ask, labels[i])]:
        groups = [asks[i].groups[len(labels[i])] for i in going]
        wanted = [asks[i].sequence and not labels[i] for i in going]
        answers = query([(prompts[i], group, read) for i, group, read in zip(going, groups, wanted, strict=True)])
        for i, group, read, (found, own) in zip(going, groups, wanted, answers, strict=True):
            labels[i].append(among([found[label] for label in group]))
            prompts[i] = [*prompts[i], likeliest(group, labels[i][-1])]
            if read and asks[i].text:
                logprobs[i] = float(sum(own[-len(asks[i].text) :]))
    return [Told(logprob, tuple(found)) for logprob, found in zip(logprobs, labels, strict=True)]


class VLLMLabeller:
    """A `Labeller` on the model of an engine that `VLLMEngine.load` made; its rows may be under way meanwhile."""

    def __init__(self, engine: VLLMEngine):
        self.engine, self.tokenizer = engine, engine.tokenizer
        self.max_length = engine.max_length - 1  # one token is generated

    def tell(self, asks: Sequence[Ask]) -> list[Told]:
        return _tell(asks, self._query)

    def _query(self, queries: Sequence[Query]) -> list[Answer]:
        from vllm import SamplingParams

        params = [SamplingParams(**_parameters(labels, read), detokenize=False) for _, labels, read in queries]
        answers = []
        outputs = self.engine.outputs([prompt for prompt, _, _ in queries], params)
        for (prompt, _, read), output in zip(queries, outputs, strict=True):
            first = {token: entry.logprob for token, entry in output.outputs[0].logprobs[0].items()}
            own = output.prompt_logprobs[1:] if read else []
            pairs = zip(prompt[1:] if read else [], own, strict=True)
            answers.append((first, [entry[token].logprob for token, entry in pairs]))
        return answers


class VLLMServerLabeller:
    """A `Labeller` on a server started with ``vllm serve`` (``--logprobs-mode processed_logprobs``)."""

    def __init__(self, server: VLLMServer, tokenizer: Any, *, max_length: int = 4096):
        self.server, self.tokenizer = server, tokenizer
        self.max_length = min(max_length, server.max_length) - 1

    def tell(self, asks: Sequence[Ask]) -> list[Told]:
        """See `Labeller.tell`. Raises ``UserError`` where the server fails for good."""
        return _tell(asks, self._query)

    def _query(self, queries: Sequence[Query]) -> list[Answer]:
        asked = [self.server.choose(prompt, _parameters(labels, read)) for prompt, labels, read in queries]
        return [future.result() for future in asked]


def _parameters(labels: Sequence[int], read: bool) -> dict[str, Any]:
    """vLLM's sampling parameters, under the names of its HTTP interface."""
    parameters: dict[str, Any] = {
        "max_tokens": 1,
        "temperature": 0.0,
        "logprobs": len(labels),
        "allowed_token_ids": list(labels),
    }
    return parameters | ({"prompt_logprobs": 0} if read else {})
