"""Questions to run on a graph, from a file."""

from pathlib import Path
from typing import Any

from graphwalker.errors import UserError
from graphwalker.files import read_jsonl
from graphwalker.tools.toolbox import Toolbox
from graphwalker.types import Question


def read_questions(path: str | Path, toolbox: Toolbox, limit: int | None = None) -> list[Question]:
    """The questions of a JSONL file, or the first `limit` of them.

    Raises `UserError` when the file is missing or empty and `FileFormatError` (file and line) on a broken record and on
    a topic entity that the graph does not know: an agent could only fail there.
    """
    questions = list(read_jsonl(path, _OnGraph(toolbox)))[:limit]
    if not questions:
        raise UserError(f"{path}: no questions in this file")
    return questions


class _OnGraph:
    """A question, checked as `read_jsonl` reads it."""

    def __init__(self, toolbox: Toolbox):
        self._toolbox = toolbox

    def from_json(self, record: Any) -> Question:
        question = Question.from_json(record)
        if unknown := self._toolbox.unknown_topics(question):
            raise UserError(f"question {question.id}: unknown topic entity {unknown[0]!r}")
        return question
