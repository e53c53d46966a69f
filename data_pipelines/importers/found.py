"""What a reader of a published format yields: a question or a trajectory, where it stands, and what is to say of it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from data_pipelines.importers.paths import CONSTRAINTS
from data_pipelines.importers.patterns import Branches, NoPath, branches, constants, read_pattern, topics_in
from data_pipelines.importers.records import Row
from graphwalker.types import Entity, Question, Trajectory

NO_TOPIC = "it has no topic entity"
NO_PATH = "it has no gold path"
ONLY_QUERY = "its gold is only a query"
HAS_CONSTRAINTS = "its path has constraints, and alone gives more than the gold"


@dataclass(frozen=True)
class Found:
    """One record read. ``drop`` says why it is left out ("" if it is not), ``notes`` what else is worth knowing."""

    item: Question | Trajectory
    row: Row[Any]
    notes: tuple[str, ...] = ()
    drop: str = ""


def split_of(path: Path) -> str:
    """The split that a file's name tells, "" if it tells none.

    >>> split_of(Path("WebQSP.train.json")), split_of(Path("val.json")), split_of(Path("kb.json"))
    ('train', 'dev', '')
    """
    name = path.stem.lower()
    known = {"train": "train", "test": "test", "dev": "dev", "val": "dev"}
    return next((split for word, split in known.items() if word in name), "")


def entities(names: dict[str, str]) -> dict[str, Entity]:
    """Id -> entity, from ids and their names; one without a name is called by its id."""
    return {node: Entity(name or node, node) for node, name in names.items()}


def unique(found: Iterable[Entity]) -> tuple[Entity, ...]:
    """Entities by id, or by name where they have none; the first of each counts."""
    first: dict[str, Entity] = {}
    for entity in found:
        first.setdefault(entity.id or entity.name, entity)
    return tuple(first.values())


def from_branches(question: Question, found: Branches, topics: dict[str, Entity]) -> Question:
    """The question with gold paths: its topics are those that a path starts from, or all where there is no path."""
    reached = tuple(topics[topic] for topic in found.topics)
    return with_paths(question, reached or tuple(topics.values()), found.paths, found.constraints)


def with_paths(
    question: Question, topics: tuple[Entity, ...], paths: tuple[tuple[str, ...], ...], constraints: bool
) -> Question:
    """The question with one path for each topic; where paths are not all, its structure says so."""
    shape = question.structure + (CONSTRAINTS if constraints and paths else "")
    return replace(
        question, topic_entities=topics, paths=paths, hops=max(map(len, paths), default=None), structure=shape
    )


def from_sparql(question: Question, prefixes: tuple[str, ...], names: dict[str, str] | None = None) -> Question:
    """The question with the topics and paths that its SPARQL spells; constants whose ids start so are topics.

    ``names`` are those a data set states for its topics, by id; where it does, only these are topics.
    """
    sparql = question.sparql or ""
    try:
        pattern = read_pattern(sparql)
        topics = entities(names or {topic: "" for topic in topics_in(pattern.edges, prefixes)})
        return from_branches(question, branches(pattern.edges, pattern.answer, topics, pattern.constraints), topics)
    except NoPath:
        topics = entities(names or {topic: "" for topic in constants(sparql, prefixes)})
        return with_paths(question, tuple(topics.values()), (), False)
