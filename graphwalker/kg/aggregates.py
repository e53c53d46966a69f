"""What a SELECT counts, as the standard wants it; Virtuoso asks for neither parentheses, names nor GROUP BY."""

from graphwalker.errors import QueryMalformed
from graphwalker.kg.sparql_grammar import AGGREGATES
from graphwalker.kg.sparql_tokens import Token


def named_aggregates(tokens: list[Token]) -> list[Token]:
    """Every aggregate that a SELECT asks for in parentheses, with a name of its own, and grouped by what stands beside.

    `SELECT DISTINCT COUNT(?x)` counts distinct ones (Virtuoso takes such a DISTINCT so), `SELECT ?p (SAMPLE(?t) AS ?t)`
    gives one ?t for each ?p.
    """
    found: list[Token] = []
    at = 0
    while at < len(tokens):
        found.append(tokens[at])
        at += 1
        if found[-1].word() != "SELECT":
            continue
        distinct = [token for token in tokens[at : at + 1] if token.word() in ("DISTINCT", "REDUCED")]
        at += len(distinct)
        bare = at < len(tokens) and tokens[at].word() in AGGREGATES
        columns, variables, at = _columns(tokens, at, bool(distinct) and distinct[0].word() == "DISTINCT")
        found += columns if bare else [*distinct, *columns]
        counted = bool(columns) and any(token.word() in AGGREGATES for token in columns)
        if counted and variables:
            found, at = _grouped(tokens, at, found, variables)
    return found


def _columns(tokens: list[Token], at: int, distinct: bool) -> tuple[list[Token], list[Token], int]:
    """What a SELECT asks for from a place on: its tokens, the plain variables among it, the place after it."""
    columns: list[Token] = []
    variables: list[Token] = []
    while at < len(tokens):
        if tokens[at].kind == "VAR":
            variables.append(tokens[at])
            columns.append(tokens[at])
            at += 1
        elif tokens[at].word() in AGGREGATES:
            column, at = _aggregate(tokens, at, distinct)
            columns += column
        elif tokens[at] == punct("(") and at + 1 < len(tokens) and tokens[at + 1].word() in AGGREGATES:
            end = closing(tokens, at)
            column, rest = _aggregate(tokens, at + 1, False)
            columns += column if rest == end - 1 else tokens[at:end]  # more than one aggregate: an expression
            at = end
        elif tokens[at] == punct("("):
            end = closing(tokens, at)
            columns += tokens[at:end]
            at = end
        else:
            break
    return columns, variables, at


def _aggregate(tokens: list[Token], at: int, distinct: bool) -> tuple[list[Token], int]:
    """The column of the aggregate at a place, and the place after its name."""
    end = closing(tokens, at + 1)
    inner = tokens[at + 2 : end - 1]
    name, rest = Token("VAR", tokens[at].text.lower()), end
    if rest + 1 < len(tokens) and tokens[rest].word() == "AS" and tokens[rest + 1].kind == "VAR":
        name, rest = tokens[rest + 1], rest + 2
    while name in tokens and (name in inner or rest == end):
        name = Token("VAR", name.text + "_")
    if distinct and inner[:1] and inner[0].word() != "DISTINCT":
        inner = [Token("WORD", "DISTINCT"), *inner]
    call = [tokens[at], punct("("), *inner, punct(")")]
    return [punct("("), *call, Token("WORD", "AS"), name, punct(")")], rest


def _grouped(tokens: list[Token], at: int, found: list[Token], variables: list[Token]) -> tuple[list[Token], int]:
    """`found` with what stands between the braces that follow, and a GROUP BY after them where there is none."""
    start = at + (at < len(tokens) and tokens[at].word() == "WHERE")
    if start >= len(tokens) or tokens[start] != punct("{"):
        return found, at
    end = closing(tokens, start, "{}")
    inner = named_aggregates(tokens[start:end])
    group = [] if end < len(tokens) and tokens[end].word() == "GROUP" else [Token("WORD", "GROUP"), Token("WORD", "BY")]
    return [*found, *tokens[at:start], *inner, *group, *(variables if group else [])], end


def closing(tokens: list[Token], start: int, brackets: str = "()") -> int:
    """The place after the bracket that closes the one at `start`. Raises `QueryMalformed` where none does."""
    depth = 0
    for at in range(start, len(tokens)):
        if tokens[at].kind == "PUNCT":
            depth += (tokens[at].text == brackets[0]) - (tokens[at].text == brackets[1])
        if depth == 0:
            if at == start:
                break
            return at + 1
    raise QueryMalformed("a parenthesis is missing or stays open")


def punct(text: str) -> Token:
    return Token("PUNCT", text)
