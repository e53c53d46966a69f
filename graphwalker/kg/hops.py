"""Single edges around a node, both ways, mediators (CVTs) among the nodes: the hops of ArG (its Tables 6 to 8).

`KGStore.steps` flattens mediators away; a path of ArG walks through them, as nodes that are named by their id.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from graphwalker.kg.store import KGStore

Edge = tuple[str, bool]
"""A relation and whether it is walked from its tail to its head."""
_KEPT = 4096  # nodes whose edges are remembered


@dataclass(frozen=True, slots=True)
class Ends:
    """What a relation leads to: the ids and the names of at most the limit's nodes, and how many there are."""

    nodes: tuple[str, ...]
    names: tuple[str, ...]
    total: int


class Hops:
    """The hops of a graph, sorted and deterministic. `KGUnavailable` is raised by every method.

    Of a mediator all visible edges are hops. Of a named node those that its steps begin with: a way in that a declared
    reverse states as a way out is left out, as it is in `KGStore.steps`.
    """

    def __init__(self, store: KGStore):
        self.store = store
        self.edges = lru_cache(_KEPT)(self._edges)
        self._around = lru_cache(_KEPT)(self._ends)

    def ends(self, node: str, edge: Edge, limit: int, without: Iterable[str] = ()) -> Ends:
        """Where an edge leads, sorted by name and id, the first ``limit`` of what is not in ``without``."""
        left_out = frozenset(without)
        found = [(name, end) for name, end in self._around(node, edge) if end not in left_out]
        shown = found[:limit]
        return Ends(tuple(end for _, end in shown), tuple(name for name, _ in shown), len(found))

    def tails(self, node: str, edge: Edge, most: int | None = None) -> list[str]:
        """The ids that an edge leads to, sorted, without the node itself; of more than ``most`` edges, the first that
        the store gives."""
        relation, inverse = edge
        triples = self.store.match(None if inverse else node, relation, node if inverse else None)
        return sorted({t.head if inverse else t.tail for t in islice(triples, most)} - {node})

    def name(self, node: str) -> str:
        """The node's name, a literal's text, or its id where it has none."""
        return self.store.names([node])[0] or node

    def _edges(self, node: str) -> tuple[Edge, ...]:
        if node[:1] == '"':  # only the ways in: nothing is said of a literal
            return ()
        if not self.store.is_mediator(node):
            steps = self.store.steps(node)
            return tuple(sorted({(s.parts[-1] if s.inverse else s.parts[0], s.inverse) for s in steps}))
        visible = self.store.schema.is_visible
        out = {(t.relation, False) for t in self.store.match(head=node) if visible(t.relation)}
        back = {(t.relation, True) for t in self.store.match(tail=node) if visible(t.relation)}
        return tuple(sorted(out | back))

    def _ends(self, node: str, edge: Edge) -> tuple[tuple[str, str], ...]:
        nodes = self.tails(node, edge)
        names = self.store.names(nodes)
        return tuple(sorted((name or end, end) for name, end in zip(names, nodes, strict=True)))
