"""The loop that answers what a searcher asks for."""

from collections.abc import Callable
from typing import Any

from graphwalker.search.searchers import find_searcher
from graphwalker.search.tree import Tree


def drive(tree: Tree, requests: list, answer: Callable[[Any], Any]) -> Tree:
    """Run a tree's searcher to its end; ``requests`` gets all that it asked for."""
    steps, given = find_searcher(tree.config.searcher)(tree), None
    while True:
        try:
            request = steps.send(given)
        except StopIteration:
            return tree
        requests.append(request)
        given = answer(request)
