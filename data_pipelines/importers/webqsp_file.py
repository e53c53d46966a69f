"""WebQSP's official JSON read into plain records, every wrong field named with the line of its question."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from graphwalker.errors import FileFormatError, UserError
from graphwalker.types import Entity


@dataclass(frozen=True)
class Parse:
    """One annotation of a question; what is null or empty in the file is ``None`` or empty here."""

    topic: str | None
    topic_name: str
    chain: tuple[str, ...]
    constraints: int
    answers: tuple[Entity, ...]
    sparql: str | None


@dataclass(frozen=True)
class Record:
    """A question with its parses; ``where`` is its place for messages (``path:line id``)."""

    id: str
    text: str
    parses: tuple[Parse, ...]
    where: str


@dataclass(frozen=True)
class _Source:
    """The file's text, kept to say on which line a question stands."""

    path: Path
    text: str

    @cached_property
    def lines(self) -> dict[str, int]:
        """Question id -> the line of its ``QuestionId``."""
        found: dict[str, int] = {}
        for number, line in enumerate(self.text.split("\n"), 1):
            for after in line.split('"QuestionId"')[1:]:
                found.setdefault(after.lstrip(" :\t").lstrip('"').split('"', 1)[0], number)
        return found

    def where(self, question: str) -> str:
        return f"{self.path}:{self.lines.get(question, 1)} {question}"

    def error(self, question: str, problem: str) -> FileFormatError:
        return FileFormatError(self.path, self.lines.get(question, 1), f"{question}: {problem}")


def read_records(path: Path) -> Iterator[Record]:
    """Yield the questions of the file. Raises ``UserError`` (missing) and ``FileFormatError`` (with the line)."""
    source, records = _load(path)
    for record in records:
        question = record.get("QuestionId") if isinstance(record, dict) else None
        if not isinstance(question, str) or not question:
            raise FileFormatError(path, 1, f"expected a question with a 'QuestionId', got {str(record)[:200]}")
        text = record.get("RawQuestion") or record.get("ProcessedQuestion")
        if not isinstance(text, str):
            raise source.error(question, f"field 'RawQuestion' must be a string, got {text!r}")
        parses = record.get("Parses")
        if not isinstance(parses, list):
            raise source.error(question, f"field 'Parses' must be a list, got {str(parses)[:200]}")
        yield Record(question, text, tuple(_parse(source, question, p) for p in parses), source.where(question))


def unknown_topic(record: Record, path: Path, topic: str) -> FileFormatError:
    """The error for a topic entity that a KG lacks."""
    line = int(record.where.removeprefix(f"{path}:").split(" ", 1)[0])
    return FileFormatError(path, line, f"{record.id}: unknown topic entity {topic!r}: the KG does not have it")


def _load(path: Path) -> tuple[_Source, list[Any]]:
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
        data = json.loads(text)
    except UnicodeDecodeError as error:
        raise FileFormatError(path, raw.count(b"\n", 0, error.start) + 1, f"not UTF-8 ({error.reason})") from error
    except json.JSONDecodeError as error:
        raise FileFormatError(path, error.lineno, f"not JSON: {error.msg} (column {error.colno})") from error
    records = data.get("Questions") if isinstance(data, dict) else None
    if not isinstance(records, list):
        raise FileFormatError(path, 1, "expected WebQSP's official form: an object with a list 'Questions'")
    return _Source(path, text), records


def _parse(source: _Source, question: str, parse: Any) -> Parse:
    if not isinstance(parse, dict):
        raise source.error(question, f"a parse must be an object, got {str(parse)[:200]}")
    chain = _field(source, question, parse, "InferentialChain", list, [])
    if not all(isinstance(relation, str) for relation in chain):
        raise source.error(question, f"field 'InferentialChain' must hold strings, got {str(chain)[:200]}")
    answers = [_answer(source, question, a) for a in _field(source, question, parse, "Answers", list, [])]
    return Parse(
        topic=_field(source, question, parse, "TopicEntityMid", str, "") or None,
        topic_name=_field(source, question, parse, "TopicEntityName", str, ""),
        chain=tuple(chain),
        constraints=len(_field(source, question, parse, "Constraints", list, [])),
        answers=tuple(dict.fromkeys(answers)),
        sparql=_field(source, question, parse, "Sparql", str, "") or None,
    )


def _answer(source: _Source, question: str, answer: Any) -> Entity:
    if not isinstance(answer, dict):
        raise source.error(question, f"an answer must be an object, got {str(answer)[:200]}")
    argument = _field(source, question, answer, "AnswerArgument", str, "")
    if not argument:
        raise source.error(question, f"an answer needs an 'AnswerArgument', got {str(answer)[:200]}")
    name = _field(source, question, answer, "EntityName", str, "")
    if answer.get("AnswerType") != "Entity":
        return Entity(argument)  # a value is its own name
    return Entity(name or argument, argument)


def _field(source: _Source, question: str, record: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    value = record.get(name)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise source.error(question, f"field {name!r} must be a {kind.__name__} or null, got {str(value)[:200]}")
    return value
