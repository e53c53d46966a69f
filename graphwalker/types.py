"""The values that travel between stages, each with a JSON round trip.

``Triple``, ``Question``, ``Turn`` and ``Trajectory`` are all that the stages exchange. Records on
disk are JSON Lines; each carries ``schema: 1``.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

from graphwalker import fields
from graphwalker.fields import SCHEMA

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


def _record(value) -> dict[str, Any]:
    """A dataclass as JSON-ready values (tuples become lists), tagged with the schema version."""
    return {"schema": SCHEMA, **dataclasses.asdict(value)}


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
        return cls(**fields.fields_of(cls, record, {"head": fields.text, "relation": fields.text, "tail": fields.text}))


@dataclass(frozen=True, slots=True)
class Entity:
    """A node with its name; ``id`` is the KG's id where known, ``aliases`` are other right names."""

    name: str
    id: str | None = None
    aliases: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, record: Any) -> Self:
        known = {"name": fields.text, "id": fields.optional(fields.text), "aliases": fields.strings}
        return cls(**fields.fields_of(cls, record, known))


@dataclass(frozen=True, slots=True)
class Parse:
    """One of several annotations of a question; its topic entities or its answers may be missing."""

    topic_entities: tuple[Entity, ...] = ()
    answers: tuple[Entity, ...] = ()
    sparql: str | None = None
    paths: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def from_json(cls, record: Any) -> Self:
        entities = fields.list_of(Entity.from_json)
        known = {
            "topic_entities": entities,
            "answers": entities,
            "sparql": fields.optional(fields.text),
            "paths": fields.list_of(fields.strings),
        }
        return cls(**fields.fields_of(cls, record, known))


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
        entities = fields.list_of(Entity.from_json)
        known = {
            "id": fields.text,
            "text": fields.text,
            "topic_entities": entities,
            "answers": entities,
            "dataset": fields.text,
            "split": fields.text,
            "structure": fields.text,
            "hops": fields.optional(fields.count),
            "sparql": fields.optional(fields.text),
            "paths": fields.list_of(fields.strings),
            "parses": fields.list_of(Parse.from_json),
        }
        return cls(**fields.fields_of(cls, record, known))


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
        texts = dict.fromkeys(("text", "thought", "action", "observation"), fields.text)
        known = {**texts, "kind": fields.one_of(get_args(Kind)), "status": fields.one_of(STATUSES)}
        return cls(**fields.fields_of(cls, record, known))


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
            "turns": fields.list_of(Turn.from_json),
            "answer": fields.optional(fields.strings),
            "ending": fields.one_of(ENDINGS),
            **dict.fromkeys(("sample", "prompt_tokens", "completion_tokens", "observation_tokens"), fields.count),
            "extra": fields.mapping,
        }
        return cls(**fields.fields_of(cls, record, known))
