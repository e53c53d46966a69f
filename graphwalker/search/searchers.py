"""The searchers by name."""

from collections.abc import Callable

from graphwalker.errors import UserError
from graphwalker.search.arg import arg_beam, arg_exhaustive
from graphwalker.search.blind import bfs, dfs, random_walk
from graphwalker.search.classic_mcts import classic_mcts
from graphwalker.search.fast_mcts import fast_mcts, fast_mcts_constant
from graphwalker.search.ig_beam import ig_beam
from graphwalker.search.linear import linear, majority_vote
from graphwalker.search.requests import Search
from graphwalker.search.tree import Tree

Searcher = Callable[[Tree], Search]
"""A function over a question's tree that asks for turns and values until it is done."""

SEARCHERS: dict[str, Searcher] = {  # those that ask for turns
    searcher.__name__: searcher
    for searcher in (
        *(linear, majority_vote, bfs, dfs, random_walk, ig_beam),
        *(classic_mcts, fast_mcts, fast_mcts_constant),
    )
}
VALUED = frozenset({"ig_beam", "classic_mcts", "fast_mcts"})
"""The searchers that ask for values."""
REFLECTIVE: dict[str, Searcher] = {searcher.__name__: searcher for searcher in (arg_beam, arg_exhaustive)}
"""The searchers that ask for reflection tokens: their checkpoints have them, and their protocol is reflection."""


def find_searcher(name: str) -> Searcher:
    """The searcher of a name; raises ``UserError`` where there is none."""
    known = SEARCHERS | REFLECTIVE
    if name not in known:
        raise UserError(f"searcher: expected one of {', '.join(known)}, got {name!r}")
    return known[name]
