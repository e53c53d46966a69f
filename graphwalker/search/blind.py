"""Traversals that treat all states equally: breadth first, depth first, random walk (MCTS-KBQA, section 4.2).

Each expands a state into n children as the others do, and none of them asks for a value.
"""

from graphwalker.search.node import Node
from graphwalker.search.requests import Search
from graphwalker.search.tree import Choose, Tree, descend, is_open


def bfs(tree: Tree) -> Search:
    """The shallowest leaf first, of those the earliest."""
    yield from _traverse(tree, lambda tree: min(_leaves(tree), key=lambda node: (node.depth, node.number)))


def dfs(tree: Tree) -> Search:
    """The first child's branch to its end, then its sibling's."""
    yield from _traverse(tree, lambda tree: _leaves(tree)[0])  # leaves come in preorder


def random_walk(tree: Tree) -> Search:
    """From the root by a uniform choice at each level, down to a leaf."""
    yield from _traverse(tree, lambda tree: descend(tree, tree.random.choice))


def _traverse(tree: Tree, choose: Choose) -> Search:
    while (leaf := tree.select(choose)) is not None:
        yield from tree.expand(leaf)


def _leaves(tree: Tree) -> list[Node]:
    return [node for node in tree.root.walk() if not node.children and is_open(node)]
