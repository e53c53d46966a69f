"""The information gain of a state: how much its sanitised history helps a frozen model to predict the question.

``H'`` and ``Q`` are tokenised apart, without special tokens, behind the token that opens a text; ``H'`` is then a
prefix of ``(H', Q)`` token by token, and one causal pass over ``(H', Q)`` gives both perplexities.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

from graphwalker.inference.values.formulas import Scored, ig_proxy, ig_reward
from graphwalker.inference.values.scorer import Scorer
from graphwalker.search.node import Node, question_of
from graphwalker.search.sanitise import history

_REMEMBERED = 50_000  # states; equal samples, and those of other branches, need no second pass


class InformationGain:
    """A value function: Eq. 5 for each state, in [0, ``alpha``]; with ``proxy`` Eq. 10, which is ``log p(Q | H')``.

    All states of a call are read in one batch. A history for which the model has no room is cut at its end.
    ``counts`` says how many states were asked for (``states``), read by the model (``read``), and ``cut``.
    """

    def __init__(self, scorer: Scorer, *, alpha: float = 2.0, beta: float = 10.0, proxy: bool = False):
        self.scorer, self.alpha, self.beta, self.proxy = scorer, alpha, beta, proxy
        self.counts: Counter[str] = Counter()
        self._known: dict[tuple[str, str], Scored] = {}
        self._ids: Callable[[str], list[int]] = lru_cache(maxsize=4096)(self._tokenise)

    def __call__(self, nodes: Sequence[Node]) -> list[float]:
        questions = [question_of(node) for node in nodes]
        texts = [(history(node.turns(), q), q.text) for node, q in zip(nodes, questions, strict=True)]
        return [self._value(scored) for scored in self.scored(texts)]

    def scored(self, texts: Sequence[tuple[str, str]]) -> list[Scored]:
        """For each pair ``(H', Q)`` what one pass tells of it."""
        new = [pair for pair in dict.fromkeys(texts) if pair not in self._known]
        self.counts["states"] += len(texts)
        self.counts["read"] += len(new)
        if len(self._known) + len(new) > _REMEMBERED:
            wanted = set(texts)
            self._known = {pair: scored for pair, scored in self._known.items() if pair in wanted}
        parts = [self._fitting(self._ids(h), self._ids(q)) for h, q in new]
        read = self.scorer.logprobs([[self.scorer.start, *h, *q] for h, q in parts]) if parts else []
        for pair, (h, q), logprobs in zip(new, parts, read, strict=True):
            at = len(h)
            self._known[pair] = Scored(at, float(logprobs[:at].sum()), len(q), float(logprobs[at:].sum()))
        return [self._known[pair] for pair in texts]

    def _value(self, scored: Scored) -> float:
        return ig_proxy(scored) if self.proxy else ig_reward(scored, self.alpha, self.beta)

    def _tokenise(self, text: str) -> list[int]:
        return self.scorer.tokenizer(text, add_special_tokens=False)["input_ids"]

    def _fitting(self, h: list[int], q: list[int]) -> tuple[list[int], list[int]]:
        room = self.scorer.max_length - 1
        if len(h) + len(q) <= room:
            return h, q
        self.counts["cut"] += 1
        q = q[:room]
        return h[: room - len(q)], q
