"""From the text of a model's turn to what it asks for. Nothing here raises on any text, and all of it is linear in it.

A turn is ``<think>...</think>`` and then one ``<kg-query>...</kg-query>`` or one ``<answer>[...]</answer>``. Where a
turn says more than that, the first action outside a thought counts.
"""

import json
import re
from dataclasses import dataclass
from typing import Literal

from graphwalker.protocol.escape import sound, unescape_name

GET_RELATIONS = "get_relations"
GET_TRIPLES = "get_triples"
TOOLS = (GET_RELATIONS, GET_TRIPLES)

NO_ACTION = "After your thought, write either one query or one answer, each between its tags."
USAGE = 'Write get_relations("entity") or get_triples("entity", ["relation", ...]).'

_THINK = re.compile(r"</?think>")
_ACTION = re.compile(r"<(kg-query|answer)>")
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\((.*)\)", re.DOTALL)
# The quote that ends the entity, before the list; one that is escaped does not (its run of backslashes is odd).
_LIST_START = re.compile(r"(?<!\\)(?:\\\\)*([\"'])\s*,\s*\[")
_LIST_START_RAW = re.compile(r"([\"'])\s*,\s*\[")
_LIST = json.JSONDecoder(strict=False, parse_int=str, parse_float=str, parse_constant=str)
_BETWEEN = {'"': re.compile(r'"\s*,\s*"'), "'": re.compile(r"'\s*,\s*'")}


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """A turn in parts.

    `action` is the raw text between the tags of the first action outside a thought. `problem` says, to the model, why
    nothing can be run: then `kind` is ``"query"`` where a query was begun but not closed, else ``"none"``.
    `extra_queries` counts the queries after the first one.
    """

    thought: str = ""
    kind: Literal["query", "answer", "none"] = "none"
    action: str = ""
    problem: str | None = None
    extra_queries: int = 0


@dataclass(frozen=True, slots=True)
class Query:
    """One call of a tool; `relations` is empty for get_relations."""

    tool: str
    entity: str
    relations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryError:
    """Why a text is no query, said to the model."""

    message: str


@dataclass(frozen=True, slots=True)
class AnswerError:
    """Why a text is no answer, said to the model."""

    message: str


def parse_turn(text: str) -> ParsedTurn:
    """Split a turn into its thought and its first action.

    >>> parse_turn('<think>Start.</think><kg-query>get_relations("France")</kg-query>')
    ParsedTurn(thought='Start.', kind='query', action='get_relations("France")', problem=None, extra_queries=0)
    """
    thought, rest, unclosed = _split_thoughts(sound(text))
    found = _ACTION.search(rest)
    if found is None:
        reason = "your thought is not closed." if unclosed else "your turn holds neither a query nor an answer."
        return ParsedTurn(thought, problem=f"{reason} {NO_ACTION}")
    tag = found[1]
    kind: Literal["query", "answer"] = "query" if tag == "kg-query" else "answer"
    body, closed, after = rest[found.end() :].partition(f"</{tag}>")
    if not closed:
        problem = f"your {kind} is not closed. {NO_ACTION}"
        return ParsedTurn(thought, "query" if kind == "query" else "none", body.strip(), problem)
    if kind == "answer":
        answer = parse_answer(body)
        if isinstance(answer, AnswerError):
            return ParsedTurn(thought, "none", body.strip(), answer.message)
        return ParsedTurn(thought, kind, body.strip())
    return ParsedTurn(thought, kind, body.strip(), extra_queries=after.count("<kg-query>"))


def parse_query(raw: str) -> Query | QueryError:
    """Read ``get_relations("E")`` or ``get_triples("E", ["r1", "r2"])``; a name may hold quotes, commas, brackets.

    >>> parse_query('get_triples("Dwayne "The Rock" Johnson", ["film.actor.film"])')
    Query(tool='get_triples', entity='Dwayne "The Rock" Johnson', relations=('film.actor.film',))
    """
    call = _CALL.fullmatch(sound(raw).strip())
    if call is None:
        return QueryError(f"this is not a query. {USAGE}")
    tool, arguments = call[1], call[2].strip()
    if tool not in TOOLS:
        return QueryError(f"there is no tool of that name. {USAGE}")
    relations: list[str] | None = []
    if tool == GET_TRIPLES:
        start = _list_start(arguments)
        if start is None:
            return QueryError(f"get_triples takes an entity and a list of relations. {USAGE}")
        relations = _strings(arguments[start.end() : -1])
        if not relations:
            return QueryError(f"the list of relations cannot be read or is empty. {USAGE}")
        arguments = arguments[: start.end(1)]
    if len(arguments) < 3 or arguments[0] not in "\"'" or arguments[-1] != arguments[0]:
        return QueryError(f"the entity must stand in double quotes. {USAGE}")
    return Query(tool, unescape_name(arguments[1:-1]), tuple(dict.fromkeys(relations or ())))


def parse_answer(raw: str) -> list[str] | AnswerError:
    """Read ``["A", "B"]``: as JSON, else by its quotes, since names are copied raw. An empty list is an answer.

    >>> parse_answer('["Dwayne "The Rock" Johnson", "1946"]')
    ['Dwayne "The Rock" Johnson', '1946']
    """
    text = sound(raw).strip()
    names = _strings(text[1:-1]) if len(text) > 1 and text[0] == "[" and text[-1] == "]" else None
    if names is None:
        return AnswerError('an answer is a list of names in double quotes, such as ["name"].')
    return names


def _split_thoughts(text: str) -> tuple[str, str, bool]:
    """The thoughts joined, the rest joined, and whether a thought is left open.

    A ``</think>`` that nothing opened ends a thought that began with the turn: some chat templates write the opening
    tag into the prompt.
    """
    thoughts: list[str] = []
    rest: list[str] = []
    start, inside, seen = 0, False, False
    for tag in _THINK.finditer(text):
        piece = text[start : tag.start()]
        if not inside and not seen and tag[0] == "</think>":
            thoughts.append(piece)
        else:
            (thoughts if inside else rest).append(piece)
        inside, seen, start = tag[0] == "<think>", True, tag.end()
    (thoughts if inside else rest).append(text[start:])
    return "\n".join(t.strip() for t in thoughts if t.strip()), "".join(rest), inside


def _list_start(arguments: str) -> re.Match[str] | None:
    """Where the list of relations opens: the last place that can be it, since a name may hold ``", [``."""
    if not arguments.endswith("]"):
        return None
    found = list(_LIST_START.finditer(arguments)) or list(_LIST_START_RAW.finditer(arguments))
    return found[-1] if found else None


def _strings(inner: str) -> list[str] | None:
    """The strings of a flat list whose brackets are off; None where it is none. Bare numbers count as strings."""
    inner = inner.strip().removesuffix(",").rstrip()
    if not inner:
        return []
    try:
        values = _LIST.decode(f"[{inner}]")
    except (ValueError, RecursionError):
        quote = inner[0]
        if quote not in _BETWEEN or len(inner) < 2 or inner[-1] != quote:
            return None
        return [unescape_name(part) for part in _BETWEEN[quote].split(inner[1:-1])]
    return [sound(value) for value in values] if all(isinstance(value, str) for value in values) else None
