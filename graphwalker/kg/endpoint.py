"""A knowledge graph behind a SPARQL endpoint: Virtuoso, Oxigraph server, QLever, Fuseki, Blazegraph.

`graphwalker kg connect` makes the folder that names it (`graphwalker.kg.connect`). The store waits on a network, so
callers do well to ask from several threads; equal queries that are under way at a time are sent once, and the answers
of the last ones are kept.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyoxigraph as ox

from graphwalker.errors import QueryMalformed, UserError
from graphwalker.kg.guard import QueryLimits, Rows, guard
from graphwalker.kg.kinds import read_kinds
from graphwalker.kg.meta import META, read_meta
from graphwalker.kg.schema import Schema
from graphwalker.kg.sparql_http import Endpoint, SparqlClient
from graphwalker.kg.sparql_results import QueryFailed, Result
from graphwalker.kg.sparql_store import Row, number
from graphwalker.kg.sparql_text import BLANK
from graphwalker.kg.sparql_xml import Term
from graphwalker.kg.spellings import SPELLINGS, Spellings
from graphwalker.kg.terms import XSD, literal
from graphwalker.kg.together import TogetherStore
from graphwalker.types import Triple

_PAGE = 5_000
_FEW = 100  # rows of a page that may be those of the page before: names come more than once
STORE = "endpoint"


class EndpointStore(TogetherStore):
    """A `KGStore` that asks a SPARQL endpoint; open it with a folder that `graphwalker kg connect` made."""

    remote = True

    def __init__(self, folder: str | Path):
        """Open `folder`; nothing is sent yet. Raises `UserError` when it is missing or its settings are wrong."""
        self.path = Path(folder)
        self.meta = read_meta(self.path, STORE)
        self.endpoint = Endpoint.from_json(self.meta.get(STORE), str(self.path / META))
        schema = Schema.from_json(self.meta["profile"], str(self.path))
        spellings = self.path / SPELLINGS
        names = Spellings(spellings) if spellings.exists() else None
        super().__init__(schema, *read_kinds(self.path), names, at_once=max(1, self.endpoint.connections // 8))
        self.max_rows = self.endpoint.max_rows
        self.client = SparqlClient(self.endpoint)

    @classmethod
    def open(cls, folder: str | Path) -> "EndpointStore":
        return cls(folder)

    def __reduce__(self):
        return type(self), (self.path,)

    def __len__(self) -> int:
        rows = self.rows("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }")
        return number(rows[0]["n"] if rows else "")

    def _fetch(self, sparql: str) -> list[Row]:
        return decoded(self.client.run(sparql), self._short)

    def execute(self, sparql: str, limits: QueryLimits | None = None) -> Rows:
        """A query of any origin, guarded and limited. Raises `QueryRefused` for one that may not be run or that the
        server does not take, and `KGUnavailable` when there is no answer.

        Memory is the server's own affair.
        """
        limits = limits or QueryLimits()
        safe = guard(sparql, limits.with_one_more(), prefixes=self.schema.namespaces)
        try:
            result = self.client.run(safe.text, limits.seconds)
        except QueryFailed as failure:
            if failure.kind == "query":
                raise QueryMalformed(str(failure)) from failure
            raise
        if result.boolean is not None:
            return Rows((), boolean=result.boolean)
        return Rows.cut(decoded(result, self._short), limits)

    def close(self) -> None:
        self.client.close()

    def _query(self, sparql: str) -> list[Row] | bool:
        try:
            result = self.client.run(sparql)
        except QueryFailed as failure:
            if failure.kind == "query":
                raise UserError(f"SPARQL: {failure}") from failure
            raise
        return decoded(result, self._short) if result.boolean is None else result.boolean

    def _scan(self, head: str | None, relation: str | None, tail: str | None) -> Iterator[Triple]:
        """Pages of the server's own order, which stays the same while the graph does."""
        given = {"?s": head, "?p": relation, "?o": tail}
        pattern = " ".join(v if node is None else self.queries.term(node) for v, node in given.items())
        wanted = " ".join(v for v, node in given.items() if node is None) or "?s"
        if None not in (head, relation, tail):
            if self._exists(pattern):
                yield Triple(str(head), str(relation), str(tail))
            return
        size, query = min(_PAGE, self.max_rows or _PAGE), f"SELECT {wanted} {{ {pattern} }}"
        for row in pages(lambda page: decoded(self.client.run(page), self._short), query, size):
            yield Triple(*(row[v[1:]] if node is None else node for v, node in given.items()))


def pages(ask: Callable[[str], list[Row]], query: str, size: int) -> Iterator[Row]:
    """All rows of a query, `size` at a time. Raises `QueryFailed` for a server that would send the same for ever."""
    before: list[Row] = []
    for offset in range(0, 1 << 62, size):
        rows = ask(f"{query} LIMIT {size} OFFSET {offset}")
        if len(rows) > size or (rows == before and size > _FEW and rows):
            raise QueryFailed("malformed", f"the server does not keep to LIMIT {size} OFFSET {offset}")
        yield from rows
        if len(rows) < size:
            return
        before = rows


def decoded(result: Result, short: Callable[[str], str]) -> list[Row]:
    """The rows of a SELECT, with terms as everywhere; `short` makes a node of an IRI. Raises `QueryFailed`."""
    if result.boolean is not None:
        raise QueryFailed("malformed", "the server answered a SELECT with a truth value")
    names = result.variables
    return [
        _Answer({name: _node(term, short) for name, term in zip(names, row, strict=True) if term is not None})
        for row in result.rows
    ]


class _Answer(dict[str, str]):
    """A row; that a server left a variable out that was asked for is an outage."""

    def __missing__(self, key: str) -> str:
        raise QueryFailed("malformed", f"the server sent a row without ?{key}")


def _node(term: dict[str, str] | Term, short: Callable[[str], str]) -> str:
    if isinstance(term, ox.NamedNode):
        return short(term.value)
    if isinstance(term, ox.BlankNode):
        return short(BLANK + term.value)
    if isinstance(term, ox.Literal):
        return _literal(term.value, term.language or "", term.datatype.value)
    kind, value = term["type"], term["value"]
    if kind == "uri":
        return short(value)
    if kind == "bnode":
        return short(value if "://" in value else BLANK + value)
    if kind not in ("literal", "typed-literal"):
        raise QueryFailed("malformed", f"the server sent a term of type {kind!r}")
    return _literal(value, term.get("xml:lang", ""), term.get("datatype", ""))


def _literal(value: str, lang: str, datatype: str) -> str:
    if datatype == XSD + "boolean":
        value = {"1": "true", "0": "false"}.get(value, value)  # as Virtuoso writes them
    return literal(value, lang, "" if lang else datatype)
