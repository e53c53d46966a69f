"""Play states to their ends, one turn at a time: a linear run, or a rollout of Classic MCTS."""

from collections.abc import Sequence

from graphwalker.search.node import Node
from graphwalker.search.requests import Expand, Together
from graphwalker.search.tree import Steps, Tree


def play_out(tree: Tree, starts: Sequence[Node], *, keep: bool) -> Steps:
    """The terminal state that each of ``starts`` comes to, all played side by side.

    With ``keep`` the states on the way enter the tree; else they are gone, but what they come to is met all the same.
    """
    states = list(starts)
    while moving := [i for i, state in enumerate(states) if not state.terminal]:
        groups = yield Together([Expand(states[i]) for i in moving])
        for i, (state,) in zip(moving, groups, strict=True):
            states[i] = state
            if keep:
                tree.grow([state])
            else:
                tree.meet(state)
    return states
