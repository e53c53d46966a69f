"""The answer of a search: a majority vote over its valid terminals (MCTS-KBQA, section 3.2)."""

from collections.abc import Iterable
from dataclasses import dataclass

from graphwalker.metrics.normalise import normalise
from graphwalker.search.node import Node
from graphwalker.search.tree import Tree


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer, the terminal that gave it first, and its votes: one a sample."""

    node: Node
    votes: int


def candidates(nodes: Iterable[Node]) -> list[Candidate]:
    """The different answers of terminals, as sets of normalised strings: most votes first, then the one found first."""
    first: dict[frozenset[str], Node] = {}
    votes: dict[frozenset[str], int] = {}
    for node in nodes:
        answer = frozenset(map(normalise, node.answer or ()))
        first.setdefault(answer, node)
        votes[answer] = votes.get(answer, 0) + node.samples
    return sorted((Candidate(first[a], votes[a]) for a in first), key=lambda c: -c.votes)  # sorted is stable


def winner(tree: Tree) -> Node:
    """The terminal whose trajectory is the prediction: the first in the vote, or in the searcher's own ranking.

    Without a valid terminal: the first that answered, else the first that ended in another way, else, where nothing
    came to an end, the deepest state (of several, the first).
    """
    if tree.ranked and tree.valid:
        return tree.valid[0]
    voted = candidates(tree.valid)
    if voted:
        return voted[0].node
    answered = [node for node in tree.ends if node.ending == "answered"]
    if answered or tree.ends:
        return (answered or tree.ends)[0]
    return max(tree.root.walk(), key=lambda node: node.depth)
