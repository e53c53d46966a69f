"""Which records a stage trains on, and in which order: one file or several in shares, filtered, without chance.

The order is that of the files, interleaved so that every stretch of it holds the shares that were asked for. What
shuffles it afterwards is the trainer's sampler alone (``train_sampling_strategy: sequential`` leaves it as it is).
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import count, islice
from typing import Any, TypeVar

from graphwalker.errors import UserError, at_least
from graphwalker.files import read_jsonl
from graphwalker.metrics.aggregate import question_means
from graphwalker.metrics.trajectory import score_trajectory
from graphwalker.train.config_values import check_types
from graphwalker.train.configs import DataFilter, MixedData
from graphwalker.types import Question, Trajectory

Record = TypeVar("Record")
FILTERS = tuple(field.name for field in fields(DataFilter))


@dataclass
class Source(DataFilter):
    """A file of a mixture; ``weight`` is its share beside the others' (``None``: by its size)."""

    file: str = ""
    weight: float | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, limit=1)
        if self.weight is not None:
            at_least(self, weight=0)
            if self.weight == 0:
                raise UserError("weight: must be above 0; leave the file out instead")
        if not self.file:
            raise UserError("file: name a file")


def sources(data: MixedData, key: str, file: str | None) -> list[Source]:
    """The files of a config: ``data.mixture``, or the one ``file``, which stands in the config as ``key``.

    The config's filters hold for every file of a mixture that has none of its own of that name. Raises ``UserError``
    for none or both, and for a mistake in an entry.
    """
    if file is None and not data.mixture:
        raise UserError(f"{key} is missing: name a file, or several in `mixture`")
    if file is not None and data.mixture:
        raise UserError(f"{key} and mixture are both given: name one file, or several in `mixture`")
    shared = {name: getattr(data, name) for name in FILTERS}
    found = [_source(number, given, shared) for number, given in enumerate(data.mixture or [{"file": file}], 1)]
    if len({source.weight is None for source in found}) > 1:
        raise UserError("mixture: give every file a weight, or none")
    return found


def _source(number: int, given: Any, shared: Mapping[str, Any]) -> Source:
    where = f"mixture, file {number}"
    if not isinstance(given, dict):
        raise UserError(f"{where}: expected a mapping with a file, got {given!r}")
    unknown = given.keys() - {field.name for field in fields(Source)}
    if unknown:
        raise UserError(f"{where}: unknown key {min(map(str, unknown))!r}")
    check_types(where, given, [Source])
    try:
        return Source(**{**shared, **given})
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


def read_mixture(
    found: Sequence[Source],
    read: Callable[[str], Iterable[Record]],
    question: Callable[[Record], Question],
    limit: int | None = None,
) -> list[Record]:
    """The records to train on, in order.

    Without weights every record stands there once. With weights there are as many as the files have in all: a file with
    more than its share is cut, one with less begins again. ``limit`` cuts the whole. Raises ``UserError`` where a
    file's filters leave nothing.
    """
    kept = [_kept(source, list(read(source.file)), question) for source in found]
    weights = [
        len(records) if source.weight is None else source.weight for source, records in zip(found, kept, strict=True)
    ]
    total = sum(map(len, kept))
    streams = (_placed(i, records, weight) for i, (records, weight) in enumerate(zip(kept, weights, strict=True)))
    merged = heapq.merge(*streams, key=lambda placed: placed[:2])
    return [record for _, _, record in islice(merged, min(total, limit or total))]


def _placed(source: int, records: Sequence[Record], weight: float) -> Iterator[tuple[float, int, Record]]:
    """A file's records, again and again, each at its place in the mixture."""
    return (((i + 0.5) / weight, source, records[i % len(records)]) for i in count())


def _kept(source: Source, records: list[Record], question: Callable[[Record], Question]) -> list[Record]:
    difficulty = difficulties(source.difficulty_from) if source.difficulty_from else None
    kept = [record for record in records if passes(source, question(record), difficulty)]
    if not kept:
        raise _none_left(source, len(records))
    return kept[: source.limit]


def check_left(source: Source, questions: Iterable[Question]) -> None:
    """Raise ``UserError`` where none of a file's questions passes its filters; reads up to the first that does."""
    if not _set_filters(source):
        return
    difficulty = difficulties(source.difficulty_from) if source.difficulty_from else None
    seen = 0
    for question in questions:
        if passes(source, question, difficulty):
            return
        seen += 1
    raise _none_left(source, seen)


def _none_left(source: Source, records: int) -> UserError:
    return UserError(f"{source.file}: none of its {records} records passes the filters ({_shown(source)})")


def passes(wanted: DataFilter, question: Question, difficulty: Mapping[str, float] | None = None) -> bool:
    """Whether a question is one that a filter lets through; one without hops passes no bound on hops."""
    if wanted.min_hops is not None and (question.hops is None or question.hops < wanted.min_hops):
        return False
    if wanted.max_hops is not None and (question.hops is None or question.hops > wanted.max_hops):
        return False
    if wanted.structures is not None and question.structure not in wanted.structures:
        return False
    if difficulty is None:
        return True
    return question.id in difficulty and wanted.min_difficulty <= difficulty[question.id] <= wanted.max_difficulty


def difficulties(file: str) -> dict[str, float]:
    """Each question's difficulty, 1 - its mean ``em`` over the episodes of an evaluation's ``trajectories.jsonl``."""
    scores = (score_trajectory(trajectory) for trajectory in read_jsonl(file, Trajectory))
    return {question: 1.0 - mean for question, mean in question_means(scores, "em").items()}


def _set_filters(wanted: DataFilter) -> dict[str, Any]:
    defaults = {field.name: field.default for field in fields(DataFilter)}
    return {name: value for name in FILTERS if (value := getattr(wanted, name)) != defaults[name]}


def _shown(wanted: DataFilter) -> str:
    return ", ".join(f"{name}: {value}" for name, value in _set_filters(wanted).items()) or "none is set"
