"""Fast MCTS: every new child is scored as it stands, no rollouts (MCTS-KBQA, Algorithm 2)."""

from collections.abc import Callable, Generator, Sequence

from graphwalker.search.node import Node
from graphwalker.search.requests import Request, Score, Search
from graphwalker.search.tree import Tree, by_uct

Rewards = Generator[Request, list[float], Sequence[float]]


def fast_mcts(tree: Tree) -> Search:
    """Algorithm 2; terminal children are scored like all others."""
    yield from _fast(tree, _scored)


def fast_mcts_constant(tree: Tree) -> Search:
    """The ablation: every child earns the same (section 4.2)."""
    yield from _fast(tree, lambda children: _constant(children, tree.config.constant_reward))


def _fast(tree: Tree, rewards_of: Callable[[list[Node]], Rewards]) -> Search:
    while (leaf := tree.select(by_uct)) is not None:
        children = yield from tree.expand(leaf)
        rewards = yield from rewards_of(children)
        for child, reward in zip(children, rewards, strict=True):
            tree.simulated += not child.terminal
            tree.back_up(child, reward)


def _scored(children: list[Node]) -> Rewards:
    return (yield Score(children))


def _constant(children: list[Node], reward: float) -> Rewards:
    return [reward] * len(children)
    yield  # asks for nothing, but is a generator like the other
