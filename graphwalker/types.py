"""The values that travel between stages, each with a JSON round trip.

``Triple``, ``Question``, ``Turn`` and ``Trajectory`` are all that the stages exchange. Records on
disk are JSON Lines; each carries ``schema: 1``.
"""

import dataclasses
from dataclasses import dataclass, field
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
ENDINGS: tuple[str, ...] = get_args(Ending)


def _record(value) -> dict[str, Any]:
    """A dataclass as JSON-ready values (tuples become lists), tagged with the schema version."""
    return {"schema": SCHEMA, **dataclasses.asdict(value)}


def _fields(cls, record: Any, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """The constructor arguments in a record; raises ``UserError`` on a field that is not of ``cls``."""
    if not isinstance(record, dict):
        raise UserError(f"expected an object with the fields of a {cls.__name__}, got {record!r}")
    version = record.get("schema", SCHEMA)
    if version != SCHEMA:
        raise UserError(f"{cls.__name__} has schema {version!r}; this version reads schema {SCHEMA}")
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
    values = {name: value for name, value in record.items() if name != "schema"}
    return {**values, **{k: v(values[k]) for k, v in (known or {}).items() if k in values}}


def _strings(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise UserError(f"expected a list of strings, got {value!r}")
    return tuple(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise UserError(f"expected a string, got {value!r}")
    return value


def _list_of(convert):
    def converted(value: Any) -> tuple:
        if not isinstance(value, (list, tuple)):
            raise UserError(f"expected a list, got {value!r}")
        return tuple(convert(item) for item in value)

    return converted


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
        return cls(**_fields(cls, record, {"name": _text, "aliases": _strings}))


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
        known = {"topic_entities": entities, "answers": entities, "paths": _list_of(_strings)}
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
    kind: Literal["query", "answer", "none"] = "none"
    action: str = ""
    observation: str = ""
    status: Status = "ok"

    def to_json(self) -> dict[str, Any]:
        return _record(self)

    @classmethod
    def from_json(cls, record: Any) -> Self:
        turn = cls(**_fields(cls, record, {"text": _text, "observation": _text}))
        if turn.status not in STATUSES:
            raise UserError(f"unknown status {turn.status!r}; one of {', '.join(STATUSES)}")
        return turn


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
            "answer": lambda value: None if value is None else _strings(value),
        }
        trajectory = cls(**_fields(cls, record, known))
        if trajectory.ending not in ENDINGS:
            raise UserError(f"unknown ending {trajectory.ending!r}; one of {', '.join(ENDINGS)}")
        return trajectory
