"""What an agent can see from an entity, read whole and kept: one reading answers for all tool calls at the entity.

`SparqlStore` asks for what a call needs in one query that works it out on the server. Virtuoso takes longer to compile
such a query than to send all edges of most entities, so a store behind HTTP reads these: two simple queries for the
edges, and where some lead to mediators two more for the facts across. What several threads want to read at a time is
read with the same queries. An entity with very many edges, or with blank nodes around it, which most servers let no
query name, is left to the queries of `SparqlStore`.
"""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from graphwalker.errors import KGUnavailable
from graphwalker.kg.answers import Answers
from graphwalker.kg.batches import Batches
from graphwalker.kg.sparql_store import HUB, Row, SparqlStore
from graphwalker.kg.store import Step

EDGES, FACTS = 1_000, 4_000  # rows of an entity that are too many: of edges in a direction, of facts across mediators
_KEPT = 512  # entities
_TOGETHER, _SHARED = 16, 6  # entities of a query, and how many of them may have nearly too many rows

Both = tuple[list[Row], list[Row]]
"""Of the edges out of an entity, and into it."""
Ask = Callable[[list[str], int], list[str]]
"""From terms and the most rows that are wanted to the queries for both directions."""


class Near(NamedTuple):
    """An entity's visible steps with their ends, mediators left out, and the names of all; `known`: it has edges."""

    known: bool
    ends: dict[Step, set[str]]
    names: dict[str, str | None]


class NearStore(SparqlStore):
    """A `SparqlStore` that keeps the entities it was last asked about."""

    def __init__(self, *args, at_once: int):
        super().__init__(*args)
        self._kept_near = Answers(_KEPT)
        self._reading: Batches[Near | None] = Batches(self._read, _TOGETHER, at_once)

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
        if near.known:
            self._remember(near.names)
        return {k: self._printed(near.ends.get(step, ()), near.names) for k, step in steps}, set()

    def _near(self, node: str) -> Near | None:
        """None for an entity that is left to the queries."""
        if node[:1] == '"' or not self.queries.term(node):
            return Near(False, {}, {})
        return self._kept_near.get(node, lambda: self._reading.get(node))

    def _read(self, nodes: list[str]) -> list[Near | None]:
        near: dict[str, Near] = {}
        mediated = []
        for node, rows in self._rows(self._edges, nodes, EDGES).items():
            near[node] = Near(any(rows), {}, self._own_name(node, rows[0]))
            is_mediator = near[node].names[node] is None and self.schema.can_mediate(node)
            if not is_mediator and self._add(near[node], node, rows):
                mediated.append(node)
        facts = self._rows(self._across, mediated, FACTS) if mediated else {}
        for node in mediated:
            if node in facts:
                self._add(near[node], node, facts[node])
            else:
                del near[node]
        return [near.get(node) for node in nodes]

    def _edges(self, terms: list[str], most: int) -> list[str]:
        return [self.queries.edges(terms, inverse, most) for inverse in (False, True)]

    def _across(self, terms: list[str], most: int) -> list[str]:
        return [self.queries.across(terms, inverse, EDGES * len(terms), most) for inverse in (False, True)]

    def _rows(self, ask: Ask, nodes: Sequence[str], bound: int) -> dict[str, Both]:
        """The rows of each entity in both directions, without entities with too many or with blank nodes."""
        found: dict[str, Both] = {node: ([], []) for node in nodes}
        most = min(bound, HUB, self.max_rows or bound)
        limit = most if len(found) == 1 else min(_SHARED * most, self.max_rows or _SHARED * most)
        answers = self._together(ask([self.queries.term(node) for node in found], limit))
        for inverse, rows in enumerate(answers):
            for row in rows:
                if row["e"] not in found:
                    raise KGUnavailable(
                        f"a row about {row['e'][:40]!r} came, which was not asked for", kind="malformed"
                    )
                found[row["e"]][inverse].append(row)
        few = {node: both for node, both in found.items() if max(map(len, both)) < most}
        if all(len(rows) < limit for rows in answers):
            return {node: both for node, both in few.items() if not _has_blank(both)}
        rest = list(few)  # the answer may be cut: without those that are known to have too many, or by halves
        parts = [rest] if len(rest) < len(found) else [rest[: len(rest) // 2], rest[len(rest) // 2 :]]
        return {node: both for part in parts if part for node, both in self._rows(ask, part, bound).items()}

    def _own_name(self, node: str, out: list[Row]) -> dict[str, str | None]:
        level = {predicate: i for i, predicate in enumerate(self.schema.name_predicates)}
        own = [{"x": node, f"n{level[row['p']]}": row["x"]} for row in out if row["p"] in level]
        return self._names_of_ends(own or [{"x": node}])

    def _add(self, near: Near, node: str, both: Both) -> bool:
        """Put rows (p, x) or (p, q, x), with names, into `near`; returns whether any led to a mediator."""
        mediated = False
        for inverse, rows in zip((False, True), both, strict=True):
            names = self._names_of_ends(rows)
            near.names.update(names)
            by_parts: dict[tuple[str, ...], set[str]] = defaultdict(set)
            for row in rows:
                by_parts[(row["p"], row["q"]) if "q" in row else (row["p"],)].add(row["x"])
            for parts, ends in by_parts.items():
                if not all(map(self.schema.is_visible, parts)):
                    continue
                shown = {x for x in ends if x[0] == '"' or names[x] is not None or not self.schema.can_mediate(x)}
                mediated |= len(shown) < len(ends)
                if inverse or len(parts) == 2:
                    shown.discard(node)
                if shown:
                    near.ends.setdefault(Step(".".join(parts), inverse, parts), set()).update(shown)
        return mediated


def _has_blank(both: Both) -> bool:
    return any(row["x"].startswith("_:") for rows in both for row in rows)
