"""The read-only guard: what of SPARQL that a model wrote, or anybody, may be run on a graph.

A query passes when the grammar of `sparql.lark` derives it, which knows neither updates nor SERVICE, CONSTRUCT or
DESCRIBE, and when it calls no function and reads no graph beyond those allowed. What is returned is not the text that
came in but its tokens in one spelling: comments, escapes and prefixes, behind which another parser could read another
query, are gone.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from graphwalker.errors import QueryRefused
from graphwalker.kg.dialect import normal_tokens, with_whole_dates
from graphwalker.kg.sparql_grammar import Structure, structure
from graphwalker.kg.sparql_tokens import Token, spell, tokenize
from graphwalker.kg.terms import XSD, check_id, literal

FORBIDDEN = frozenset(
    ["ADD", "CLEAR", "CONSTRUCT", "COPY", "CREATE", "DEFINE", "DELETE", "DESCRIBE", "DROP", "INSERT", "LOAD", "MOVE"]
    + ["SERVICE", "SPARQL", "WITH"]
)
"""Words that no query may have; the grammar lacks them anyway, this names them in the reason."""
CASTS = frozenset(
    XSD + kind
    for kind in ("boolean", "date", "dateTime", "decimal", "double", "duration", "float", "integer", "string")
)
_GROWTH = 10  # of the text, where prefixes and dates are written out; real queries grow to five times
_LANGUAGE = re.compile(r"[A-Za-z]+(-[A-Za-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What one query may cost. Raises `ValueError` for a limit that leaves room for nothing."""

    rows: int = 1000
    """Rows of the answer; more are cut, and said to be."""
    seconds: float = 10.0
    """Wall-clock time."""
    memory_mb: int = 2048
    """Address space beyond that of an idle worker, in MiB."""
    characters: int = 20_000
    """Length of the text; ten times as many may stand in the query as it is run, with prefixes written out."""
    depth: int = 24
    """Brackets within brackets."""

    def __post_init__(self):
        if min(self.rows, self.seconds, self.memory_mb, self.characters, self.depth) <= 0:
            raise ValueError("limits of a query must be positive")

    def with_one_more(self) -> "QueryLimits":
        """With one row more than is given back, which tells whether there are more."""
        return replace(self, rows=self.rows + 1)


class Rows(NamedTuple):
    """The answer to a query."""

    rows: tuple[dict[str, str], ...]
    """Variable -> term as the store prints it, unbound variables left out."""
    truncated: bool = False
    """Whether there are more rows than the limit let through."""
    boolean: bool | None = None
    """The answer to an ASK, which has no rows."""

    @classmethod
    def cut(cls, rows: Sequence[dict[str, str]], limits: QueryLimits) -> "Rows":
        """What `limits` lets through of the rows of a query that was guarded `with_one_more`."""
        return cls(tuple(rows[: limits.rows]), len(rows) > limits.rows)


class SafeQuery(NamedTuple):
    """A query that may be run, as it is to be run."""

    text: str
    form: str  # SELECT or ASK
    limit: int | None  # rows it asks for at most; None for ASK


def guard(
    text: str,
    limits: QueryLimits | None = None,
    *,
    prefixes: Mapping[str, str] | None = None,
    graphs: Collection[str] = (),
    functions: Collection[str] = CASTS,
    dates: bool = True,
) -> SafeQuery:
    """The query as it may be run: one SELECT or ASK, reading the default graph and the named `graphs`, calling SPARQL's
    own functions and those whose IRIs are in `functions`, with an outer LIMIT of at most ``limits.rows``.

    `prefixes` and `dates` are those of `graphwalker.kg.dialect.normalise`; an engine that compares dates in Virtuoso's
    way needs no `dates`. Raises `QueryRefused` with the reason on one line.
    """
    limits = limits or QueryLimits()
    if len(text) > limits.characters:
        raise QueryRefused(f"the query has {len(text):,} characters, {limits.characters:,} are allowed")
    tokens = tokenize(text)
    _check_words(tokens)
    tokens = normal_tokens(tokens, prefixes, dates=False)
    _check_size(tokens, limits)
    if tokens[:1] and tokens[0].word() not in ("SELECT", "ASK"):
        raise QueryRefused(f"a query begins with SELECT or ASK, not {tokens[0].written()[:40]!r}")
    _check_depth(tokens, limits.depth)
    if dates:
        tokens = with_whole_dates(tokens)
        _check_size(tokens, limits)
    parsed = structure(tokens)
    for place in parsed.functions:
        if tokens[place].text not in functions:
            raise QueryRefused(f"the function {tokens[place].written()[:80]} is not allowed")
    for place in parsed.graphs:
        if tokens[place].kind != "IRI" or tokens[place].text not in graphs:
            raise QueryRefused(f"the graph {tokens[place].written()[:80]} is not to be read")
    if parsed.form == "ASK":
        return SafeQuery(spell(tokens), "ASK", None)
    tokens, limit = _limited(tokens, parsed, limits.rows)
    return SafeQuery(spell(tokens), "SELECT", limit)


def write_iri(iri: str) -> str:
    """An IRI as SPARQL writes it. Raises `ValueError` for what holds a character that no IRI has.

    >>> write_iri("http://rdf.freebase.com/ns/m.02mjmr")
    '<http://rdf.freebase.com/ns/m.02mjmr>'
    """
    return f"<{check_id(iri)}>"


def write_literal(value: str, language: str = "", datatype: str = "") -> str:
    """A literal as SPARQL writes it, whatever is in the value. Raises `ValueError` for a broken tag or datatype.

    >>> print(write_literal('say "no"', "en"))
    "say \\"no\\""@en
    """
    if language and not _LANGUAGE.fullmatch(language):
        raise ValueError(f"not a language tag: {language!r}")
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in value):
        raise ValueError(f"a NUL or half of a surrogate pair is no text: {value[:40]!r}")
    return literal(value, language, check_id(datatype) if datatype else "")


def _check_words(tokens: list[Token]) -> None:
    words = [token.word() for token in tokens]
    if not words:
        raise QueryRefused("the query is empty")
    for word in words:
        if word in FORBIDDEN:
            raise QueryRefused(f"{word} is not allowed: only SELECT and ASK, on this graph alone")


def _check_size(tokens: list[Token], limits: QueryLimits) -> None:
    """Short names and dates can stand for much: 20,000 characters made 11 million, and took half a minute."""
    size = sum(len(token.text) + 1 for token in tokens)
    if size > _GROWTH * limits.characters:
        most = f"{_GROWTH * limits.characters:,}"
        raise QueryRefused(f"the query has {size:,} characters when prefixes and dates are written out, {most} may be")


def _check_depth(tokens: list[Token], most: int) -> None:
    depth = 0
    for token in tokens:
        if token.kind == "PUNCT":
            depth += (token.text in "([{") - (token.text in ")]}")
            if depth > most:
                raise QueryRefused(f"brackets stand more than {most} deep")


def _limited(tokens: list[Token], parsed: Structure, rows: int) -> tuple[list[Token], int]:
    """The tokens with an outer LIMIT of at most `rows`, and what it is."""
    if parsed.limit is None:
        limit, at = rows, parsed.modifiers_end
        tokens = [*tokens[:at], Token("WORD", "LIMIT"), Token("NUMBER", str(limit)), *tokens[at:]]
    else:
        # Compared by length first: a number of thousands of digits is slow to read, and Python refuses to.
        digits, at = tokens[parsed.limit].text.lstrip("0") or "0", parsed.limit
        limit = rows if len(digits) > len(str(rows)) else min(rows, int(digits))
        tokens = [*tokens[:at], Token("NUMBER", str(limit)), *tokens[at + 1 :]]
    again = structure(tokens)
    if again.limit is None or tokens[again.limit].text != str(limit):
        raise QueryRefused("the query has no place for a LIMIT")
    return tokens, limit
