"""Whether each step of an interactive trajectory rests on what was known before it (MCTS-KBQA, appendix A.5).

Known is what the question and the prompt say and what earlier observations have shown. A call of SearchNodes or
SearchTypes asserts nothing, so what it looks for need not be known, unless ``strict``.
"""

import re

from graphwalker.errors import QueryRefused
from graphwalker.kg.dialect import normal_tokens
from graphwalker.kg.schema import Schema
from graphwalker.kg.search_index import fold_accents
from graphwalker.kg.sparql_tokens import Token, tokenize
from graphwalker.kg.terms import XSD
from graphwalker.protocol.interactive import CallError, parse_call
from graphwalker.types import Trajectory

_NUMBER = re.compile(r"(?<![\w.,-])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w-])")
_YEAR = re.compile(r"-?\d{4}(?=-\d\d)")


def unsupported(trajectory: Trajectory, schema: Schema, *, prompt: str = "", strict: bool = False) -> str:
    """What the first step that rests on nothing uses, with the number of its turn; "" where every step is supported.

    ``prompt`` is the message that the episode began with, without its examples: the predicates it explains are known.
    """
    known = [prompt, trajectory.question.text]
    given = {*schema.name_predicates, *schema.type_predicates, *schema.description_predicates}
    for number, turn in enumerate(trajectory.turns, 1):
        call = parse_call(turn.action) if turn.kind == "query" else CallError("")
        arguments = {} if isinstance(call, CallError) else call.arguments
        used = _used(arguments["sparql"], schema) if "sparql" in arguments else []
        if strict and "name" in arguments:
            used.append(Token("STRING", arguments["name"]))
        seen = _plain("\n".join(known))
        for token in used:
            if token.text not in given and not _is_in(token, seen):
                return f"turn {number} uses {token.text!r}"
        known.append(turn.observation)
    return ""


def _used(sparql: str, schema: Schema) -> list[Token]:
    """The ids, texts and numbers of a query; none of one that cannot be read, which the tools refuse too."""
    base = f"BASE <{schema.namespaces.get('', 'urn:x:')}> "
    try:
        tokens = normal_tokens(tokenize(base + sparql), schema.namespaces, dates=False)
    except QueryRefused:
        return []
    found = []
    for before, token in zip([Token("WORD", ""), *tokens], tokens, strict=False):
        if token.kind == "IRI" and not token.text.startswith(XSD):
            found.append(Token("IRI", schema.compact(token.text)))
        elif token.kind == "STRING" and token.text:
            year = _YEAR.match(token.text)
            found.append(Token("STRING", year[0] if year else token.text))
        elif token.kind == "NUMBER" and before.word() not in ("LIMIT", "OFFSET"):
            found.append(token)
    return found


def _is_in(token: Token, seen: str) -> bool:
    text = _plain(token.text)
    ends = r"\w." if token.kind == "IRI" else r"\w"
    if re.search(rf"(?<![{ends}]){re.escape(text)}(?!\w)", seen):
        return True
    return token.kind != "IRI" and has_number(token.text, seen)


def has_number(number: str, text: str) -> bool:
    """Whether a text has a number, by its value; False for what is none.

    >>> has_number("2.0", "less than 2 sons"), has_number("7.3e3", "of 7,300 in 1999"), has_number("5", "2015-05-05")
    (True, True, False)
    """
    if not _NUMBER.fullmatch(number):
        return False
    return float(number.replace(",", "")) in {float(found.replace(",", "")) for found in _NUMBER.findall(text)}


def _plain(text: str) -> str:
    """Without case, accents and the backslashes of the ways in which a name is written."""
    return fold_accents(text.replace("\\", ""))
