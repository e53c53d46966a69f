"""SearchGraphPatterns: the relations around what a query binds, the nearest to a meaning first."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from graphwalker.kg.sparql_tokens import Token, tokenize
from graphwalker.kg.store import Step

Ranker = Callable[[str, Sequence[str]], Sequence[float]]
"""Given a meaning and the texts of patterns, a score for each: the nearer, the higher."""
Found = tuple[Step, str]
"""A step and the first entity that has it."""

_SELECT = re.compile(r"\bSELECT\b(?!\s+(?:DISTINCT|REDUCED)\b)", re.IGNORECASE)


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
    scores = ranker(meaning, [" ".join(step.parts) for step, _ in found]) if meaning and found else [0.0] * len(found)
    key = {item: (-float(score), len(item[0].parts), item[0]) for item, score in zip(found, scores, strict=True)}
    return sorted(found, key=lambda item: (*key[item][:2], item[0].inverse, item[0].relation))
