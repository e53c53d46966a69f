"""The sanitised history ``H'`` of a state: what its actions found out, without words that may copy the question.

MCTS-KBQA, section 3.3 and appendix A.1: ``H' = (a'_1, ..., a'_d, o_d)``. Thoughts are left out, and so are parameters
that are free text (what SearchNodes and SearchTypes look for, a ``semantic``). Structured ones stay, since they come
out of observations. Of the observations only the last stays. GraphWalker's own turns look for entities by name; a name
that the question has goes.
"""

from collections.abc import Iterator, Sequence

from graphwalker.kg.sparql_tokens import one_line, without_comments
from graphwalker.metrics.normalise import forms, normalise
from graphwalker.protocol.interactive import DONE, SEARCH_NODES, SEARCH_TYPES, Call, parse_call
from graphwalker.protocol.parse import GET_RELATIONS, TOOLS, Query, parse_answer, parse_query
from graphwalker.protocol.render import format_answer
from graphwalker.tools.observation import echo
from graphwalker.types import RAN, Question, Turn

LEXICAL = frozenset({SEARCH_NODES, SEARCH_TYPES})  # tools whose one parameter is free text
_RUN = RAN | {"kg_timeout", "kg_error"}  # statuses of a call that was given to the graph


def history(turns: Sequence[Turn], question: Question) -> str:
    """``H'``: a line for each action that could be read, then the last observation; each line ends with a newline.

    A call that was not run keeps no parameter: what cannot be a query may be anything, a copy of the question too. For
    the same reason an observation that only says so does not repeat what is left out. An answer (and ``Done``) has no
    observation of its own, so the one before it is the last. "" for a state without turns.
    """
    lines = [line for turn in turns if (line := _action(turn, question)[0])]
    observed = next((turn for turn in reversed(turns) if turn.observation), None)
    if observed is not None:
        lines.append(_observation(observed, question))
    return "".join(f"{line}\n" for line in lines)


def _action(turn: Turn, question: Question) -> tuple[str, list[str]]:
    """A turn's action as it stands in ``H'`` ("" for none), and what was left out of it."""
    if turn.kind == "none":
        return "", []
    if turn.kind == "answer" and turn.action.lstrip().startswith("["):
        return _answer(turn, question)
    if turn.action.partition("(")[0].strip() in TOOLS:
        return _graph_query(turn, question)
    return _call(turn)


def _call(turn: Turn) -> tuple[str, list[str]]:
    if turn.kind == "answer":
        return DONE, []
    call = parse_call(turn.action)
    if not isinstance(call, Call):
        return "", [turn.action]
    arguments = list(call.arguments.values())
    if call.tool in LEXICAL or turn.status not in _RUN:
        return f"{call.tool}()", arguments
    sparql = call.arguments["sparql"]
    return f'{call.tool}("{one_line(without_comments(sparql))}")', [value for value in arguments if value != sparql]


def _graph_query(turn: Turn, question: Question) -> tuple[str, list[str]]:
    query = parse_query(turn.action)
    if not isinstance(query, Query):
        return "", [turn.action]
    if turn.status not in _RUN:
        return f"{query.tool}()", [query.entity, *query.relations]
    copied = _copied(query.entity, question)
    parts = [] if copied else [f'"{query.entity}"']
    if query.tool != GET_RELATIONS:
        parts.append(format_answer(query.relations))
    return f"{query.tool}({', '.join(parts)})", [query.entity] if copied else []


def _answer(turn: Turn, question: Question) -> tuple[str, list[str]]:
    given = parse_answer(turn.action)
    names = given if isinstance(given, list) else []
    return format_answer([name for name in names if not _copied(name, question)]), []


def _observation(turn: Turn, question: Question) -> str:
    if turn.status == "ok":
        return turn.observation
    text = turn.observation
    for part in sorted(set(_echoes(_action(turn, question)[1])), key=len, reverse=True):
        text = text.replace(part, "")
    return text


def _echoes(left_out: Sequence[str]) -> Iterator[str]:
    """The texts left out as an error may repeat them: whole, or as tools shorten a model's own words."""
    for text in left_out:
        if stripped := text.strip():
            yield stripped
            yield echo(text)


def _copied(name: str, question: Question) -> bool:
    """Whether the question has a name: among its topic entities, or as whole words of its text."""
    named = {normalise(alias) for entity in question.topic_entities for alias in (entity.name, *entity.aliases)}
    text = f" {normalise(question.text)} "
    return any(form in named or f" {form} " in text for form in forms(name))
