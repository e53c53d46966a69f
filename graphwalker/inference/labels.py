"""How likely a model finds each label of a set after a text: for many texts in one batch, shared beginnings read once.

A label set has at most five tokens, so nothing needs the whole vocabulary: Eq. 4 of ArG compares the labels of a set
among themselves. Only the probability of the text itself (S_seq) does, and only at the text's own tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """A text after a state, and the label sets to go through: the likeliest label of each is put before the next.

    ``parts`` are the state's tokens, cut where states of a tree part; asks that begin with equal parts share them. A
    label in ``last`` ends it. ``sequence``: whether the text's own probability is wanted.
    """

    parts: tuple[Ids, ...]
    text: Ids
    groups: tuple[Ids, ...]
    last: frozenset[int] = frozenset()
    sequence: bool = True

    @property
    def ids(self) -> Ids:
        return tuple(token for part in (*self.parts, self.text) for token in part)


@dataclass(frozen=True, slots=True)
class Told:
    """For each label set that was asked, the log-probabilities of its labels among themselves; ``logprob`` of the text
    (0 where it was not wanted)."""

    logprob: float
    labels: tuple[tuple[float, ...], ...]

    def given(self, ask: Ask) -> list[int]:
        """The label of each set: the likeliest, of equals the first."""
        return [likeliest(group, values) for group, values in zip(ask.groups, self.labels, strict=False)]


class Labeller(Protocol):
    """Whatever runs the model; ``max_length`` is how many tokens an ask may have, its labels included."""

    tokenizer: Any
    max_length: int

    def tell(self, asks: Sequence[Ask]) -> list[Told]: ...


def likeliest(group: Sequence[int], values: Sequence[float]) -> int:
    return group[max(range(len(group)), key=values.__getitem__)]


def among(values: Sequence[float] | np.ndarray) -> tuple[float, ...]:
    """Logits or log-probabilities as log-probabilities among themselves."""
    found = np.asarray(values, dtype=np.float64)
    return tuple((found - np.logaddexp.reduce(found)).tolist())


def goes_on(ask: Ask, labels: Sequence[Sequence[float]]) -> bool:
    """Whether another label set is to be asked after these."""
    if len(labels) == len(ask.groups):
        return False
    return not labels or likeliest(ask.groups[len(labels) - 1], labels[-1]) not in ask.last
