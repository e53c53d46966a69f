"""Percentile bootstrap over questions: repeated episodes of one question are drawn together, for they depend on it."""

import zlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
LEVEL = 0.95
_CELLS_AT_ONCE = 4_000_000  # of the resampling weights: 32 MB

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with the ends of its bootstrap interval."""

    value: float
    low: float
    high: float


def random_stream(seed: int, *names: str) -> np.random.Generator:
    """A stream of its own for each use, so that one figure does not change with which others are computed."""
    return np.random.default_rng([seed, *(zlib.crc32(name.encode("utf-8", "replace")) for name in names)])


def ratio_intervals(
    sums: Floats, counts: Floats, rng: np.random.Generator, resamples: int = RESAMPLES
) -> tuple[Floats, Floats, Floats]:
    """Sum over count of each metric, with interval ends.

    ``sums`` and ``counts`` (Q, M) hold, for each question and metric, the sum over its episodes and over how many of
    them the metric is defined. Returns value, low, high, each (M,); NaN where no episode counts.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        value = sums.sum(axis=0) / counts.sum(axis=0)
        draws = [(w @ sums) / (w @ counts) for w in _weights(len(sums), rng, resamples)]
    low, high = _ends(np.concatenate(draws) if draws else np.full((1, sums.shape[1]), np.nan))
    return value, low, high


def table_intervals(
    questions: Sequence[Hashable], table: Floats, rng: np.random.Generator, resamples: int = RESAMPLES
) -> tuple[list[Interval], list[int]]:
    """The mean of each column of ``table`` (E, M) over episodes, with its interval, and over how many it is defined.

    ``questions`` (E) says which question an episode is of; NaN is a value that an episode does not define.
    """
    places = {question: i for i, question in enumerate(dict.fromkeys(questions))}
    rows = np.array([places[question] for question in questions], dtype=np.intp)
    defined = ~np.isnan(table)
    sums, counts = np.zeros((2, len(places), table.shape[1]))
    np.add.at(sums, rows, np.where(defined, table, 0.0))
    np.add.at(counts, rows, defined)
    found = ratio_intervals(sums, counts, rng, resamples)
    intervals = [Interval(*map(float, ends)) for ends in zip(*found, strict=True)]
    return intervals, counts.sum(axis=0).astype(int).tolist()


def mean_interval(values: Floats, rng: np.random.Generator, resamples: int = RESAMPLES) -> Interval:
    """The mean of ``values`` (Q,) over questions, with its interval."""
    value, low, high = ratio_intervals(values[:, None], np.ones((len(values), 1)), rng, resamples)
    return Interval(float(value[0]), float(low[0]), float(high[0]))


def _weights(questions: int, rng: np.random.Generator, resamples: int) -> Iterator[Floats]:
    """How often each question is drawn, (R, Q) with R summing to ``resamples`` over all blocks."""
    block = max(1, _CELLS_AT_ONCE // max(1, questions))
    for start in range(0, resamples if questions else 0, block):
        rows = min(block, resamples - start)
        drawn = rng.integers(0, questions, size=(rows, questions))
        drawn += np.arange(rows)[:, None] * questions
        yield np.bincount(drawn.ravel(), minlength=rows * questions).reshape(rows, questions).astype(np.float64)


def _ends(draws: Floats) -> tuple[Floats, Floats]:
    """The interval's ends per column of ``draws`` (R, M); draws in which a metric is undefined are left out."""
    tail = (1 - LEVEL) / 2
    ends = np.full((2, draws.shape[1]), np.nan)
    some = ~np.isnan(draws).all(axis=0)
    if some.any():
        ends[:, some] = np.nanquantile(draws[:, some], [tail, 1 - tail], axis=0)
    return ends[0], ends[1]
