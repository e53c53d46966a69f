"""The tree that all searchers share: selection (Eq. 2), expansion, back-up (Eq. 4), and when to end (section 3.2)."""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from graphwalker.search.node import Node
from graphwalker.search.requests import Expand, Request
from graphwalker.search.settings import SearchConfig
from graphwalker.types import RAN, Turn

Steps = Generator[Request, list[Any], list[Node]]
"""A part of a search that ends with nodes."""
Choose = Callable[["Tree"], Node]
"""Selection: an open leaf of a tree that has one."""


@dataclass(eq=False)
class Tree:
    """One question's search: its nodes, the terminal states that it met, and why it ended.

    ``ends`` holds the terminal states in the order in which they were met, those that a rollout reached outside of the
    tree included; ``valid`` those of them that take part in the vote, or, where it is ``ranked`` instead, those that
    answer, best first. ``random`` is the searcher's own stream.
    """

    root: Node
    config: SearchConfig
    random: Random = field(default_factory=Random)
    ends: list[Node] = field(default_factory=list)
    valid: list[Node] = field(default_factory=list)
    ranked: bool = False
    selected: int = 0
    simulated: int = 0
    stopped: str = ""

    def select(self, choose: Choose) -> Node | None:
        """The next state to expand, or ``None`` once a criterion of section 3.2 ends the search; `stopped` says which.

        ``"valid"``: k valid terminals; ``"simulations"`` and ``"selections"``: the budgets B and T; ``"exhausted"``: no
        state is left that may be expanded, all branches being terminal or at the maximum depth.
        """
        if self.enough():
            return None
        if self.simulated >= self.config.simulations:
            self.stopped = "simulations"
        elif self.selected >= self.config.selections:
            self.stopped = "selections"
        elif not is_open(self.root):
            self.stopped = "exhausted"
        if self.stopped:
            return None
        self.selected += 1
        return choose(self)

    def enough(self) -> bool:
        """Whether k valid terminals are collected; a merged one counts once for each of its samples."""
        if sum(node.samples for node in self.valid) >= self.config.valid_terminals:
            self.stopped = "valid"
        return self.stopped == "valid"

    def expand(self, node: Node) -> Steps:
        """Sample children of a state, as many as may still be simulated, and put them into the tree (Eq. 3)."""
        room = self.config.simulations - self.simulated
        samples = yield Expand(node, min(self.config.width, room))
        return self.grow(samples)

    def grow(self, samples: Sequence[Node]) -> list[Node]:
        """Put new nodes below their parents, equal ones as one where the settings say so, and meet them."""
        children = merged(samples) if self.config.merge_equal else list(samples)
        for child in children:
            assert child.parent is not None
            child.parent.children.append(child)
            self.meet(child)
        return children

    def meet(self, node: Node) -> None:
        """Look at a new state: end it at the maximum depth, and keep it for the vote where it is a valid terminal."""
        if not node.terminal and node.depth >= self.config.max_depth:
            node.ending, node.limit = "budget", "depth"
        if node.terminal:
            self.ends.append(node)
            if is_valid(node):
                self.valid.append(node)

    def back_up(self, node: Node, reward: float) -> None:
        """Add a child's reward to it and to all above it, once for each sample that it stands for (Eq. 4).

        The depth d_e by which the reward decays is that of the node which receives it, not the child's: on a path that
        goes deeper than ``d_exp``, only the nodes below that depth earn less.
        """
        node.value = reward
        for at in node.path():
            at.visits += node.samples
            at.total += node.samples * reward * decay(at.depth, self.config)


def decay(depth: int, config: SearchConfig) -> float:
    """The factor of Eq. 4 at a depth, in [0, 1].

    >>> [decay(depth, SearchConfig()) for depth in (0, 7, 8, 12, 17, 30)]
    [1.0, 1.0, 0.9, 0.5, 0.0, 0.0]
    """
    return max(0.0, 1.0 - config.gamma * max(0, depth - config.expected_depth))


def uct(node: Node) -> float:
    """Eq. 2 for a node below the root: ``w / n + sqrt(2 log N / n)``; infinite before its first visit."""
    if node.visits == 0:
        return math.inf
    assert node.parent is not None
    return node.total / node.visits + math.sqrt(2 * math.log(node.parent.visits) / node.visits)


def by_uct(tree: Tree) -> Node:
    """Selection: from the root, the child of highest UCT at each level, down to a leaf; the earlier one of equals.

    UCT compares siblings, whose N(e) is the same; so the tree is descended, rather than all of its leaves compared.
    Children are passed over under which nothing can be expanded any more.
    """
    return descend(tree, lambda children: max(children, key=uct))  # max takes the first of equals


def descend(tree: Tree, choose: Callable[[list[Node]], Node]) -> Node:
    """From the root down to an open leaf, by a choice among the open children of each node."""
    node = tree.root
    while node.children:
        node = choose([child for child in node.children if is_open(child)])
    return node


def is_open(node: Node) -> bool:
    """Whether it, or a node below it, can be expanded."""
    if node.terminal:
        return False
    return not node.children or any(map(is_open, node.children))


def is_valid(node: Node) -> bool:
    """Whether a state is a valid terminal: it answers, and the answer is an executable, non-empty result.

    Where the environment says whether the final query ran (``extra["executable"]``), that counts; an agent that
    answers by itself must have run at least one query.
    """
    if node.ending != "answered" or not node.answer:
        return False
    executable = node.episode.trajectory().extra.get("executable")
    if executable is not None:
        return bool(executable)
    return any(turn.kind == "query" and turn.status in RAN for turn in node.turns())


def merged(samples: Sequence[Node]) -> list[Node]:
    """Siblings with one node for all equal samples: the first, which counts them.

    Equal are samples of one parent with the same action and observation, whatever was thought; where nothing could be
    parsed, with the same text.
    """
    first: dict[Any, Node] = {}
    for node in samples:
        known = first.setdefault((id(node.parent), *_sameness(node.turn), node.ending), node)
        if known is not node:
            known.samples += node.samples
    return list(first.values())


def _sameness(turn: Turn | None) -> tuple[str, ...]:
    if turn is None:
        return ()
    return (turn.kind, turn.action if turn.kind != "none" else turn.text, turn.observation)
