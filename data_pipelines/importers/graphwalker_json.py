"""The GraphWalker authors' JSON (arXiv:2603.28533, https://github.com/XuShuwenn/GraphWalker) as ``Trajectory`` records.

Two forms: synthesised trajectories (``steps`` with ``think``, the action and ``information``), and an evaluation's
``predictions``, each with a ``trace`` of thoughts, queries, information and the answer.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from data_pipelines.importers.found import Found, split_of, unique
from data_pipelines.importers.records import Row, read_records
from graphwalker.protocol.parse import parse_answer, parse_turn
from graphwalker.protocol.render import NO_RELATIONS, NO_TRIPLES, render_turn
from graphwalker.types import Entity, Question, Status, Trajectory, Turn

_TAGGED = re.compile(r"\s*<(kg-query|answer)>(.*)</\1>\s*", re.S)


class Step(msgspec.Struct):
    step_index: int = 0
    think: str | None = None
    kg_query: str | None = None
    action: str | None = None
    information: list[str] | str | None = None


class Event(msgspec.Struct):
    type: str
    content: str | None = None


class Record(msgspec.Struct):
    path_id: str | int | None = None
    id: str | int | None = None
    raw_question: str | None = None
    question: str | None = None
    steps: list[Step] | None = None
    trace: list[Event] | None = None
    name_path: str | list[str] | None = None
    name_path1: str | None = None
    name_path2: str | None = None
    answer: str | None = None
    answers: list[str] | None = None


def read(source: Path, split: str | None = None) -> Iterator[Found]:
    """Yield the trajectories of a file of either form."""
    for row in read_records(source, Record, key="predictions"):
        record = row.value
        text = record.raw_question or record.question
        if not text:
            raise row.error("field 'raw_question' is missing")
        if record.steps is None and record.trace is None:
            raise row.error("field 'steps' (a trajectory) or 'trace' (a prediction) is missing")
        turns = _from_steps(row, record.steps) if record.steps is not None else _from_trace(record.trace or [])
        given = _list_of(record.answer or "")
        last = turns[-1] if turns else None
        said = _list_of(last.action) if last and last.kind == "answer" else None
        if said is None and given is not None and record.steps is not None:  # older files keep it apart
            turns.append(_turn("", "answer", record.answer or ""))
            said = given
        gold = record.answers if record.answers is not None else given or []
        question = Question(
            id=str(next((n for n in (record.path_id, record.id) if n is not None), row.number)),
            text=text,
            topic_entities=tuple(map(Entity, _topics(record))),
            answers=unique(map(Entity, gold)),
            dataset="graphwalker",
            split=split or split_of(source),
            structure="2i" if record.name_path1 else "",
        )
        trajectory = Trajectory(
            question, tuple(turns), None if said is None else tuple(said), "answered" if said is not None else "budget"
        )
        yield Found(trajectory, row, drop="" if turns else "it has no turns")


def _topics(record: Record) -> list[str]:
    paths = [record.name_path1, record.name_path2, record.name_path]
    starts = [path[0] if isinstance(path, list) else path.split(" -> ")[0].strip() for path in paths if path]
    return [start for start in dict.fromkeys(starts) if start]


def _from_steps(row: Row[Record], steps: Sequence[Step]) -> list[Turn]:
    turns = []
    for number, step in enumerate(sorted(steps, key=lambda step: step.step_index)):
        action = step.kg_query or step.action
        if not action:
            raise row.error(f"field 'steps[{number}].kg_query' is missing")
        body = step.information or ""
        turns.append(_turn(step.think or "", "query", action, body if isinstance(body, str) else "\n".join(body)))
    return turns


def _from_trace(trace: Sequence[Event]) -> list[Turn]:
    turns: list[Turn] = []
    thought = ""
    for event in trace:
        content = event.content or ""
        if event.type == "think":
            thought = content
        elif event.type in ("kg_query", "answer"):
            turns.append(_turn(thought, "query" if event.type == "kg_query" else "answer", content))
            thought = ""
        elif event.type == "information" and turns:
            turns[-1] = _observed(turns[-1], content)
    return turns


def _turn(thought: str, kind: str, action: str, body: str = "") -> Turn:
    """A turn as the model would have written it; the action may still stand between its tags."""
    if tagged := _TAGGED.fullmatch(action):
        kind, action = ("answer" if tagged[1] == "answer" else "query"), tagged[2]
    text = render_turn(thought, "answer" if kind == "answer" else "query", action.strip())
    parsed = parse_turn(text)
    turn = Turn(text, parsed.thought, parsed.kind, parsed.action)
    return _observed(turn, body) if parsed.kind == "query" else turn


def _observed(turn: Turn, body: str) -> Turn:
    status: Status = "ok"
    if body.strip() in ("", NO_RELATIONS, NO_TRIPLES):
        status = "empty"
    elif body.startswith(("[Could not parse", "Error", "[Error")):
        status = "bad_query"
    return Turn(turn.text, turn.thought, turn.kind, turn.action, body, status)


def _list_of(text: str) -> list[str] | None:
    tagged = _TAGGED.fullmatch(text)
    answer = parse_answer(tagged[2] if tagged else text)
    return answer if isinstance(answer, list) else None
