"""The values that travel between stages, each with a JSON round trip.

``Triple``, ``Question``, ``Turn`` and ``Trajectory`` are all that the stages exchange. Records on
disk are JSON Lines; each carries ``schema: 1``.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from reprlib import repr as shown  # short, whatever the value
from typing import Any, Literal, Self, get_args

from graphwalker.errors import UserError

SCHEMA = 1

Status = Literal[
    "ok",  # the KG answered
    "empty",  # the KG answered that there is nothing
    "no_action",  # the turn held neither a query nor an answer
    "bad_query",  # the query could not be parsed
    "unknown_entity",
    "unknown_relation",
    "refused",  # understood, but not allowed now (unseen relation, no turn left)
    "truncated",  # the model's own turn was cut at its token cap
    "kg_timeout",
    "kg_error",
]
Ending = Literal["answered", "budget", "outage", "error"]
STATUSES: tuple[str, ...] = get_args(Status)
RAN: frozenset[str] = frozenset({"ok", "empty"})
"""The statuses of a query that was run, whatever it found; all others are errors of the agent or outages."""
Kind = Literal["query", "answer", "none"]
ENDINGS: tuple[str, ...] = get_args(Ending)
_SURROGATE = re.compile("[\ud800-\udfff]")


def _record(value) -> dict[str, Any]:
    """A dataclass as JSON-ready values (tuples become lists), tagged with the schema version."""
    return {"schema": SCHEMA, **dataclasses.asdict(value)}


def _fields(cls, record: Any, convert: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """The constructor arguments in a record, each converted; raises ``UserError`` that names the field at fault."""
    if not isinstance(record, dict):
        raise UserError(f"expected an object with the fields of a {cls.__name__}, got {shown(record)}")
    version = record.get("schema", SCHEMA)
    if version != SCHEMA:
        raise UserError(f"{cls.__name__} has schema {shown(version)}; this version reads schema {SCHEMA}")
    declared = {f.name: f for f in dataclasses.fields(cls)}
    unknown = sorted(set(record) - set(declared) - {"schema"})
    if unknown:
        raise UserError(f"unknown field {unknown[0]!r} in a {cls.__name__}; its fields are {', '.join(declared)}")
    required = [
        name
        for name, f in declared.items()
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING and name not in record
    ]
    if required:
        raise UserError(f"field {required[0]!r} is missing in a {cls.__name__}")
    values = {}
    for name in (name for name in declared if name in record):
        try:
            values[name] = convert[name](record[name])
        except UserError as error:
            raise UserError(f"{name}: {error}") from None
    return values


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise UserError(f"expected a string, got {shown(value)}")
    if _SURROGATE.search(value):
        raise UserError(f"half a surrogate pair is no text, got {shown(value)}")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UserError(f"expected a whole number from 0 on, got {shown(value)}")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UserError(f"expected an object, got {shown(value)}")
    return value


def _one_of(values: tuple[str, ...]) -> Callable[[Any], Any]:
    def converted(value: Any) -> Any:
        if value not in values:
            raise UserError(f"expected one of {', '.join(values)}, got {shown(value)}")
        return value

    return converted


def _optional(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _list_of(convert: Callable[[Any], Any]) -> Callable[[Any], tuple]:
    def converted(value: Any) -> tuple:
        if not isinstance(value, (list, tuple)):
            raise UserError(f"expected a list, got {shown(value)}")
        return tuple(convert(item) for item in value)

    return converted


_strings = _list_of(_text)


@dataclass(frozen=True, slots=True)
class Triple:
    """One edge ``head -relation-> tail``; nodes are ids, or names where the text says so."""

    head: str
    relation: str
    tail: str

    def to_json(self) -> dict[str, Any]:
        return _record(self)

    @classmethod
    def from_json(cls, record: Any) -> Self:
        return cls(**_fields(cls, record, {"head": _text, "relation": _text, "tail": _text}))


@dataclass(frozen=True, slots=True)
class Entity:
    """A node with its name; ``id`` is the KG's id where known, ``aliases`` are other right names."""

    name: str
    id: str | None = None
    aliases: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, record: Any) -> Self:
        return cls(**_fields(cls, record, {"name": _text, "id": _optional(_text), "aliases": _strings}))


@dataclass(frozen=True, slots=True)
class Parse:
    """One of several annotations of a question; its topic entities or its answers may be missing."""

    topic_entities: tuple[Entity, ...] = ()
    answers: tuple[Entity, ...] = ()
    sparql: str | None = None
    paths: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def from_json(cls, record: Any) -> Self:
        entities = _list_of(Entity.from_json)
        known = {
            "topic_entities": entities,
            "answers": entities,
            "sparql": _optional(_text),
            "paths": _list_of(_strings),
        }
        return cls(**_fields(cls, record, known))


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its topic entities and gold answers.

    ``paths`` holds one relation path per topic entity (one for a chain, two for a conjunction); a
    relation walked against its direction starts with ``^``; a relation through a CVT is
    ``rel1.rel2``. ``structure`` names the shape: ``1-hop`` … ``5-hop``, ``2i`` (conjunction of two
    branches), or what the data set calls it. ``hops`` is the longest branch's length. ``parses`` holds
    all annotations where a data set has several; the fields say what was taken of them.
    """

    id: str
    text: str
    topic_entities: tuple[Entity, ...] = ()
    answers: tuple[Entity, ...] = ()
    dataset: str = ""
    split: str = ""
    structure: str = ""
    hops: int | None = None
    sparql: str | None = None
    paths: tuple[tuple[str, ...], ...] = ()
    parses: tuple[Parse, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return _record(self)

    @classmethod
    def from_json(cls, record: Any) -> Self:
        entities = _list_of(Entity.from_json)
        known = {
            "id": _text,
            "text": _text,
            "topic_entities": entities,
            "answers": entities,
            "dataset": _text,
            "split": _text,
            "structure": _text,
            "hops": _optional(_count),
            "sparql": _optional(_text),
            "paths": _list_of(_strings),
            "parses": _list_of(Parse.from_json),
        }
        return cls(**_fields(cls, record, known))


@dataclass(frozen=True, slots=True)
class Turn:
    """One model turn and what came back.

    ``text`` is what the model wrote, to the letter; ``thought`` and ``action`` are what was parsed
    from it (``kind`` says whether the action is a query, an answer or neither); ``observation`` is
    the body of ``<information>`` ("" after an answer) and ``status`` says what it means.
    """

    text: str
    thought: str = ""
    kind: Kind = "none"
    action: str = ""
    observation: str = ""
    status: Status = "ok"

    def to_json(self) -> dict[str, Any]:
        return _record(self)

    @classmethod
    def from_json(cls, record: Any) -> Self:
        texts = dict.fromkeys(("text", "thought", "action", "observation"), _text)
        return cls(**_fields(cls, record, {**texts, "kind": _one_of(get_args(Kind)), "status": _one_of(STATUSES)}))


@dataclass(frozen=True, slots=True)
class Trajectory:
    """An episode: the question, its turns, the answer given (``None`` when none was) and why it ended.

    ``sample`` numbers repeated episodes of one question. Token counts are of the model's own tokens
    (``completion_tokens``), the observations' and the prompt's; 0 where no model wrote it.
    """

    question: Question
    turns: tuple[Turn, ...] = ()
    answer: tuple[str, ...] | None = None
    ending: Ending = "budget"
    sample: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    observation_tokens: int = 0
    extra: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return _record(self)

    @classmethod
    def from_json(cls, record: Any) -> Self:
        known = {
            "question": Question.from_json,
            "turns": _list_of(Turn.from_json),
            "answer": _optional(_strings),
            "ending": _one_of(ENDINGS),
            **dict.fromkeys(("sample", "prompt_tokens", "completion_tokens", "observation_tokens"), _count),
            "extra": _object,
        }
        return cls(**_fields(cls, record, known))
