"""KQA Pro's questions (Cao et al. 2022, ACL 2022.acl-long.422) as ``Question`` records.

Topics are the entities that the program finds; paths come from its ``Find``, ``Relate`` and ``And``. Where it does
anything else, filters a concept for instance, the path alone leads to more than the gold; where it asks for an
attribute, counts or compares, there is only the SPARQL. The last function is the structure.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from data_pipelines.importers.found import Found, split_of, with_paths
from data_pipelines.importers.kqapro_kb import relation_id
from data_pipelines.importers.records import Row, read_records
from graphwalker.types import Entity, Question

Ways = dict[str, tuple[str, ...]]


class Step(msgspec.Struct):
    function: str
    dependencies: list[int] = []
    inputs: list[str] = []


class Record(msgspec.Struct):
    question: str
    answer: str | None = None
    sparql: str | None = None
    program: list[Step] = []


def read(source: Path, split: str | None = None, *, form: str = "kqapro") -> Iterator[Found]:
    """Yield the questions of ``train.json`` or ``val.json``; those of ``test.json`` have no gold and are dropped."""
    split = split or split_of(source)
    for row in read_records(source, Record):
        record = row.value
        question = Question(
            id=f"{split or source.stem}-{row.number - 1}",
            text=record.question,
            answers=(Entity(record.answer),) if record.answer else (),
            dataset=form,
            split=split,
            structure=record.program[-1].function if record.program else "",
            sparql=record.sparql or None,
        )
        found = [step.inputs[0] for step in record.program if step.function == "Find" and step.inputs]
        ways, constraints = _ways(row)
        names = list(ways) or list(dict.fromkeys(found))
        topics = tuple(Entity(" ".join(name.split())) for name in names)
        yield Found(with_paths(question, topics, tuple(ways.values()), constraints), row)


def _ways(row: Row[Record]) -> tuple[Ways, bool]:
    """The path from each topic to an answer that is an entity, and whether more than paths decides."""
    results: list[Ways] = []
    constraints = False
    for number, step in enumerate(row.value.program):
        if any(not 0 <= index < number for index in step.dependencies):
            raise row.error(f"field 'program[{number}].dependencies': not steps before it: {step.dependencies}")
        before = [results[index] for index in step.dependencies]
        match step.function, step.inputs, before:
            case "Find", [name, *_], _:
                results.append({name: ()})
            case "Relate", [predicate, direction, *_], [ways, *_]:
                hop = ("^" if direction == "backward" else "") + relation_id(predicate)
                results.append({topic: (*way, hop) for topic, way in ways.items()})
                constraints |= len(ways) > 1
            case "And", _, [left, right]:
                constraints |= not left or not right or bool(set(left) & set(right))
                results.append({**left, **right})
            case (("QueryName" | "What"), _, [ways, *_]):
                return {topic: way for topic, way in ways.items() if way}, constraints
            case _, _, [ways, *_]:
                results.append(ways)
                constraints = True
            case _:
                results.append({})  # FindAll: every entity
                constraints = True
    return {}, constraints
