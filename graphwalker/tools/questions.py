"""Questions to run, from a file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from graphwalker.errors import UserError
from graphwalker.files import read_jsonl
from graphwalker.types import Question


class KnowsTopics(Protocol):
    """A toolbox over a graph."""

    def unknown_topics(self, question: Question) -> list[str]: ...


def read_questions(
    path: str | Path,
    toolbox: KnowsTopics | None = None,
    limit: int | None = None,
    to_run: Callable[[Question], bool] = lambda question: True,
) -> list[Question]:
    """The questions of a JSONL file, or the first `limit` of them.

    Raises `UserError` when the file is missing or empty and `FileFormatError` (file and line) on a broken record, on an
    id that occurred before and, of a question `to_run`, on a topic entity that the toolbox's graph does not know: an
    agent could only fail there.
    """
    questions = list(read_jsonl(path, _Checked(toolbox, to_run)))[:limit]
    if not questions:
        raise UserError(f"{path}: no questions in this file")
    return questions


class _Checked:
    """A question, checked as `read_jsonl` reads it."""

    def __init__(self, toolbox: KnowsTopics | None, to_run: Callable[[Question], bool]):
        self._toolbox, self._to_run = toolbox, to_run
        self._ids: set[str] = set()

    def from_json(self, record: Any) -> Question:
        question = Question.from_json(record)
        if question.id in self._ids:
            raise UserError(f"question id {question.id!r} occurs twice")
        self._ids.add(question.id)
        if self._toolbox and self._to_run(question) and (unknown := self._toolbox.unknown_topics(question)):
            raise UserError(
                f"question {question.id}: unknown topic entity {unknown[0]!r}: the KG does not have it "
                "(`graphwalker data import` with --kg leaves such questions out)"
            )
        return question
