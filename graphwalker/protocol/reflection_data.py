"""What ArG's generator is trained on: a path's text, and the candidates that were judged along it."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from reprlib import repr as shown
from typing import Any, Self

from graphwalker.errors import UserError
from graphwalker.types import SCHEMA, Entity, Question

KINDS = ("relation", "entity", "rationality", "utility")


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
        """A checked record. Raises `UserError` that names the field at fault."""
        known = {"question": Question.from_json, "topic": Entity.from_json, "text": _string, "ended": _boolean}
        values = _values(record, cls, {**known, "branches": _list})
        branches = tuple(_branch(branch, len(values["text"])) for branch in values.pop("branches", ()))
        return cls(**values, branches=branches)

    def texts(self) -> Iterator[str]:
        """Everything that a model can come to read of this record, for a tokenizer to be trained on."""
        yield self.text
        for branch in self.branches:
            yield branch.read + branch.trained


def _branch(record: Any, length: int) -> Branch:
    fields = {"kind": _string, "at": _count, "read": _string, "trained": _string, "ended": _boolean}
    branch = Branch(**_values(record, Branch, fields))
    if branch.kind not in KINDS:
        raise UserError(f"kind: expected one of {', '.join(KINDS)}, got {shown(branch.kind)}")
    if branch.at > length:
        raise UserError(f"at: {branch.at}, but the text has {length} characters")
    return branch


def _values(record: Any, cls: type, convert: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise UserError(f"expected an object with the fields of a {cls.__name__}, got {shown(record)}")
    if record.get("schema", SCHEMA) != SCHEMA:
        raise UserError(f"{cls.__name__} has schema {shown(record['schema'])}; this version reads schema {SCHEMA}")
    if unknown := sorted(record.keys() - convert.keys() - {"schema"}):
        raise UserError(f"unknown field {unknown[0]!r} in a {cls.__name__}; its fields are {', '.join(convert)}")
    required = [f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING]
    if missing := [name for name in required if name not in record]:
        raise UserError(f"field {missing[0]!r} is missing in a {cls.__name__}")
    values = {}
    for name in (name for name in convert if name in record):
        try:
            values[name] = convert[name](record[name])
        except UserError as error:
            raise UserError(f"{name}: {error}") from None
    return values


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise UserError(f"expected a string, got {shown(value)}")
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UserError(f"expected true or false, got {shown(value)}")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UserError(f"expected a whole number from 0 on, got {shown(value)}")
    return value


def _list(value: Any) -> list:
    if not isinstance(value, list):
        raise UserError(f"expected a list, got {shown(value)}")
    return value
