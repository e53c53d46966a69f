"""What an agent can see from an entity, read whole and kept: one reading answers for all tool calls at the entity.

`SparqlStore` asks for what a call needs in one query that works it out on the server. Virtuoso takes longer to compile
such a query than to send all edges of most entities, so a store behind HTTP reads these: two simple queries for the
edges, and where one leads to a mediator two more for the facts across. An entity with very many edges, or with blank
nodes around it, which most servers let no query name, is left to the queries of `SparqlStore`.
"""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from graphwalker.kg.answers import Answers
from graphwalker.kg.sparql_store import HUB, Row, SparqlStore
from graphwalker.kg.store import Step

EDGES, FACTS = 1_000, 4_000  # rows of a query for edges, or for facts across mediators, that are too many
_KEPT = 512  # entities


class Near(NamedTuple):
    """An entity's visible steps with their ends, mediators left out, and the names of these; `known`: it has edges."""

    known: bool
    ends: dict[Step, set[str]]
    names: dict[str, str | None]


class NearStore(SparqlStore):
    """A `SparqlStore` that keeps the entities it was last asked about."""

    def __init__(self, *args):
        super().__init__(*args)
        self._kept_near = Answers(_KEPT)

    @abstractmethod
    def _together(self, queries: Sequence[str]) -> list[list[Row]]:
        """The rows of several SELECTs, asked for at the same time. Raises `KGUnavailable`."""

    def has_node(self, node: str) -> bool:
        if node[:1] == '"':
            return super().has_node(node)
        near = self._near(node)
        return near is None or near.known

    def _all_steps(self, node: str) -> set[Step]:
        near = self._near(node)
        return super()._all_steps(node) if near is None else set(near.ends)

    def _ends(self, node: str, steps: list[tuple[int, Step]]) -> tuple[dict[int, list[tuple[str, str]]], set[int]]:
        near = self._near(node)
        if near is None:
            return super()._ends(node, steps)
        self._remember(near.names)
        return {k: self._printed(near.ends.get(step, ()), near.names) for k, step in steps}, set()

    def _near(self, node: str) -> Near | None:
        return self._kept_near.get(node, lambda: self._read(node))

    def _read(self, node: str) -> Near | None:
        """None for an entity that is left to the queries."""
        term = "" if node[:1] == '"' else self.queries.term(node)
        if not term:
            return Near(False, {}, {})
        most, at_most = (min(bound, HUB, self.max_rows or bound) for bound in (EDGES, FACTS))
        edges = self._together([self.queries.edges(term, inverse, most) for inverse in (False, True)])
        if any(len(rows) >= most or _has_blank(rows) for rows in edges):
            return None
        near, predicates = Near(any(edges), defaultdict(set), {}), self.schema.name_predicates
        own = [{"x": node, f"n{predicates.index(row['p'])}": row["x"]} for row in edges[0] if row["p"] in predicates]
        if self.schema.can_mediate(node) and self._best_names(own).get(node) is None:
            return near
        ways = [bool(k) for k, rows in enumerate(edges) if self._add(near, node, bool(k), rows)]
        walks = self._together([self.queries.across(term, inverse, most, at_most) for inverse in ways]) if ways else []
        if any(len(rows) >= at_most or _has_blank(rows) for rows in walks):
            return None
        for inverse, rows in zip(ways, walks, strict=True):
            self._add(near, node, inverse, rows)
        return near

    def _add(self, near: Near, node: str, inverse: bool, rows: list[Row]) -> bool:
        """Put rows (p, x) or (p, q, x), with names, into `near`; returns whether any led to a mediator."""
        visible, can_mediate, mediated = self.schema.is_visible, self.schema.can_mediate, False
        names = self._names_of_ends(rows)
        near.names.update(names)
        for row in rows:
            parts, end = (row["p"], row["q"]) if "q" in row else (row["p"],), row["x"]
            if (end == node and (inverse or len(parts) == 2)) or not all(map(visible, parts)):
                continue
            if end[0] == '"' or names[end] is not None or not can_mediate(end):
                near.ends[Step(".".join(parts), inverse, parts)].add(end)
            else:
                mediated = True
        return mediated


def _has_blank(rows: Iterable[Row]) -> bool:
    return any(row["x"].startswith("_:") for row in rows)
