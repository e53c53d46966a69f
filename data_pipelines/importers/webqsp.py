"""WebQSP's official JSON (Yih et al. 2016, ACL P16-2033) as ``Question`` records.

A question has several parses, any of which may lack its topic entity or its answers; the first usable one is taken, or
all usable ones together (``parses="union"``). The gold path is the parse's ``InferentialChain``; where it has
constraints the path alone leads to more than the gold, so the structure says ``+constraints``. With a KG, topics and
answers bear the KG's names and WebQSP's own become aliases (``England`` and ``England-GB``).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from data_pipelines.importers.counts import Counts
from data_pipelines.importers.paths import EXACT, PathWalker
from data_pipelines.importers.webqsp_file import Parse, Record, read_records, unknown_topic
from graphwalker.errors import UserError
from graphwalker.kg.store import KGStore
from graphwalker.types import Entity, Question

PARSES = ("first", "union")


def read_questions(
    source: str | Path,
    counts: Counts,
    *,
    store: KGStore | None = None,
    split: str | None = None,
    parses: str = "first",
    drop_missing_topics: bool = True,
    only_exact: bool = False,
    closed_world: bool = False,
) -> Iterator[Question]:
    """Yield the questions, counting in ``counts`` what is kept, dropped and noticed.

    ``closed_world`` keeps only the gold answers that the KG has; ``only_exact`` keeps only the questions whose first
    parse has a path without constraints that gives exactly its gold on the KG. Both need ``store``.
    Raises ``FileFormatError`` for what is not WebQSP's JSON, and for a topic the KG lacks unless
    ``drop_missing_topics``.
    """
    if parses not in PARSES:
        raise UserError(f"unknown choice of parses {parses!r}: one of {', '.join(PARSES)}")
    if store is None and (only_exact or closed_world):
        raise UserError("exact gold and a closed world need a KG to hold the gold against (--kg)")
    path = Path(source)
    split = split or next((name for name in ("train", "test", "dev") if name in path.stem.lower()), "")
    walker = PathWalker(store) if store is not None else None
    for record in read_records(path):
        usable = [parse for parse in record.parses if parse.topic and parse.answers]
        if not usable:
            counts.drop("no parse has a topic entity and answers", record.where)
            continue
        question = _as_question(record, usable if parses == "union" else usable[:1], split, walker)
        missing = 0
        if walker is not None:
            absent = [topic.id for topic in question.topic_entities if topic.id and not walker.store.has_node(topic.id)]
            if absent and not drop_missing_topics:
                raise unknown_topic(record, path, absent[0])
            kept = _with_kg_answers(question, walker.store)
            reason = "its topic entity is not in the KG" if absent else "" if kept.answers else "no answer is in the KG"
            reason = reason or (_inexact(question, record.parses[0], walker) if only_exact else "")
            if reason:
                counts.drop(reason, record.where)
                continue
            missing = len(question.answers) - len(kept.answers)
            question = kept if closed_world else question
        _note(record, usable[0], missing, counts)
        counts.kept += 1
        yield question


def _note(record: Record, taken: Parse, missing: int, counts: Counts) -> None:
    for condition, reason in (
        (len(record.parses) > 1, "it has several parses"),
        (taken is not record.parses[0], "its first parse is not usable, a later one is taken"),
        (not taken.chain, "it has no gold path"),
        (taken.constraints, "its path has constraints, and alone gives more than the gold"),
        (missing, "some of its answers are not in the KG"),
    ):
        if condition:
            counts.note(reason, record.where)


def _as_question(record: Record, parses: Sequence[Parse], split: str, walker: PathWalker | None) -> Question:
    first = parses[0]
    topics: dict[str | None, Entity] = {}
    answers: dict[str, Entity] = {}
    for parse in parses:
        topics.setdefault(parse.topic, Entity(parse.topic_name or str(parse.topic), parse.topic))
        for answer in parse.answers:
            answers.setdefault(answer.id or answer.name, answer)
    path = _hops(first, walker) if len(topics) == 1 else ()  # parses of other topics are no branches of one question
    return Question(
        id=record.id,
        text=record.text,
        topic_entities=tuple(_named_by_kg(topic, walker) for topic in topics.values()),
        answers=tuple(_named_by_kg(answer, walker) for answer in answers.values()),
        dataset="webqsp",
        split=split,
        structure=(f"{len(path)}-hop" if path else "no path") + ("+constraints" if first.constraints else ""),
        hops=len(path) or None,
        sparql=first.sparql,
        paths=(path,) if path else (),
    )


def _hops(parse: Parse, walker: PathWalker | None) -> tuple[str, ...]:
    """The chain as hops of an agent. WebQSP's chains of two run through a mediator; a KG, where given, decides."""
    if walker is not None and parse.topic and walker.store.has_node(parse.topic):
        return walker.hops(parse.topic, parse.chain)
    return (".".join(parse.chain),) if len(parse.chain) == 2 else parse.chain


def _named_by_kg(entity: Entity, walker: PathWalker | None) -> Entity:
    """The entity under the KG's name; the data set's own name, where it differs, is an alias beside the KG's."""
    if walker is None or entity.id is None or not walker.store.has_node(entity.id):
        return entity
    name = walker.store.names([entity.id])[0]
    if name is None or name == entity.name:
        return entity
    aliases = {*walker.store.aliases(entity.id), entity.name} - {name, entity.id}
    return replace(entity, name=name, aliases=tuple(sorted(aliases)))


def _with_kg_answers(question: Question, store: KGStore) -> Question:
    """Without the answers that are entities the KG lacks; values stay."""
    kept = tuple(answer for answer in question.answers if answer.id is None or store.has_node(answer.id))
    return replace(question, answers=kept)


def _inexact(question: Question, first: Parse, walker: PathWalker) -> str:
    """Why the first parse's path does not give exactly its gold on the KG, "" when it does."""
    if not first.topic or not first.answers:
        return "its first parse is not usable"
    if not first.chain:
        return "its first parse has no path"
    if first.constraints:
        return "its first parse has constraints"
    question = replace(question, topic_entities=question.topic_entities[:1], answers=first.answers)
    return "" if walker.judge(question) == EXACT else "its gold is not exactly what its path gives on the KG"
