"""Published SPARQL as standard SPARQL: what Virtuoso reads and other engines do not, rewritten token by token.

The gold queries of WebQSP, CWQ, GrailQA, LC-QuAD and QALD are written for Virtuoso. They have `OR` for `||`,
`xsd:datetime(...)`, dates without a time typed as `xsd:dateTime` beside `xsd:gYear` values,
`SELECT DISTINCT COUNT(?x)`, aggregates beside variables without a GROUP BY, prefixes that Virtuoso knows without a
declaration, prefixed names with several dots (standard, but pyoxigraph cannot read them), and sometimes a prefix lost
altogether (`PREFIX <http://…>` and then bare `people.person.religion`).
"""

import re
from collections.abc import Mapping
from urllib.parse import urljoin

from graphwalker.errors import QueryMalformed
from graphwalker.kg.aggregates import closing, named_aggregates, punct
from graphwalker.kg.sparql_tokens import Token, spell, tokenize
from graphwalker.kg.terms import XSD

KNOWN_PREFIXES: Mapping[str, str] = {
    "ns": "http://rdf.freebase.com/ns/",
    "owl": "http://www.w3.org/2002/07/owl#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "xsd": XSD,
}
"""Prefixes that need no declaration."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_XSD_NAMES = {name.lower(): name for name in ("boolean", "date", "dateTime", "decimal", "double", "float", "integer")}
_PARTIAL_DATES = (  # what Freebase's dates look like, the type each has in its dump, and what makes it a time
    (re.compile(r"-?\d{4}"), "gYear", "-01-01T00:00:00"),
    (re.compile(r"-?\d{4}-\d\d"), "gYearMonth", "-01T00:00:00"),
    (re.compile(r"-?\d{4}-\d\d-\d\d"), "date", "T00:00:00"),
)
_COMPARISONS = ("<", ">", "<=", ">=", "=", "!=")
_LONGEST_IRI = 2_000  # characters; each use of a prefix repeats what it stands for
_LONGEST = 40  # tokens; a longer value, such as one that is rewritten itself, is not repeated in a rewritten call
_DATE_TIME = Token("IRI", XSD + "dateTime")


def normalise(text: str, prefixes: Mapping[str, str] | None = None, *, dates: bool = True) -> str:
    """The query in standard SPARQL and one spelling: no comments, escapes, prefixes or Virtuoso's own words.

    `prefixes` are known beside `KNOWN_PREFIXES` and come before them; the query's own come before both. With `dates`,
    dates without a time compare as Virtuoso compares them, `1993` being its first moment. Raises `QueryRefused` for
    what is no SPARQL. Says nothing about whether the query may be run: `graphwalker.kg.guard` does.

    >>> normalise("SELECT DISTINCT COUNT(?x) {?x ns:a.b.c 'Rome'@en}")
    'SELECT( COUNT( DISTINCT ?x ) AS ?count ) { ?x <http://rdf.freebase.com/ns/a.b.c> "Rome" @en }'
    """
    return spell(normal_tokens(tokenize(text), prefixes, dates=dates))


def normal_tokens(tokens: list[Token], prefixes: Mapping[str, str] | None = None, *, dates: bool = True) -> list[Token]:
    """`normalise`, from tokens to tokens."""
    tokens = _words(_without_prefixes(tokens, {**KNOWN_PREFIXES, **(prefixes or {})}))
    tokens = named_aggregates(tokens)
    return with_whole_dates(tokens) if dates else tokens


def _without_prefixes(tokens: list[Token], prefixes: dict[str, str]) -> list[Token]:
    """The tokens after the declarations, with each name as the IRI it stands for."""
    base, bare, at = "", None, 0
    while at < len(tokens) and tokens[at].word() in ("PREFIX", "BASE"):
        declared = tokens[at + 1 : at + 3]
        kinds = [token.kind for token in declared]
        if kinds[:1] == ["IRI"]:  # BASE <...>, or a PREFIX that lost its name
            iri = _resolved(declared[0].text, base)
            if tokens[at].word() == "BASE":
                base = iri
            else:
                bare = prefixes[""] = iri
            at += 2
        elif tokens[at].word() == "PREFIX" and kinds == ["PNAME", "IRI"] and declared[0].text[-1] == ":":
            prefixes[declared[0].text[:-1]] = _resolved(declared[1].text, base)
            at += 3
        else:
            raise QueryMalformed(f"a {tokens[at].word()} that declares nothing")
    found = []
    for token in tokens[at:]:
        if token.kind == "IRI":
            found.append(Token("IRI", _resolved(token.text, base)))
        elif token.kind == "PNAME":
            found.append(Token("IRI", _expanded(token.text, prefixes)))
        elif token.kind == "DOTTED" and bare is not None:
            found.append(Token("IRI", bare + token.text))
        elif token.kind == "DOTTED":
            found += tokenize(token.text.replace(".", " . "))
        else:
            found.append(token)
    return found


def _resolved(iri: str, base: str) -> str:
    if len(iri) > _LONGEST_IRI:
        raise QueryMalformed(f"an IRI of {len(iri):,} characters, {_LONGEST_IRI:,} are allowed: <{iri[:60]}…")
    if _SCHEME.match(iri):
        return iri
    try:
        whole = urljoin(base, iri)
    except ValueError as error:  # what the IRI has for a host is none
        raise QueryMalformed(f"<{iri[:60]}> and the BASE <{base[:60]}> make no IRI: {error}") from error
    if not _SCHEME.match(whole):  # without a BASE, or with one such as <urn:x> that nothing is relative to
        raise QueryMalformed(f"<{iri[:60]}> is not a whole IRI")
    return whole


def _expanded(name: str, prefixes: Mapping[str, str]) -> str:
    prefix, _, local = name.partition(":")
    if prefix not in prefixes:
        raise QueryMalformed(f"the prefix {prefix + ':'!r} is not declared")
    return prefixes[prefix] + re.sub(r"\\(.)", r"\1", local)


def _words(tokens: list[Token]) -> list[Token]:
    """`OR`, `AND` and `NOT` as the operators they stand for, and the types of XML Schema with their right case."""
    found = []
    for at, token in enumerate(tokens):
        word, after = token.word(), tokens[at + 1].word() if at + 1 < len(tokens) else ""
        if word in ("OR", "AND"):
            token = Token("PUNCT", "||" if word == "OR" else "&&")
        elif word == "NOT" and after not in ("EXISTS", "IN"):
            token = Token("PUNCT", "!")
        elif token.kind == "IRI" and token.text.startswith(XSD):
            name = token.text[len(XSD) :]
            token = Token("IRI", XSD + _XSD_NAMES.get(name.lower(), name))
        found.append(token)
    return found


def with_whole_dates(tokens: list[Token]) -> list[Token]:
    """Dates that are not whole, made to match the graph's and to compare with each other.

    In a pattern `"1982"^^xsd:dateTime` becomes what Freebase has, `"1982"^^xsd:gYear`; in an expression it becomes its
    first moment, and so does a variable that is compared with a date and what `xsd:dateTime(...)` is called on.
    """
    found: list[Token] = []
    parens, at = [False], 0  # for each open bracket whether it holds an expression
    while at < len(tokens):
        token = tokens[at]
        expression = parens[-1]
        if token.kind == "PUNCT" and token.text in "({[":
            parens.append(token.text == "(")
        elif token.kind == "PUNCT" and token.text in ")}]" and len(parens) > 1:
            parens.pop()
        if token == _DATE_TIME and _is(tokens, at + 1, "("):
            end = closing(tokens, at + 1)
            inner = with_whole_dates([punct("("), *tokens[at + 2 : end - 1], punct(")")])
            found += _moment(inner) if len(inner) <= _LONGEST else [token, *inner]
            at = end
        elif expression and token.kind == "VAR" and _compared_with_date(tokens, at):
            found += _moment([token])
            at += 1
        elif token.kind == "STRING" and (partial := _partial_date(tokens, at)):
            kind, rest = partial
            if expression:
                found += [Token("STRING", token.text + rest), tokens[at + 1], _DATE_TIME]
            else:
                found += [token, tokens[at + 1], Token("IRI", XSD + kind)]
            at += 3
        else:
            found.append(token)
            at += 1
    return found


def _partial_date(tokens: list[Token], at: int) -> tuple[str, str] | None:
    """Type and missing end of a literal that is typed as a dateTime and is only a part of one."""
    if not _is(tokens, at + 1, "^^") or tokens[at + 2 : at + 3] != [_DATE_TIME] or tokens[at].kind != "STRING":
        return None
    return next((found[1:] for found in _PARTIAL_DATES if found[0].fullmatch(tokens[at].text)), None)


def _compared_with_date(tokens: list[Token], at: int) -> bool:
    """Whether the variable at a place is compared with a literal typed as a dateTime, or with a call for one."""
    after = at + 2 < len(tokens) and tokens[at + 1].kind == "PUNCT" and tokens[at + 1].text in _COMPARISONS
    if after and (tokens[at + 2] == _DATE_TIME or _typed_date(tokens, at + 2)):
        return True
    before = at >= 4 and tokens[at - 1].kind == "PUNCT" and tokens[at - 1].text in _COMPARISONS
    return before and _typed_date(tokens, at - 4)


def _typed_date(tokens: list[Token], at: int) -> bool:
    return tokens[at].kind == "STRING" and _is(tokens, at + 1, "^^") and tokens[at + 2 : at + 3] == [_DATE_TIME]


def _moment(value: list[Token]) -> list[Token]:
    """`xsd:dateTime(value)` that takes years, months and days for their first moment."""
    text = f"STR ( {spell(value)} )"
    whole = text
    for length, (_, _, rest) in zip((4, 7, 10), _PARTIAL_DATES, strict=True):
        whole = f'IF ( STRLEN ( {text} ) = {length} , CONCAT ( {text} , "{rest}" ) , {whole} )'
    return [_DATE_TIME, *tokenize(f"( {whole} )")]


def _is(tokens: list[Token], at: int, text: str) -> bool:
    return at < len(tokens) and tokens[at] == ("PUNCT", text)
