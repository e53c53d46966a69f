"""One import: a format's records, held against a KG where there is one, and counted.

A format is a module whose ``read(source, split, **options)`` yields a ``Found`` for each record and raises
``FileFormatError`` (file, line, field) on what is malformed. It may also have ``settle(question, walker)`` in the place
of ``on_kg.settle``, ``alone(question)`` for what it does without a KG, ``MISSING_TOPIC`` (what becomes of a question
whose topic the KG lacks, by default) and ``ONLY_ENTITIES`` (its answers are all entities).
"""

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from data_pipelines.importers import on_kg
from data_pipelines.importers.counts import Counts
from data_pipelines.importers.formats import OPTIONS, QUESTIONS, TRAJECTORIES
from data_pipelines.importers.found import HAS_CONSTRAINTS, NO_PATH, NO_TOPIC, ONLY_QUERY
from data_pipelines.importers.paths import CONSTRAINTS, PathWalker
from data_pipelines.importers.records import Row
from graphwalker.errors import UserError
from graphwalker.kg.store import KGStore
from graphwalker.types import Question, Trajectory


def import_from(
    form: str,
    source: str | Path,
    counts: Counts,
    *,
    store: KGStore | None = None,
    split: str | None = None,
    missing: str | None = None,
    only_exact: bool = False,
    closed_world: bool = False,
    **options: Any,
) -> Iterator[Question | Trajectory]:
    """Yield what a source holds, counting in ``counts`` what is kept, dropped and noticed.

    With ``store`` questions bear its ids and names. ``missing`` says what becomes of one whose topic the KG lacks;
    ``closed_world`` keeps only the gold answers that the KG has, ``only_exact`` only the questions whose gold is
    exactly what their path gives there. Raises ``UserError`` for options that do not fit, ``FileFormatError`` for what
    is malformed.
    """
    module = _module(form)
    for option in options:
        if OPTIONS.get(option) != form:
            raise UserError(f"--{option} is for {OPTIONS.get(option)}, not for {form}")
    if store is None and (only_exact or closed_world):
        raise UserError("exact gold and a closed world need a KG to hold the gold against (--kg)")
    if form in TRAJECTORIES and (store is not None or only_exact):
        raise UserError(f"{form} holds trajectories, which are not held against a KG")
    if form in QUESTIONS:
        options["form"] = form
    settled = _Settled(module, store, missing, only_exact, closed_world)
    for found in module.read(Path(source), split, **options):
        item, drop, notes = found.item, found.drop, list(found.notes)
        if isinstance(item, Question) and not drop:
            item, drop, more = settled(item, found.row)
            notes += more
        if drop:
            counts.drop(drop, found.row.where)
            continue
        for note in notes:
            counts.note(note, found.row.where)
        counts.kept += 1
        yield item


def _module(form: str) -> ModuleType:
    known = {**QUESTIONS, **TRAJECTORIES}
    if form not in known:
        raise UserError(f"unknown format {form!r}: one of {', '.join(known)}")
    return import_module(f"data_pipelines.importers.{known[form][0]}")


class _Settled:
    """Questions as they are to be written: the question, why it is dropped ("" if not) and what to note."""

    def __init__(
        self, module: ModuleType, store: KGStore | None, missing: str | None, only_exact: bool, closed_world: bool
    ):
        self.store, self.only_exact, self.closed_world = store, only_exact, closed_world
        self.walker = PathWalker(store) if store is not None else None
        self.settle = getattr(module, "settle", on_kg.settle)
        self.alone = getattr(module, "alone", lambda question: question)
        self.missing = missing or getattr(module, "MISSING_TOPIC", "drop")
        self.only_entities = getattr(module, "ONLY_ENTITIES", False)

    def __call__(self, question: Question, row: Row[Any]) -> tuple[Question, str, list[str]]:
        if not question.answers and not question.sparql:
            return question, "it has no answer", []
        notes = [
            note
            for applies, note in (
                (not question.topic_entities, NO_TOPIC),
                (not question.paths, NO_PATH),
                (not question.answers, ONLY_QUERY),
                (question.structure.endswith(CONSTRAINTS), HAS_CONSTRAINTS),
            )
            if applies
        ]
        if self.walker is None:
            return self.alone(question), "", notes
        question, drop, more = self._on_kg(question, row)
        return question, drop, notes + more

    def _on_kg(self, question: Question, row: Row[Any]) -> tuple[Question, str, list[str]]:
        assert self.walker is not None and self.store is not None
        question, notes = self.settle(question, self.walker)
        if absent := on_kg.missing_topic(question, self.store):
            if self.missing == "error":
                raise row.error(f"{question.id}: unknown topic entity {absent!r}: the KG does not have it")
            if self.missing == "drop":
                return question, on_kg.MISSING_TOPIC, notes
            return question, "", [*notes, on_kg.MISSING_TOPIC]
        kept = tuple(a for a in question.answers if not on_kg.is_missing(a, self.store, self.only_entities))
        if question.answers and not kept:
            return question, on_kg.MISSING_ANSWERS, notes
        if self.only_exact and (reason := on_kg.inexact(question, self.walker)):
            return question, reason, notes
        if len(kept) < len(question.answers):
            notes.append(on_kg.SOME_MISSING)
        if note := on_kg.standing_note(question, self.walker):
            notes.append(note)
        return (replace(question, answers=kept) if self.closed_world else question), "", notes
