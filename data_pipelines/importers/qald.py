"""QALD 9 (DBpedia) and QALD 10 (Wikidata, Usbeck et al. 2023) as ``Question`` records.

The official JSON states each question in many languages, a query, and its answers as SPARQL results; the ToG authors'
layout has ``topic_entity`` and ``answer`` by id. Topics and paths come from the query.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from data_pipelines.importers.found import Found, from_sparql, split_of, unique
from data_pipelines.importers.patterns import DBPEDIA, short
from data_pipelines.importers.records import read_records
from graphwalker.types import Entity, Question

IDS = ("Q", DBPEDIA + "resource/")


class Text(msgspec.Struct):
    language: str
    string: str | None = None


class Query(msgspec.Struct):
    sparql: str | None = None


class Binding(msgspec.Struct):
    value: str
    type: str = "literal"


class Results(msgspec.Struct):
    bindings: list[dict[str, Binding]] = []


class Answers(msgspec.Struct):
    boolean: bool | None = None
    results: Results | None = None


class Record(msgspec.Struct):
    question: list[Text] | str
    id: str | int | None = None
    query: Query | None = None
    answers: list[Answers] | None = None
    answertype: str | None = None
    sparql: str | None = None
    answer: dict[str, str] | None = None
    topic_entity: dict[str, str] | None = None


def read(source: Path, split: str | None = None, *, form: str = "qald", language: str = "en") -> Iterator[Found]:
    """Yield the questions in one language."""
    for row in read_records(source, Record, key="questions"):
        record = row.value
        if isinstance(record.question, str):
            text: str | None = record.question
        else:
            text = next((t.string for t in record.question if t.language == language and t.string), None)
        sparql = record.query.sparql if record.query else record.sparql
        question = Question(
            id=str(record.id if record.id is not None else row.number),
            text=(text or "").strip(),
            answers=unique(_answers(record)),
            dataset=form,
            split=split or split_of(source),
            structure=record.answertype or "",
            sparql=sparql or None,
        )
        if text is None:
            yield Found(question, row, drop=f"it has no text in the language {language!r}")
        elif record.answers and not question.answers:
            yield Found(question, row, drop="its published answers are empty")
        else:
            yield Found(from_sparql(question, IDS, record.topic_entity or None), row)


def _answers(record: Record) -> Iterator[Entity]:
    for answers in record.answers or ():
        if answers.boolean is not None:
            yield Entity("true" if answers.boolean else "false")
        for binding in answers.results.bindings if answers.results else []:
            yield from map(_value, binding.values())
    for node, name in (record.answer or {}).items():
        yield Entity(name, node) if _is_id(node) else Entity(name)


def _value(binding: Binding) -> Entity:
    node = short(binding.value)
    if binding.type != "uri" or not _is_id(node):
        return Entity(binding.value)
    return Entity(node.removeprefix(IDS[1]).replace("_", " "), node)


def _is_id(node: str) -> bool:
    return node.startswith(IDS[1]) or (node[:1] in "QL" and node[1:].isdigit())
