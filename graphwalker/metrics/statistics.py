"""Two textbook statistics: the interval of a mean over few runs, and the agreement of two rankings with ties."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class MeanOverRuns:
    """The mean of a few runs, its sample standard deviation (n - 1), and the ends of Student's t interval."""

    mean: float
    std: float
    low: float
    high: float


def t_interval(values: Sequence[float], level: float = 0.95) -> MeanOverRuns:
    """Mean, standard deviation and two-sided t interval; all but the mean are NaN for one value.

    >>> found = t_interval([60.0, 61.0, 62.0, 63.0, 64.0])
    >>> round(found.mean, 2), round(found.std, 3), round(found.low, 2), round(found.high, 2)
    (62.0, 1.581, 60.04, 63.96)
    """
    count, mean = len(values), float(np.mean(values)) if values else math.nan
    if count < 2:
        return MeanOverRuns(mean, math.nan, math.nan, math.nan)
    std = float(np.std(values, ddof=1))
    half = t_quantile(level, count - 1) * std / math.sqrt(count)
    return MeanOverRuns(mean, std, mean - half, mean + half)


def t_quantile(level: float, freedom: int) -> float:
    """The t with P(|T| <= t) = ``level`` in (0, 1) for whole degrees of freedom from 1 on.

    >>> round(t_quantile(0.95, 4), 3), round(t_quantile(0.95, 1), 3)
    (2.776, 12.706)
    """
    low, high = 0.0, math.pi / 2  # of the angle, tan of which is t over the root of the degrees of freedom
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _inside(middle, freedom) < level else (low, middle)
    return math.tan(low) * math.sqrt(freedom)


def _inside(angle: float, freedom: int) -> float:
    """P(|T| <= tan(angle) sqrt(freedom)): Abramowitz and Stegun 26.7.3 and 26.7.4, exact for whole numbers."""
    cosine, term, total = math.cos(angle), 1.0, 0.0
    odd = freedom % 2
    for k in range(odd, freedom - 1, 2):  # even: 1, 1/2 c^2, (1 3)/(2 4) c^4, ...; odd: c, 2/3 c^3, ...
        term = (cosine if odd else 1.0) if k == odd else term * cosine * cosine * (k - 1) / k
        total += term
    if odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total


def kendall_tau_b(a: Sequence[float], b: Sequence[float]) -> float:
    """Kendall's tau_b (1945), in [-1, 1]; NaN where either ranking ties all.

    >>> kendall_tau_b([1, 2, 3], [1, 2, 3]), kendall_tau_b([1, 2, 3], [3, 2, 1])
    (1.0, -1.0)
    """
    x, y = (np.sign(np.subtract.outer(values, values)) for values in (a, b))
    pairs = math.sqrt(float((x * x).sum()) * float((y * y).sum()))
    return float((x * y).sum()) / pairs if pairs else math.nan
