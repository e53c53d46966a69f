"""The baselines without a tree: one run, and the majority vote over several (MCTS-KBQA, section 4.2)."""

from graphwalker.search.play_out import play_out
from graphwalker.search.requests import Expand, Search
from graphwalker.search.tree import Tree


def linear(tree: Tree) -> Search:
    """One run to its end."""
    yield from _runs(tree, 1)


def majority_vote(tree: Tree) -> Search:
    """``runs`` independent runs, each a branch of its own from the root (five in the paper)."""
    yield from _runs(tree, tree.config.runs)


def _runs(tree: Tree, count: int) -> Search:
    first = yield Expand(tree.root, count)
    for node in first:
        tree.grow([node])  # never merged: a run is a run
    yield from play_out(tree, first, keep=True)
    tree.stopped = "played"
