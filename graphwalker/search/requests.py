"""What a searcher asks for while it runs.

A searcher is a generator that yields requests and is sent their results; it touches neither model nor graph. Whoever
drives it may therefore drive many at a time and answer the requests of all in one batch.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphwalker.search.node import Node


@dataclass(frozen=True, slots=True)
class Expand:
    """``samples`` turns from a state, each executed; the answer is a list of new nodes, not yet in the tree."""

    node: Node
    samples: int = 1


@dataclass(frozen=True, slots=True)
class Score:
    """The values of states; the answer is a list of floats in their order."""

    nodes: Sequence[Node]


@dataclass(frozen=True, slots=True)
class Together:
    """Expansions that need not wait for each other; the answer is a list with the new nodes of each, in their order."""

    expansions: Sequence[Expand]


@dataclass(frozen=True, slots=True)
class Begin:
    """Messages that open conversations; the answer is a list with the token ids of each, the model's turn opened."""

    messages: Sequence[str]


@dataclass(frozen=True, slots=True)
class Consult:
    """Calls of the graph, which may wait on a network; the answer is a list of what they return."""

    calls: Sequence[Callable[[], Any]]


@dataclass(frozen=True, slots=True)
class Claim:
    """A text after a state, on which the model is to say something."""

    after: Node
    text: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the model says of a claim.

    ``ids`` are the tokens of its text and of the labels that it gave; ``logprob`` is that of the ``read`` tokens of the
    text. ``labels`` has for each group that was asked the log-probability of each of its labels, among those; it is
    empty where the model has no room for the claim.
    """

    ids: list[int]
    logprob: float
    read: int
    labels: tuple[Mapping[str, float], ...]


@dataclass(frozen=True, slots=True)
class Judge:
    """Labels of claims, one group after another: of each group the likeliest is given, and the next group follows it.

    A label in ``last`` ends a claim's judgement. The answer is a list of `Verdict`s.
    """

    claims: Sequence[Claim]
    groups: Sequence[tuple[str, ...]]
    last: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Written:
    """What the model wrote after a claim: its text and tokens without what it stopped at, and the claim's own.

    ``logprobs`` are those of ``ids``.
    """

    text: str
    ids: list[int]
    logprobs: list[float]
    claim_ids: list[int]


@dataclass(frozen=True, slots=True)
class Write:
    """Texts that the model goes on with, the likeliest token each time, up to its end or one of the tokens ``stop``.

    The answer is a list of `Written`.
    """

    claims: Sequence[Claim]
    stop: tuple[str, ...] = ()


Request = Expand | Together | Score | Begin | Consult | Judge | Write
Search = Generator[Request, list[Any], None]
Value = Callable[[Sequence[Node]], Sequence[float]]
"""A value function: one float a state, the states of many questions in one call."""
