"""AgentBench's knowledge-graph task (Liu et al. 2023, arXiv:2308.03688) as ``Question`` records.

Its gold is a list of tool calls on variables ``#0``, ``#1``, …; the calls of ``get_neighbors`` and ``intersection``
spell the paths, ``count`` and the like are constraints.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from data_pipelines.importers.found import Found, split_of, unique, with_paths
from data_pipelines.importers.records import Row, read_records
from graphwalker.types import Entity, Question

_CALL = re.compile(r"(\w+)\((.*)\)", re.S)
_LOOKS = ("get_relations", "get_attributes")  # calls that make no variable
Ways = dict[str, tuple[str, ...]]


class Answer(msgspec.Struct):
    answer_argument: str
    answer_type: str = "Entity"
    entity_name: str | None = None


class Record(msgspec.Struct):
    question: str
    qid: str
    answer: list[Answer]
    entities: dict[str, str] = {}
    actions: list[str] = []
    source: str = ""


def read(source: Path, split: str | None = None, *, form: str = "agentbench") -> Iterator[Found]:
    """Yield the questions; the data set that a question was taken from is its structure."""
    for row in read_records(source, Record):
        record = row.value
        question = Question(
            id=record.qid,
            text=record.question,
            answers=unique(map(_answer, record.answer)),
            dataset=form,
            split=split or split_of(source),
            structure=record.source,
        )
        ways, constraints = _ways(row, record.actions)
        names = {node: name for name, node in record.entities.items()}
        topics = [Entity(names.get(node, node), node) for node in ways]
        every = topics or [Entity(name, node) for name, node in record.entities.items()]
        yield Found(with_paths(question, tuple(every), tuple(ways.values()), constraints), row)


def _answer(answer: Answer) -> Entity:
    if answer.answer_type != "Entity":
        return Entity(answer.answer_argument)
    return Entity(answer.entity_name or answer.answer_argument, answer.answer_argument)


def _ways(row: Row[Record], actions: Sequence[str]) -> tuple[Ways, bool]:
    """The path from each topic to the last variable, and whether more than paths decides about the answer."""
    variables: list[Ways] = []
    constraints = False

    def ways_of(argument: str) -> Ways:
        if not argument.startswith("#"):
            return {argument: ()}
        if not argument[1:].isdigit() or int(argument[1:]) >= len(variables):
            raise row.error(f"field 'actions': there is no variable {argument!r}")
        return variables[int(argument[1:])]

    for action in actions:
        call = _CALL.fullmatch(action.strip())
        if call is None:
            raise row.error(f"field 'actions': this is no call: {action!r}")
        tool, arguments = call[1], [part.strip() for part in call[2].split(",")]
        if tool in _LOOKS:
            continue
        ways = ways_of(arguments[0])
        if tool == "get_neighbors" and len(arguments) == 2:
            variables.append({topic: (*way, arguments[1]) for topic, way in ways.items()})
            constraints |= len(ways) > 1  # branches that met before the answer
        elif tool == "intersection" and len(arguments) == 2:
            other = ways_of(arguments[1])
            constraints |= bool(set(ways) & set(other))
            variables.append({**ways, **other})
        else:
            variables.append(ways)
            constraints = True
    last = variables[-1] if variables else {}
    return {topic: way for topic, way in last.items() if way}, constraints
