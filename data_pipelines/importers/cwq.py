"""ComplexWebQuestions (Talmor and Berant 2018, N18-1059) as ``Question`` records, in three layouts.

The official JSON (``ID``, ``answers`` with aliases; no topics), the one with ``raw_sparql`` and ``answers_raw``, and
the ToG authors' with ``topic_entity`` and a single ``answer``. Topics and paths come from the SPARQL; the data set's
type (composition, conjunction, comparative, superlative) is the structure.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from data_pipelines.importers.found import Found, from_sparql, split_of, unique
from data_pipelines.importers.patterns import NoPath, named_constants, read_pattern, topics_in
from data_pipelines.importers.records import read_records
from graphwalker.types import Entity, Question

MIDS = ("m.", "g.")


class Answer(msgspec.Struct):
    answer: str | None = None
    answer_id: str | None = None
    aliases: list[str] = []


class Record(msgspec.Struct):
    question: str
    ID: str = ""
    id: str = ""
    sparql: str | None = None
    raw_sparql: str | None = None
    answers: list[Answer | str] | None = None
    answers_raw: list[Answer] | None = None
    answer: str | list[str] | None = None
    topic_entity: dict[str, str] | None = None
    compositionality_type: str | None = None


def read(source: Path, split: str | None = None, *, form: str = "cwq") -> Iterator[Found]:
    """Yield the questions of a file in any of the layouts."""
    for row in read_records(source, Record):
        record = row.value
        if not (name := record.ID or record.id):
            raise row.error("field 'ID' is missing")
        question = Question(
            id=name,
            text=record.question,
            answers=unique(_answers(record)),
            dataset=form,
            split=split or split_of(source),
            structure=record.compositionality_type or "",
            sparql=record.raw_sparql or record.sparql,
        )
        yield Found(from_sparql(question, MIDS, record.topic_entity or _names(record)), row)


def _answers(record: Record) -> Iterator[Entity]:
    single = [record.answer] if isinstance(record.answer, str) else record.answer or []
    for answer in record.answers_raw or record.answers or single:
        if isinstance(answer, str):
            yield Entity(answer)
        elif name := answer.answer or answer.answer_id:
            yield Entity(name, answer.answer_id or None, tuple(a for a in dict.fromkeys(answer.aliases) if a != name))


def _names(record: Record) -> dict[str, str] | None:
    """The names of the topics, which the layout with two queries states in the one that finds entities by name."""
    if not record.raw_sparql or not record.sparql:
        return None
    try:
        topics = topics_in(read_pattern(record.raw_sparql).edges, MIDS)
    except NoPath:
        return None
    return dict.fromkeys(topics, "") | named_constants(record.sparql, record.raw_sparql, topics)
