"""Questions held against a KG: its ids and names in the place of the data set's, paths as an agent walks them."""

from dataclasses import replace
from typing import TypeVar

from data_pipelines.importers.paths import CONSTRAINTS, EXACT, OTHER, PART, PathWalker
from graphwalker.kg.store import KGStore
from graphwalker.kg.terms import literal
from graphwalker.types import Entity, Parse, Question

MISSING_TOPIC = "its topic entity is not in the KG"
MISSING_ANSWERS = "no answer is in the KG"
SOME_MISSING = "some of its answers are not in the KG"
GOLD_IS_PART = "the gold is a part of what its path gives on the KG"
GOLD_IS_OTHER = "the gold is not what its path gives on the KG"
Part = TypeVar("Part", Question, Parse)


def settle(question: Question, walker: PathWalker) -> tuple[Question, list[str]]:
    """The question with the KG's ids and names, and what is to note about it.

    The data set's own names become aliases where they differ. Edges that meet in a mediator become one hop.
    """
    parses = tuple(linked(parse, walker) for parse in question.parses)
    question = replace(linked(question, walker), parses=parses)
    return replace(question, hops=max(map(len, question.paths), default=question.hops)), []


def linked(part: Part, walker: PathWalker) -> Part:
    """A question or a parse with the KG's ids and names."""
    store = walker.store
    topics = tuple(_topic(topic, store) for topic in part.topic_entities)
    paths = part.paths
    if len(paths) == len(topics):
        paths = tuple(
            walker.hops(topic.id, [_relation(hop, store) for hop in path]) if topic.id else path
            for topic, path in zip(topics, paths, strict=True)
        )
    part = replace(part, topic_entities=topics, paths=paths)
    ends: frozenset[str] | None = None
    answers = []
    for answer in part.answers:
        if answer.id is None and len(same := store.named(answer.name)) > 1:
            if ends is None:
                ends = frozenset(walker.ends(part))
            same = [node for node in same if node in ends]
            answers.append(named_by_kg(replace(answer, id=same[0]), store) if len(same) == 1 else answer)
        else:
            answers.append(_topic(answer, store))
    return replace(part, answers=tuple(answers))


def named_by_kg(entity: Entity, store: KGStore) -> Entity:
    """The entity under the KG's name; the data set's own name, where it differs, is an alias beside the KG's."""
    if entity.id is None or not store.has_node(entity.id):
        return entity
    name = store.names([entity.id])[0]
    if name is None or name == entity.name:
        return entity
    aliases = {*store.aliases(entity.id), *entity.aliases, entity.name} - {name, entity.id}
    return replace(entity, name=name, aliases=tuple(sorted(aliases)))


def _topic(entity: Entity, store: KGStore) -> Entity:
    """By its id, as the KG prints ids, or by its name (of several, the one that the agent's tools take)."""
    if entity.id is None:
        same = store.named(entity.name)
        return named_by_kg(replace(entity, id=same[0]), store) if same else entity
    compact = entity.id if store.has_node(entity.id) else store.schema.compact(entity.id)
    return named_by_kg(replace(entity, id=compact), store)


def _relation(hop: str, store: KGStore) -> str:
    return "^" + store.schema.compact(hop[1:]) if hop.startswith("^") else store.schema.compact(hop)


def missing_topic(question: Question, store: KGStore) -> str:
    """The name of a topic entity that the KG lacks, "" if it has all."""
    for topic in question.topic_entities:
        if topic.id is None or not store.has_node(topic.id):
            return topic.id or topic.name
    return ""


def is_missing(answer: Entity, store: KGStore, only_entities: bool) -> bool:
    """Whether the KG lacks an answer. One without an id is a value, which no KG lacks, unless ``only_entities``."""
    if answer.id is not None:
        return not store.has_node(answer.id)
    return only_entities and not store.has_node(literal(answer.name))


def inexact(question: Question, walker: PathWalker) -> str:
    """Why the gold is not exactly what the gold path gives on the KG, "" when it is. The first parse counts."""
    if question.parses:
        first = question.parses[0]
        if not first.topic_entities or not first.answers:
            return "its first parse is not usable"
        question = replace(question, topic_entities=first.topic_entities, answers=first.answers, paths=first.paths)
    if not question.paths:
        return "it has no gold path"
    if question.structure.endswith(CONSTRAINTS):
        return "its gold path has constraints"
    standing = walker.judge(question)
    return "" if standing == EXACT else GOLD_IS_PART if standing == PART else GOLD_IS_OTHER


def standing_note(question: Question, walker: PathWalker) -> str:
    """What to note where a plain gold path gives another gold on the KG."""
    if question.structure.endswith(CONSTRAINTS):
        return ""
    return {PART: GOLD_IS_PART, OTHER: GOLD_IS_OTHER}.get(walker.judge(question), "")
