"""What a tool says, and the errors it can say."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from graphwalker.errors import KGUnavailable
from graphwalker.protocol.escape import escape_name
from graphwalker.types import Status

_ECHO = 60  # characters of a model's own words that an error repeats


@dataclass(frozen=True, slots=True)
class Observation:
    """What a tool says: the body of ``<information>``, what it means, and the relations shown (after get_relations).

    ``outage`` is the kind of an outage (``KGUnavailable.kind``), "" where there was none.
    """

    text: str
    status: Status = "ok"
    relations: tuple[str, ...] = ()
    outage: str = ""


@dataclass(frozen=True, slots=True)
class Triples:
    """An observation of triples with the ids behind the names in it (the first one, where two share a name)."""

    observation: Observation
    ids: Mapping[str, str]


def error(problem: str, status: Status) -> Observation:
    """An error as the model reads it: one line."""
    return Observation(f"Error: {problem}", status)


def unknown_entity(name: str) -> Observation:
    return error(f"no entity is named {echo(name)}. Copy a name as it was shown.", "unknown_entity")


def outage(problem: KGUnavailable) -> Observation:
    status: Status = "kg_timeout" if problem.status == "kg_timeout" else "kg_error"
    said = error("the knowledge graph gave no answer; this does not mean that there is none. Try again.", status)
    return replace(said, outage=problem.kind)


def echo(text: str) -> str:
    """A model's own words in an error: short, on one line, without tags."""
    return escape_name(text if len(text) <= _ECHO else text[:_ECHO] + "…")
