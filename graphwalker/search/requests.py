"""What a searcher asks for while it runs.

A searcher is a generator that yields requests and is sent their results; it touches neither model nor graph. Whoever
drives it may therefore drive many at a time and answer the requests of all in one batch.
"""

from collections.abc import Callable, Generator, Sequence
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


Request = Expand | Together | Score
Search = Generator[Request, list[Any], None]
Value = Callable[[Sequence[Node]], Sequence[float]]
"""A value function: one float a state, the states of many questions in one call."""
