"""Log-probabilities of given tokens by vLLM, in this process or over HTTP: its ``prompt_logprobs``.

vLLM leaves its prefix cache aside for a request that asks for these, so siblings share nothing there; what is gained is
one pass where the definition has two, and its own batching.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwalker.inference.values.scorer import Floats, start_token
from graphwalker.inference.vllm_http import VLLMServer


class VLLMScorer:
    """A `Scorer` on a ``vllm.LLM`` in this process."""

    def __init__(self, llm: Any, tokenizer: Any):
        self.llm, self.tokenizer = llm, tokenizer
        config = llm.llm_engine.model_config
        self.start = start_token(tokenizer, config.hf_text_config)
        self.max_length = config.max_model_len - 1  # one token is generated, since vLLM must

    def logprobs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        from vllm import SamplingParams

        distinct = list(dict.fromkeys(map(tuple, sequences)))
        params = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0, detokenize=False)
        prompts = [{"prompt_token_ids": list(ids)} for ids in distinct]
        outputs = self.llm.generate(prompts, params, use_tqdm=False)
        found = {
            ids: np.array(
                [entry[token].logprob for token, entry in zip(ids[1:], output.prompt_logprobs[1:], strict=True)]
            )
            for ids, output in zip(distinct, outputs, strict=True)
        }
        return [found[tuple(sequence)] for sequence in sequences]


class VLLMServerScorer:
    """A `Scorer` on a server started with ``vllm serve``; all sequences are under way together."""

    def __init__(self, server: VLLMServer, tokenizer: Any, *, config: Any = None, max_length: int = 4096):
        self.server, self.tokenizer = server, tokenizer
        self.start = start_token(tokenizer, config)
        self.max_length = min(max_length, server.max_length - 1)

    def logprobs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """See `Scorer.logprobs`. Raises ``UserError`` where the server fails for good."""
        distinct = list(dict.fromkeys(map(tuple, sequences)))
        asked = {ids: self.server.read(list(ids)) for ids in distinct}
        found = {ids: np.array(future.result()) for ids, future in asked.items()}
        return [found[tuple(sequence)] for sequence in sequences]
