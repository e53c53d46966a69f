"""The tools over one store with SPARQL: what a call finds depends on its arguments alone."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from graphwalker.errors import KGUnavailable, QueryMalformed, QueryRefused, UserError
from graphwalker.kg.guard import QueryLimits, Rows
from graphwalker.kg.search import EntitySearch, Hit
from graphwalker.kg.sparql_store import SparqlStore
from graphwalker.kg.store import KGStore
from graphwalker.kg.worker import NO_SPARQL
from graphwalker.protocol.interactive import (
    EXECUTE,
    FORMS,
    SEARCH_NODES,
    SEARCH_PATTERNS,
    SEARCH_TYPES,
    Call,
    CallError,
    parse_call,
)
from graphwalker.tools.kbqa.forms import Form, listed
from graphwalker.tools.kbqa.kqapro import NAME, KQAProForm
from graphwalker.tools.kbqa.patterns import Around, Ranker, center, collect, distinct, ranked, readable
from graphwalker.tools.kbqa.type_search import TypeSearch
from graphwalker.tools.observation import Observation, error, outage
from graphwalker.tools.ranking import by_words

TOOL_SETS = {
    "freebase": (SEARCH_NODES, SEARCH_PATTERNS, EXECUTE),
    "grailqa": (SEARCH_TYPES, SEARCH_NODES, SEARCH_PATTERNS, EXECUTE),
    "kqapro": (SEARCH_NODES, SEARCH_PATTERNS, EXECUTE),
}
"""The tools that each kind of knowledge base has."""

_LOOKED_AT = 20  # ends of a relation of which the first by name is the example
_ORDERED = re.compile(r"\bORDER\s+BY\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Executed:
    """A query that ran: its text, what it found as an answer, and whether it found anything."""

    sparql: str
    answer: tuple[str, ...]
    found: bool


class Said(NamedTuple):
    """What a call comes to: the observation and, of an ExecuteSPARQL that ran, its result."""

    observation: Observation
    executed: Executed | None = None


@dataclass(frozen=True, slots=True)
class KBQALimits:
    """How much the tools look at and show."""

    nodes: int = 10  # names that SearchNodes shows
    patterns: int = 10  # patterns that SearchGraphPatterns shows (Interactive-KBQA's default)
    entities: int = 30  # entities that a pattern search looks at, of those its query binds
    rows: int = 20  # rows of a result that are shown; the answer has all that were fetched
    types: int = 10  # classes that SearchTypes shows


class KBQAToolbox:
    """The tools over one store; share it between episodes, its caches are bounded by `cache_size` entries each.

    `kg` is the folder of the store, in which the index of names stands or is made; a remote store without an index is
    asked for whole names. `ranker` orders patterns by a meaning. A call that took too long is not made again.
    Raises `UserError` for a store without SPARQL.
    """

    def __init__(
        self,
        store: KGStore,
        kg: str | Path,
        tools: str = "freebase",
        *,
        limits: KBQALimits | None = None,
        query_limits: QueryLimits | None = None,
        ranker: Ranker = by_words,
        cache_size: int = 4096,
        progress: bool = False,
    ):
        if not isinstance(store, SparqlStore):
            raise UserError(f"{kg} {NO_SPARQL}")
        if tools not in TOOL_SETS:
            raise UserError(f"no tools {tools!r}: expected one of {', '.join(TOOL_SETS)}")
        if tools == "kqapro" and NAME not in store.schema.name_predicates:
            raise UserError(
                f"{kg}: the tools kqapro need a KG with the schema kqapro, this one has {store.schema.name}"
            )
        self.store, self.kind, self.tools = store, tools, TOOL_SETS[tools]
        self.limits, self.query_limits = limits or KBQALimits(), query_limits or QueryLimits()
        self._form: Form = KQAProForm(store) if tools == "kqapro" else Form(store)
        self._names = _search(store, kg, 2 * self.limits.nodes, progress)
        self._ranker = ranker
        self._types = TypeSearch(store)
        self._cache_size = cache_size
        self._slow: dict[tuple, None] = {}  # calls that took too long: the samples of a search repeat each other
        self._walks = lru_cache(maxsize=4 * cache_size)(store.walks)
        self._run = lru_cache(maxsize=cache_size)(self._call)
        self._by_tool: dict[str, Callable[..., Said]] = {
            SEARCH_NODES: self._search_nodes,
            SEARCH_PATTERNS: self._search_patterns,
            EXECUTE: self._execute,
            SEARCH_TYPES: self._search_types,
        }

    def run(self, action: str) -> Said:
        """What a call (the raw text of an action) comes to; every problem is an observation too."""
        call = parse_call(action)
        if isinstance(call, CallError):
            return Said(error(f"{call.message} {self.usage}", "bad_query"))
        return self.call(call)

    def call(self, call: Call) -> Said:
        """`run`, of a call that was read."""
        if call.tool not in self.tools:
            return Said(error(f"there is no tool {call.tool} here. {self.usage}", "bad_query"))
        key = (call.tool, *call.arguments.items())
        if key in self._slow:
            return _TIMED_OUT
        try:
            return self._run(*key)
        except QueryMalformed as problem:
            return Said(error(f"the query cannot be read: {_line(problem)}", "bad_query"))
        except QueryRefused as problem:
            return Said(error(f"the query is not run: {_line(problem)}", "refused"))
        except KGUnavailable as problem:
            if problem.status != "kg_timeout":
                return Said(outage(problem))
            self._slow = {**self._slow, key: None} if len(self._slow) < self._cache_size else {key: None}
            return _TIMED_OUT

    @property
    def usage(self) -> str:
        return "The calls are: " + ", ".join(FORMS[tool] for tool in (*self.tools, "Done")) + "."

    def _call(self, tool: str, *arguments: tuple[str, str]) -> Said:
        return self._by_tool[tool](**dict(arguments))

    def _search_nodes(self, name: str) -> Said:
        lines = self._form.nodes(self._names(name), self.limits.nodes)
        return Said(_list_of(listed(lines, escaped=True), len(lines), 0, "names"))

    def _search_types(self, name: str) -> Said:
        found = self._types.search(name)
        shown = found[: self.limits.types]
        return Said(_list_of(listed(shown), len(shown), len(found) - len(shown), "classes"))

    def _search_patterns(self, sparql: str, semantic: str = "") -> Said:
        most = self.limits.patterns
        if (asked := center(readable(sparql))) is not None and asked.open:
            every = self.predicates(semantic)
            return Said(_list_of(listed(every[:most]), len(every[:most]), len(every) - most, "patterns"))
        around = self.around(sparql, semantic)
        shown = around.found[:most]
        text = self._form.listed(self._form.patterns(shown, _LOOKED_AT))
        said = _list_of(text, len(shown), len(around.found) - len(shown), "patterns")
        if around.bound > around.looked_at:
            least = "more than " if around.cut else ""
            note = f"... of {around.looked_at} entities that were looked at, out of {least}{around.bound}"
            said = Observation(f"{said.text}\n{note}", said.status)
        return Said(said)

    def around(self, sparql: str, semantic: str = "") -> Around:
        """All patterns around what a query binds, best first. Raises `QueryRefused` and `KGUnavailable`."""
        asked = center(readable(sparql))
        if asked is None:
            raise QueryMalformed(f"it must select ?e alone. Write {FORMS[SEARCH_PATTERNS]}.")
        found = self._query(distinct(sparql))
        every = sorted({row[asked.variable] for row in found.rows if row.get(asked.variable, '"')[0] != '"'})
        nodes = every[: self.limits.entities]
        patterns = [item for item in collect(nodes, self._walks) if self._form.shows(item[0])]
        patterns = ranked(patterns, semantic, self._ranker)
        return Around(patterns, len(nodes), len(every), found.truncated)

    def predicates(self, semantic: str = "") -> list[str]:
        """The patterns of the whole graph, the nearest to a meaning first."""
        names = self._form.predicates()
        scores = self._ranker(semantic, names) if semantic else [0.0] * len(names)
        order = sorted(zip(scores, names, strict=True), key=lambda item: (-float(item[0]), item[1]))
        return [name for _, name in order]

    def _execute(self, sparql: str) -> Said:
        answer = self._query(sparql)
        if answer.boolean is not None:
            truth = self._form.truths[0 if answer.boolean else 1]
            return Said(Observation(str(answer.boolean)), Executed(sparql, (truth,), True))
        keys = list(dict.fromkeys(key for row in answer.rows for key in row))
        shown = self._form.results(value for row in answer.rows for value in row.values())
        rows = [tuple(shown[row[key]] if key in row else None for key in keys) for row in answer.rows if row]
        if not _ORDERED.search(sparql):
            rows.sort(key=lambda row: [cell.text if cell else "" for cell in row])
        first = dict.fromkeys(cell.answer for row in rows for cell in row[:1] if cell)
        texts: list[str | tuple[str | None, ...]] = list(
            dict.fromkeys(
                (row[0].text if row[0] else "") if len(row) == 1 else tuple(cell.text if cell else None for cell in row)
                for row in rows
            )
        )
        visible = texts[: self.limits.rows]
        said = _list_of(listed(visible), len(visible), len(texts) - len(visible), "rows", answer.truncated)
        return Said(said, Executed(sparql, tuple(first), bool(first)))

    def _query(self, sparql: str) -> Rows:
        return self.store.execute(self._form.before + readable(sparql), self.query_limits)


_TIMED_OUT = Said(error("timed out: the query takes too long. Ask for less.", "kg_timeout"))


def _list_of(text: str, shown: int, more: int, what: str, at_least: bool = False) -> Observation:
    """A list as an observation, with how many more there are."""
    if more > 0 or at_least:
        least = "at least " if at_least else ""
        text += f"\n... {least}{max(more, 1)} more {what}"
    return Observation(text, "ok" if shown else "empty")


def _line(problem: Exception) -> str:
    return " ".join(str(problem).split())


def _search(store: SparqlStore, kg: str | Path, limit: int, progress: bool) -> Callable[[str], list[Hit]]:
    """Finding entities by name: in the KG's index, or where a remote graph has none, by asking for the whole name."""
    try:
        search = EntitySearch(store, kg) if store.remote else EntitySearch.open(store, kg, progress=progress)
    except UserError:
        if not store.remote:
            raise
        return lambda name: _whole(store, name, limit)
    return lambda name: search.names(name, limit=limit, thorough=False)


def _whole(store: SparqlStore, name: str, limit: int) -> list[Hit]:
    found = [("exact", node) for node in store.named(name)]
    found += [("folded", node) for node in store.named(name, ignore_case=True)]
    first: dict[str, str] = {}
    for match, node in found[:limit]:
        first.setdefault(node, match)
    names = store.names(list(first))
    return [
        Hit(node, own, match, own or node, 100.0, tuple(store.types(node)), 0)
        for (node, match), own in zip(first.items(), names, strict=True)
    ]
