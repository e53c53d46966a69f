"""The grammar of the queries that may be run, and what a guard needs to know of a query's structure.

Whether a query parses and how depends on the kinds of its tokens alone, so the outcome is kept by these: queries made
from one template are parsed once.
"""

from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

from lark import Lark
from lark import Token as LarkToken
from lark.exceptions import UnexpectedInput
from lark.lexer import Lexer

from graphwalker.errors import QueryMalformed
from graphwalker.kg.sparql_tokens import Token

_WORDS = {
    "builtin": """
        ABS BNODE BOUND CEIL COALESCE CONCAT CONTAINS DATATYPE DAY ENCODE_FOR_URI FLOOR HOURS IF IRI ISBLANK ISIRI
        ISLITERAL ISNUMERIC ISURI LANG LANGMATCHES LCASE MD5 MINUTES MONTH NOW RAND REGEX REPLACE ROUND SAMETERM SECONDS
        SHA1 SHA256 SHA384 SHA512 STR STRAFTER STRBEFORE STRDT STRENDS STRLANG STRLEN STRSTARTS STRUUID SUBSTR TIMEZONE
        TZ UCASE URI UUID YEAR""",
    "aggregate": "AVG COUNT GROUP_CONCAT MAX MIN SAMPLE SUM",
    "keyword": """
        AS ASC ASK BIND BY DESC DISTINCT EXISTS FILTER FROM GRAPH GROUP HAVING IN LIMIT MINUS NAMED NOT OFFSET OPTIONAL
        ORDER REDUCED SELECT SEPARATOR UNDEF UNION VALUES WHERE""",
}
BUILTINS, AGGREGATES, KEYWORDS = (frozenset(words.split()) for words in _WORDS.values())
_KEPT = 500  # tokens of the longest query whose structure is kept
_PUNCTUATION = {
    "^^": "TYPE", "^": "CARET", "&&": "AND", "||": "OR", "|": "PIPE", "!=": "NE", "!": "BANG", "<=": "LE", ">=": "GE",
    "<": "LT", ">": "GT", "=": "EQ", "+": "PLUS", "-": "MINUS_SIGN", "*": "STAR", "/": "SLASH", "?": "QUESTION",
    "(": "LPAR", ")": "RPAR", "{": "LBRACE", "}": "RBRACE", "[": "LBRACK", "]": "RBRACK", ".": "DOT", ";": "SEMICOLON",
    ",": "COMMA",
}  # fmt: skip
_PLAIN = (
    "IRI",
    "STRING",
    "VAR",
    "BLANK",
    "LANG",
    "INTEGER",
    "SIGNED",
    "NUMBER",
    "BOOLEAN",
    "BUILTIN",
    "AGGREGATE",
    "A",
)


class Structure(NamedTuple):
    """Where things stand in a query, as places in its tokens."""

    form: str  # SELECT or ASK
    limit: int | None  # the number after the outer LIMIT
    modifiers_end: int  # where an outer LIMIT could be put in
    functions: tuple[int, ...]  # the IRIs of functions that are called
    graphs: tuple[int, ...]  # what is named after FROM and GRAPH: an IRI or a variable


def terminal(token: Token) -> str:
    """The grammar's name for a token. Raises `QueryRefused` for a word that SPARQL does not have here."""
    if token.kind == "PUNCT":
        return _PUNCTUATION[token.text]
    if token.kind == "NUMBER":
        return "SIGNED" if token.text[0] in "+-" else "INTEGER" if token.text.isdigit() else "NUMBER"
    if token.kind != "WORD":
        return token.kind
    word = token.word()
    if word in KEYWORDS:
        return word
    if word in BUILTINS or word in AGGREGATES:
        return "BUILTIN" if word in BUILTINS else "AGGREGATE"
    if word in ("TRUE", "FALSE"):
        return "BOOLEAN"
    if token.text == "a":
        return "A"
    raise QueryMalformed(f"the word {token.text[:40]!r} has no place in a query here")


def structure(tokens: list[Token]) -> Structure:
    """The structure of a query. Raises `QueryRefused` where it is not one, with the token that has no place."""
    kinds = tuple(map(terminal, tokens))
    found = _structure(kinds) if len(kinds) <= _KEPT else _structure.__wrapped__(kinds)
    if isinstance(found, Structure):
        return found
    if found >= len(tokens):
        raise QueryMalformed("the query ends too early")
    raise QueryMalformed(f"not SPARQL at {tokens[found].written()[:40]!r} (token {found + 1})")


def syntax_tree(tokens: Sequence[Token]) -> Any:
    """Lark's tree of a query that has a `structure`; each token's ``start_pos`` is its place in `tokens`."""
    return _tree(tuple(map(terminal, tokens)))


def _tree(kinds: tuple[str, ...]) -> Any:
    return _parser().parse(kinds).children[0]  # type: ignore[arg-type]  # what the lexer below reads


@lru_cache(maxsize=1024)
def _structure(kinds: tuple[str, ...]) -> Structure | int:
    """The structure, or the place of the token that does not fit."""
    try:
        tree = _tree(kinds)
    except UnexpectedInput as error:
        token = getattr(error, "token", None)
        return len(kinds) if token is None or token.type == "$END" else int(token.start_pos)
    outer = {child.data: child for child in tree.children if not isinstance(child, LarkToken)}
    limit = outer["limit"].children[-1].start_pos if "limit" in outer else None
    named = [node for node in tree.iter_subtrees() if node.data in ("graph", "dataset")]
    return Structure(
        tree.data.upper(),
        limit,
        _end(tree, len(kinds)),
        tuple(sorted(node.children[0].start_pos for node in tree.find_data("function"))),
        tuple(sorted(node.children[-1].start_pos for node in named)),
    )


def _end(tree: Any, length: int) -> int:
    """Where the solution modifiers of the outer query end: at its VALUES, or at its end."""
    own = (child for child in tree.children if isinstance(child, LarkToken))
    return next((int(token.start_pos or 0) for token in own if token.type == "VALUES"), length)


class _Kinds(Lexer):
    """Passes terminals on that are known already, each with its place."""

    def __init__(self, lexer_conf):
        pass

    def lex(self, kinds):  # type: ignore[override]  # without a state, as lark's `lexer` option wants it
        for place, kind in enumerate(kinds):
            yield LarkToken(kind, kind, start_pos=place)


@lru_cache(maxsize=1)
def _parser() -> Lark:
    grammar = resources.files("graphwalker.kg").joinpath("sparql.lark").read_text("utf-8")
    names = " ".join(sorted({*KEYWORDS, *_PUNCTUATION.values(), *_PLAIN}))
    return Lark(f"{grammar}\n%declare {names}\n", parser="lalr", lexer=_Kinds)
