"""Classic MCTS: a child is worth what a rollout from it comes to (MCTS-KBQA, Algorithm 1)."""

from graphwalker.search.play_out import play_out
from graphwalker.search.requests import Score, Search
from graphwalker.search.tree import Tree, by_uct


def classic_mcts(tree: Tree) -> Search:
    """Algorithm 1, the rollouts of siblings side by side.

    The states of a rollout never enter the tree. What it comes to counts among the valid terminals (k) and votes: the
    costs that the paper reports (Table 5, and about ten rewards a question in appendix A.3) are those of two
    expansions, which could not end a search otherwise. Merged children are rolled out once.
    """
    while (leaf := tree.select(by_uct)) is not None:
        children = yield from tree.expand(leaf)
        tree.simulated += sum(not child.terminal for child in children)
        ends = yield from play_out(tree, children, keep=False)
        rewards = yield Score(ends)
        for child, end, reward in zip(children, ends, rewards, strict=True):
            end.value = reward
            tree.back_up(child, reward)
