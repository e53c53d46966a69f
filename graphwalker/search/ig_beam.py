"""IG-beam: the value of Fast MCTS, but at each depth only the best states stay (MCTS-KBQA, section 4.2)."""

from graphwalker.search.node import Node
from graphwalker.search.requests import Expand, Score, Search, Together
from graphwalker.search.tree import Tree


def ig_beam(tree: Tree) -> Search:
    """Expand a whole level, score its children, keep the best ``beam_width`` of those that are not terminal.

    Ends with k valid terminals or when a level has no state to expand; the budgets B and T are those of MCTS.
    """
    level = [tree.root]
    while not tree.enough() and level:
        groups = yield Together([Expand(node, tree.config.width) for node in level])
        children: list[Node] = [child for group in groups for child in tree.grow(group)]
        rewards = yield Score(children)
        for child, reward in zip(children, rewards, strict=True):
            tree.back_up(child, reward)
        going_on = [child for child in children if not child.terminal]
        going_on.sort(key=lambda child: -(child.value or 0.0))  # stable: the earlier one of equals
        level = going_on[: tree.config.beam_width]
    tree.stopped = tree.stopped or "exhausted"
