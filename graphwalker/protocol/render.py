"""From queries, answers and observations to their text: the inverse of `parse`, exact for every name."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from graphwalker.protocol.escape import escape_name, escape_tags
from graphwalker.protocol.parse import GET_RELATIONS, Query, parse_answer, parse_query

NO_RELATIONS = "No relations found."
NO_TRIPLES = "No triples found."


def render_turn(thought: str, kind: Literal["query", "answer"], action: str) -> str:
    """An assistant's turn; `action` is what `format_query` or `format_answer` gave.

    >>> render_turn("Start.", "query", 'get_relations("France")')
    '<think>Start.</think><kg-query>get_relations("France")</kg-query>'
    """
    tag = "kg-query" if kind == "query" else "answer"
    return f"<think>{escape_tags(thought)}</think><{tag}>{action}</{tag}>"


def information(body: str) -> str:
    """An observation as the model reads it; the chat template writes the same."""
    return f"<information>{body}</information>"


def format_query(tool: str, entity: str, relations: Iterable[str] = ()) -> str:
    """A query as text: names raw, quotes escaped only where the raw form would not read back.

    >>> format_query("get_triples", "France", ["location.country.capital"])
    'get_triples("France", ["location.country.capital"])'
    """
    query = Query(tool, entity, tuple(relations))
    raw = _call(query, escape_name)
    plain = not any(quote in name for name in (entity, *query.relations) for quote in "\"'")
    return raw if plain or parse_query(raw) == query else _call(query, _quotes_too)


def format_answer(names: Sequence[str]) -> str:
    """The list that stands between the answer tags, written as queries are.

    >>> print(format_answer(["Paris", 'The "Big" One']))
    ["Paris", "The "Big" One"]
    """
    raw = _list(names, escape_name)
    return raw if parse_answer(raw) == list(names) else _list(names, _quotes_too)


def format_triple(head: str, relation: str, tail: str) -> str:
    """One line of an observation.

    >>> format_triple("France", "location.country.capital", "Paris")
    '[France, location.country.capital, Paris]'
    """
    return f"[{escape_name(head)}, {escape_name(relation)}, {escape_name(tail)}]"


def _call(query: Query, name: Callable[[str], str]) -> str:
    if query.tool == GET_RELATIONS:
        return f'{query.tool}("{name(query.entity)}")'
    return f'{query.tool}("{name(query.entity)}", {_list(query.relations, name)})'


def _list(names: Iterable[str], name: Callable[[str], str]) -> str:
    return "[" + ", ".join(f'"{name(n)}"' for n in names) + "]"


def _quotes_too(name: str) -> str:
    return escape_name(name).replace('"', '\\"')
