"""WebQSP's official JSON (Yih et al. 2016, ACL P16-2033) as ``Question`` records.

A question has several parses, any of which may lack its topic entity or its answers; the first usable one is taken, or
all usable ones together (``parses="union"``), and where there are several all are kept in ``parses``. The gold path is
the parse's ``InferentialChain``; where it has constraints the path alone leads to more than the gold.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from data_pipelines.importers import on_kg
from data_pipelines.importers.found import Found, split_of, unique
from data_pipelines.importers.paths import CONSTRAINTS, PathWalker
from data_pipelines.importers.records import read_records
from graphwalker.errors import UserError
from graphwalker.types import Entity, Parse, Question

PARSES = ("first", "union")


class AnswerRecord(msgspec.Struct):
    AnswerArgument: str
    AnswerType: str = "Entity"
    EntityName: str | None = None


class ParseRecord(msgspec.Struct):
    Sparql: str | None = None
    TopicEntityName: str | None = None
    TopicEntityMid: str | None = None
    InferentialChain: list[str] | None = None
    Constraints: list[Any] | None = None
    Answers: list[AnswerRecord] | None = None


class Record(msgspec.Struct):
    QuestionId: str
    Parses: list[ParseRecord]
    RawQuestion: str | None = None
    ProcessedQuestion: str | None = None


def read(source: Path, split: str | None = None, *, form: str = "webqsp", parses: str = "first") -> Iterator[Found]:
    """Yield the questions. ``parses`` says which of several usable parses are taken: ``first`` or ``union``."""
    if parses not in PARSES:
        raise UserError(f"unknown choice of parses {parses!r}: one of {', '.join(PARSES)}")
    for row in read_records(source, Record, key="Questions"):
        record = row.value
        text = record.RawQuestion or record.ProcessedQuestion
        if text is None:
            raise row.error(f"{record.QuestionId}: field 'RawQuestion' is missing")
        read_all = [(_parse(parse), bool(parse.Constraints)) for parse in record.Parses]
        usable = [one for one in read_all if one[0].topic_entities and one[0].answers]
        answered = usable or [one for one in read_all if one[0].answers]
        question = Question(id=record.QuestionId, text=text, dataset=form, split=split or split_of(source))
        notes = ["it has several parses"] if len(read_all) > 1 else []
        if not answered:
            yield Found(question, row, drop="no parse has answers")
            continue
        if usable and usable[0] is not read_all[0]:
            notes.append("its first parse is not usable, a later one is taken")
        question = _taken(question, answered if parses == "union" else answered[:1])
        if len(read_all) > 1:
            question = replace(question, parses=tuple(parse for parse, _ in read_all))
        yield Found(question, row, tuple(notes))


def _taken(question: Question, parses: Sequence[tuple[Parse, bool]]) -> Question:
    first, constraints = parses[0]
    topics = unique(topic for parse, _ in parses for topic in parse.topic_entities)
    paths = first.paths if len(topics) == 1 else ()  # parses of other topics are no branches of one question
    return replace(
        question,
        topic_entities=topics,
        answers=unique(answer for parse, _ in parses for answer in parse.answers),
        sparql=first.sparql,
        paths=paths,
        structure=CONSTRAINTS if constraints else "",
    )


def _parse(record: ParseRecord) -> Parse:
    chain, topic = tuple(record.InferentialChain or ()), record.TopicEntityMid
    return Parse(
        topic_entities=(Entity(record.TopicEntityName or topic, topic),) if topic else (),
        answers=unique(map(_answer, record.Answers or ())),
        sparql=record.Sparql or None,
        paths=(chain,) if chain and topic else (),
    )


def _answer(record: AnswerRecord) -> Entity:
    if record.AnswerType != "Entity":
        return Entity(record.AnswerArgument)  # a value is its own name
    return Entity(record.EntityName or record.AnswerArgument, record.AnswerArgument)


def alone(question: Question) -> Question:
    """Without a KG: WebQSP's chains of two run through a mediator, so they are one hop."""
    parses = tuple(replace(parse, paths=tuple(map(_joined, parse.paths))) for parse in question.parses)
    return _shaped(replace(question, paths=tuple(map(_joined, question.paths)), parses=parses))


def settle(question: Question, walker: PathWalker) -> tuple[Question, list[str]]:
    """On a KG, which tells what mediates."""
    question, notes = on_kg.settle(question, walker)
    return _shaped(question), notes


def _joined(path: tuple[str, ...]) -> tuple[str, ...]:
    return (".".join(path),) if len(path) == 2 else path


def _shaped(question: Question) -> Question:
    hops = max(map(len, question.paths), default=None)
    shape = f"{hops}-hop" if hops else "no path"
    return replace(question, hops=hops, structure=shape + question.structure)
