"""What ArG's generator is trained on: a path's text, and the candidates that were judged along it."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from graphwalker import fields
from graphwalker.errors import UserError
from graphwalker.fields import SCHEMA
from graphwalker.files import first_record
from graphwalker.protocol.reflection import ReflectionPath, parse
from graphwalker.types import Entity, Question

KINDS = ("relation", "entity", "rationality", "utility")
Paragraphs = Literal["path", "relations", "all", "none"]
"""Where what stands in a paragraph is trained (`graphwalker.train.reflection_rows`)."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A text of its own that leaves the path: its first ``at`` characters, then ``read``, then ``trained``.

    ``kind`` says what is judged in it. ``ended``: an answer ends it, so its end of turn is trained as well; else the
    text is cut after the label.
    """

    kind: str
    at: int
    read: str
    trained: str
    ended: bool = False


@dataclass(frozen=True, slots=True)
class ReflectionRecord:
    """One path from one topic entity of a question, as ``protocol.reflection`` writes it, with its branches.

    ``ended`` is false for a path that a critic's label cut short.
    """

    question: Question
    topic: Entity
    text: str
    branches: tuple[Branch, ...] = ()
    ended: bool = True

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, record: Any) -> Self:
        """A checked record, its texts too. Raises `UserError` that names the field at fault."""
        known = {"question": Question.from_json, "topic": Entity.from_json, "text": fields.text}
        values = fields.fields_of(cls, record, {**known, "ended": fields.boolean, "branches": fields.list_of(_branch)})
        text, branches = values["text"], values.get("branches", ())
        _check_path("text", text)
        for branch in branches:
            if branch.at > len(text):
                raise UserError(f"branches: at: {branch.at}, but the text has {len(text)} characters")
            if not branch.trained:
                raise UserError("branches: trained: nothing stands in it")
            _check_path("branches: read", text[: branch.at] + branch.read + branch.trained)
        return cls(**values)

    def texts(self) -> Iterator[str]:
        """Everything that a model can come to read of this record, for a tokenizer to be trained on."""
        yield self.text
        for branch in self.branches:
            yield branch.read + branch.trained


def holds_reflections(path: Path) -> bool:
    """Whether a JSONL file's first record is one of these rather than a trajectory."""
    first = first_record(path)
    return "turns" not in first and "text" in first


def _check_path(field: str, text: str) -> None:
    """Raise `UserError` for a text that a model must not learn to write."""
    found = parse(text)
    problems = found.problems or (() if found.path != ReflectionPath() else ("nothing stands in it",))
    if problems:
        raise UserError(f"{field}: no path with reflection tokens: {problems[0]}")


def _branch(record: Any) -> Branch:
    texts = dict.fromkeys(("read", "trained"), fields.text)
    known = {**texts, "kind": fields.one_of(KINDS), "at": fields.count, "ended": fields.boolean}
    return Branch(**fields.fields_of(Branch, record, known))
