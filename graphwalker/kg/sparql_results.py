"""What an HTTP answer to a SPARQL query means: rows, or one of the ways in which there is no answer.

A server that is in trouble must never look like a graph without triples. Virtuoso in particular answers 200 with the
rows it has so far, or none, when its time limit strikes, and says so only in a header (`X-SQL-State: S1TAT`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from graphwalker.errors import KGUnavailable
from graphwalker.files import parse_json
from graphwalker.kg.sparql_xml import Term, Unreadable, read_xml

Kind = Literal["timeout", "refused", "reset", "server", "malformed", "query", "down"]
"""Of a failure: no answer in time; no connection; a connection that broke; an error status; an answer that is cut or no
SPARQL result; a query that the server does not take; the breaker is open, so nothing was sent."""

_TRANSIENT = (429, 500, 502, 503, 504)
_TIMED_OUT = ("S1TAT", "S1T00")  # Virtuoso's states: an "anytime" answer, a transaction that was stopped
_LONGEST_WAIT = 60.0  # seconds; a server that asks for more is not asked again by this query
_LANG = re.compile(r"[A-Za-z0-9-]*")
_SHOWN = 200  # characters of a server's message
_VIRTUOSO_TRUTH = "__ASK_RETVAL"  # a row for true, none for false
JSON, XML = "application/sparql-results+json", "application/sparql-results+xml"


class QueryFailed(KGUnavailable):
    """A query without an answer; `kind` says why, `retry` whether it may be sent again.

    `alive` says that the server itself reported it and is up: only this query was too much, or wrong.
    """

    def __init__(self, kind: Kind, message: str, *, retry: bool = False, after: float = 0.0, alive: bool = False):
        super().__init__(message, "kg_timeout" if kind == "timeout" else "kg_error", kind)
        self.retry, self.alive = retry, alive
        self.after = after  # seconds that the server asks to be left alone


class NotInXml(QueryFailed):
    """An answer in XML that only JSON can give exactly: the query is to be sent again, for that."""


class Result(NamedTuple):
    """Of a SELECT the variables and rows with a term, or None, for each; of an ASK the `boolean`. Terms are as JSON has
    them, or parsed. `cut` when the server left rows out."""

    variables: Sequence[str]
    rows: Sequence[Iterable[dict[str, str] | Term | None]]
    boolean: bool | None
    cut: bool


def interpret(status: int, headers: Mapping[str, str], body: bytes) -> Result:
    """The result in an HTTP answer, in XML or JSON. `headers` must not care for case. Raises `QueryFailed`, and of
    that `NotInXml` where the same query must be asked again in JSON."""
    state = headers.get("x-sql-state", "")
    message = headers.get("x-sql-message", "") or body[:_SHOWN].decode("utf-8", "replace").strip()
    if state in _TIMED_OUT or (status >= 500 and any(code in message for code in _TIMED_OUT)):
        raise QueryFailed("timeout", f"the server stopped the query at its time limit ({_line(message)})", alive=True)
    if state:
        raise QueryFailed("server", f"the server answered with SQL state {state}: {_line(message)}", retry=True)
    if status in (408, 504):
        raise QueryFailed("timeout", f"the server answered {status}: {_line(message)}")
    if status in _TRANSIENT:
        after = _after(headers)
        wish = f" and asks for {after:,.0f} s of peace" if after > _LONGEST_WAIT else ""
        problem = f"the server answered {status}{wish}: {_line(message)}"
        raise QueryFailed("server", problem, retry=not wish, after=after)
    if status != 200:
        kind: Kind = "query" if status == 400 else "server"
        raise QueryFailed(kind, f"the server answered {status}: {_line(message)}", alive=kind == "query")
    in_xml, cut = body.lstrip()[:1] == b"<", "x-sparql-maxrows" in headers
    try:
        return _of_xml(body, cut) if in_xml else _of_json(parse_json(body), cut)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        shown = _line(body[:_SHOWN].decode("utf-8", "replace")) or "(nothing)"
        problem = f"not a SPARQL result in {'XML' if in_xml else 'JSON'} ({error}): {shown}"
        failure = NotInXml if isinstance(error, Unreadable) else QueryFailed
        raise failure("malformed", problem, retry=True) from error


def _of_xml(body: bytes, cut: bool) -> Result:
    found = read_xml(body)
    if isinstance(found, bool):
        return Result([], [], found, cut)
    if found.variables == [_VIRTUOSO_TRUTH]:
        return Result([], [], bool(found.rows), cut)
    return Result(found.variables, found.rows, None, cut)


def _of_json(record: Any, cut: bool) -> Result:
    if "boolean" in record:
        if not isinstance(record["boolean"], bool):
            raise ValueError("boolean is neither true nor false")
        return Result([], [], record["boolean"], cut)
    bindings, variables = record["results"]["bindings"], record["head"]["vars"]
    if not isinstance(bindings, list) or not isinstance(variables, list):
        raise ValueError("bindings or variables that are no list")
    if variables == [_VIRTUOSO_TRUTH]:
        return Result([], [], bool(bindings), cut)
    for row in bindings:
        for term in row.values():
            _check(term)
    return Result(variables, [[row.get(name) for name in variables] for row in bindings], None, cut)


def _check(term: Any) -> None:
    """Raises `ValueError` for a term that could not be told from another one, or be written down."""
    kind, value = term["type"], term["value"]
    if not isinstance(kind, str) or not isinstance(value, str):
        raise ValueError("a term without type and value")
    if kind == "uri" and value[:1] in ("", '"'):
        raise ValueError(f"{value[:20]!r} as a URI")
    if kind == "bnode" and not value:
        raise ValueError("a blank node without a label")
    lang, datatype = term.get("xml:lang", ""), term.get("datatype", "")
    if not isinstance(lang, str) or not isinstance(datatype, str) or not _LANG.fullmatch(lang) or '"' in datatype:
        raise ValueError("a language or datatype that is none")


def _after(headers: Mapping[str, str]) -> float:
    """Seconds in Retry-After, where it is a number."""
    text = headers.get("retry-after", "")
    return float(text[:9]) if text.isascii() and text.isdigit() else 0.0


def _line(text: str) -> str:
    return " ".join(text.split())[:_SHOWN]
