"""A state of an episode in a search tree: the turn that led to it, and what searching has learned of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from graphwalker.types import Ending, Question, Turn


class Episode(Protocol):
    """What a search asks of an environment (``envs``), already reset: it can be left at a turn and taken up twice."""

    @property
    def waits(self) -> bool: ...

    def fork(self) -> "Episode":
        """An episode that stands where this one does; what happens in one does not change the other."""
        ...

    def step(self, text: str, truncated_turn: bool = False) -> tuple[str, float, bool, bool, dict[str, Any]]: ...

    def trajectory(self) -> Any: ...


@dataclass(eq=False, slots=True)
class Node:
    """The state ``s_e``: the question and the turns from the root to here (MCTS-KBQA, Eq. 1).

    The root has no turn. ``episode`` is the environment after the turn; it is forked, never stepped. ``ids`` are the
    tokens that this node adds to its parent's: the turn as it was generated and the observation. ``number`` counts
    the nodes of one search in the order of their creation, transient ones included, so that seeds follow from it.
    """

    episode: Episode
    parent: "Node | None" = None
    turn: Turn | None = None
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)  # of the generated tokens alone
    ending: Ending | None = None  # not None: terminal
    limit: str = ""  # the search's own limit that ended it: "depth", or "length" (no room for another turn)
    answer: tuple[str, ...] | None = None
    number: int = 0
    depth: int = 0
    children: "list[Node]" = field(default_factory=list)
    samples: int = 1  # equal samples that were merged into this child
    value: float | None = None  # the immediate reward r_e
    visits: int = 0  # n(e)
    total: float = 0.0  # w_e

    @property
    def terminal(self) -> bool:
        return self.ending is not None

    def path(self) -> "list[Node]":
        """The nodes from the root to this one, both included."""
        nodes = [self]
        while (parent := nodes[-1].parent) is not None:
            nodes.append(parent)
        return nodes[::-1]

    def turns(self) -> list[Turn]:
        """The history H: the turns of the path."""
        return [node.turn for node in self.path() if node.turn is not None]

    def parts(self) -> list[list[int]]:
        """The token ids of the state, the prompt's included, as each node of the path added them."""
        return [node.ids for node in self.path()]

    def tokens(self) -> list[int]:
        """The token ids of the state, the prompt's included."""
        return [token for part in self.parts() for token in part]

    def details(self) -> dict[str, Any]:
        """What a tree's JSON says of it beside what it says of any node."""
        return {}

    def walk(self) -> "Iterator[Node]":
        """This node and all below it, in the order of their creation within each subtree."""
        yield self
        for child in self.children:
            yield from child.walk()


def question_of(node: Node) -> Question:
    """The question of a state's search."""
    return node.path()[0].episode.trajectory().question
