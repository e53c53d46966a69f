"""SearchGraphPatterns: the relations around what a query binds, the nearest to a meaning first."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from graphwalker.errors import QueryRefused
from graphwalker.kg.sparql_tokens import Token, tokenize
from graphwalker.kg.store import Step

Ranker = Callable[[str, Sequence[str]], "Sequence[float] | np.ndarray"]
"""Given a meaning and the texts of patterns, a score for each: the nearer, the higher."""
Found = tuple[Step, str]
"""A step and the first entity that has it."""

_SELECT = re.compile(r"\bSELECT\b(?!\s+(?:DISTINCT|REDUCED)\b)", re.IGNORECASE)


class Around(NamedTuple):
    """The patterns around the entities that a query binds, best first."""

    found: list[Found]
    looked_at: int  # entities
    bound: int  # entities, at least so many where `cut`
    cut: bool  # whether the query binds more than were fetched


class Center(NamedTuple):
    """What a query asks patterns for: its one variable, and whether it says anything of it."""

    variable: str
    open: bool


def center(query: str) -> Center | None:
    """The one variable that a query selects; None where it selects another number of them.

    Raises `QueryRefused` for what has no SPARQL tokens.
    """
    tokens = tokenize(query)
    words = [token.word() for token in tokens]
    if "SELECT" not in words:
        return None
    at = words.index("SELECT") + 1
    at += words[at : at + 1] in (["DISTINCT"], ["REDUCED"])
    start = at
    while at < len(tokens) and tokens[at].kind == "VAR":
        at += 1
    body = [token for token in tokens[at:] if token.word() != "WHERE"]
    if at != start + 1 or body[:1] != [Token("PUNCT", "{")]:
        return None
    return Center(tokens[start].text, body[:2] == [Token("PUNCT", "{"), Token("PUNCT", "}")])


def readable(query: str) -> str:
    """The query, with its backslashes halved where only then it can be read: some models escape twice.

    >>> print(readable(r'ASK { ?x ns:a.b "say \\\\"no\\\\"" }'))
    ASK { ?x ns:a.b "say \\"no\\"" }
    """
    halved = query.replace("\\\\", "\\")
    if halved != query and not _can_be_read(query) and _can_be_read(halved):
        return halved
    return query


def _can_be_read(query: str) -> bool:
    try:
        tokenize(query)
    except QueryRefused:
        return False
    return True


def distinct(query: str) -> str:
    """The query with each entity once, so that a bound on rows is a bound on entities."""
    return query if re.search(r"\bORDER\b", query, re.IGNORECASE) else _SELECT.sub("SELECT DISTINCT", query, count=1)


def collect(nodes: Sequence[str], walks: Callable[[str], Sequence[Step]]) -> list[Found]:
    """The steps of all nodes, each with the first node that has it."""
    first: dict[Step, str] = {}
    for node in nodes:
        for step in walks(node):
            first.setdefault(step, node)
    return list(first.items())


def ranked(found: Sequence[Found], meaning: str, ranker: Ranker) -> list[Found]:
    """Best first: by score, then the shorter way, out before in, by name."""
    texts = [" ".join(step.parts) for step, _ in found]
    scores = ranker(meaning, texts) if meaning and texts else [0.0] * len(texts)
    key = {item: (-float(score), len(item[0].parts), item[0]) for item, score in zip(found, scores, strict=True)}
    return sorted(found, key=lambda item: (*key[item][:2], item[0].inverse, item[0].relation))
