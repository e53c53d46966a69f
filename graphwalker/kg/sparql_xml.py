"""SPARQL results in XML: Virtuoso writes them in half the time that JSON takes it, and they end where they end."""

import re
from typing import NamedTuple

import pyoxigraph as ox

Term = ox.NamedNode | ox.BlankNode | ox.Literal
_END = b"</sparql>"
_CONTROL = bytes({*range(0x20)} - {*b"\t\n"})  # what XML cannot hold, and a carriage return, which it loses
_AMBIGUOUS = (b"<!", b" </literal>", b"\t</literal>", b"\n</literal>", b"\xef\xbf\xbe", b"\xef\xbf\xbf")
_SPACE_FIRST = re.compile(rb"<literal[^>]*>\s")
_VIRTUOSO_BLANK = re.compile(rb"<bnode>(nodeID://[^<]*)</bnode>")  # as IRIs, which is what a query may call them


class Unreadable(ValueError):
    """A whole result that may not be what it looks like, or cannot be read: its JSON is to be asked for."""


class Table(NamedTuple):
    variables: list[str]
    rows: list[ox.QuerySolution]  # a term or None for each variable


def read_xml(body: bytes) -> Table | bool:
    """The rows of a SELECT or the truth of an ASK. Raises `ValueError` for what is no result or cut off, and of that
    `Unreadable`.

    Servers write control characters as they are, and space around a literal's text, which the parser drops.
    """
    if not body.endswith(_END) and not body[-100:].rstrip().endswith(_END):
        raise ValueError("it does not end as XML should")
    odd = len(body.translate(None, _CONTROL)) != len(body) or any(mark in body for mark in _AMBIGUOUS)
    if odd or _SPACE_FIRST.search(body):
        raise Unreadable("characters that XML does not keep")
    if b"<bnode>nodeID" in body:
        body = _VIRTUOSO_BLANK.sub(rb"<uri>\1</uri>", body)
    try:
        found = ox.parse_query_results(body, format=ox.QueryResultsFormat.XML)
        if isinstance(found, ox.QueryBoolean):
            return bool(found)
        names = [variable.value for variable in found.variables]
        rows = list(found)
    except SyntaxError as error:
        raise Unreadable(str(error)) from error
    return Table(names, rows)
