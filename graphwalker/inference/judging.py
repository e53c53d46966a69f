"""From claims on states of a search to label sets after token ids, and back to verdicts."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from graphwalker.inference.chat_tokens import ChatTokens
from graphwalker.inference.labels import Ask, Ids, Labeller
from graphwalker.protocol.reflection import token_ids
from graphwalker.search.requests import Claim, Judge, Verdict


class Judging:
    """Answers `Judge` requests, those of many searches in one batch."""

    def __init__(self, labeller: Labeller, *, sequence: bool = True):
        """``sequence``: whether the probabilities of the claims' texts are wanted (S_seq)."""
        self.labeller, self.sequence = labeller, sequence
        self._chat = ChatTokens(labeller.tokenizer, role="inline")
        self._id_of = reflection_ids(labeller.tokenizer)
        self._ids = lru_cache(maxsize=4096)(lambda text: tuple(self._chat.text(text)))

    def __call__(self, requests: Sequence[Judge]) -> list[list[Verdict]]:
        """The verdicts on the claims of each request; without labels where the model has no room for a claim.

        Raises ``ValueError`` for probabilities that are no numbers.
        """
        asks = [self._ask(claim, request) for request in requests for claim in request.claims]
        fits = [len(ask.ids) + len(ask.groups) <= self.labeller.max_length for ask in asks]
        told = iter(self.labeller.tell([ask for ask, fit in zip(asks, fits, strict=True) if fit]))
        pairs = iter(zip(asks, fits, strict=True))
        found = []
        for request in requests:
            verdicts = []
            for _ in request.claims:
                ask, fit = next(pairs)
                verdicts.append(self._verdict(ask, next(told), request) if fit else Verdict([], 0.0, 0, ()))
            found.append(verdicts)
        return found

    def _ask(self, claim: Claim, request: Judge) -> Ask:
        groups = tuple(tuple(self._id_of[label] for label in group) for group in request.groups)
        last = frozenset(self._id_of[label] for label in request.last)
        parts: tuple[Ids, ...] = tuple(map(tuple, claim.after.parts()))
        text = self._ids(claim.text) if claim.text else ()
        return Ask(parts, text, groups, last, self.sequence and bool(text))

    @staticmethod
    def _verdict(ask: Ask, told: Any, request: Judge) -> Verdict:
        if not all(map(math.isfinite, (told.logprob, *(value for values in told.labels for value in values)))):
            raise ValueError("the model gave a label, or a text, a probability that is no number")
        labels = tuple(
            dict(zip(group, values, strict=True)) for group, values in zip(request.groups, told.labels, strict=False)
        )
        return Verdict([*ask.text, *told.given(ask)], told.logprob, len(ask.text), labels)


def reflection_ids(tokenizer: Any) -> dict[str, int]:
    """The ids of the reflection tokens; raises ``UserError`` as `graphwalker.protocol.reflection.token_ids` does."""
    return token_ids(tokenizer.get_vocab(), str(tokenizer.name_or_path or "the model"))
