"""Scores of a run: means over episodes with bootstrap intervals over questions, overall and by kind of question."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from graphwalker.fields import SCHEMA
from graphwalker.metrics.bootstrap import RESAMPLES, Interval, mean_interval, random_stream, table_intervals
from graphwalker.metrics.trajectory import ERROR_STATUSES, METRICS, EpisodeScore, score_trajectory
from graphwalker.types import ENDINGS, Trajectory

METRICS_VERSION = 2
PASS_AT_K = ("em", "em_set")  # the rewards whose Pass@k is reported


def score_run(trajectories: Iterable[Trajectory], seed: int = 0, resamples: int = RESAMPLES) -> dict[str, Any]:
    """Every metric of a run as JSON-ready values; the same for the same trajectories and seed.

    ``overall`` and each entry of ``by_structure`` and ``by_hops`` hold ``questions``, ``episodes``, ``metrics`` (name
    to ``value``, ``low``, ``high`` and ``episodes``, over how many it is a mean), ``pass_at_k`` and ``errors`` (status
    to the number of ``turns``, and the share of episodes with it). A value that no episode defines is ``None``.
    Episodes that a KG outage ended, and questions without gold answers, take no part and are counted in ``left_out``,
    the outages by kind in ``outages``.
    """
    scores = [score_trajectory(trajectory) for trajectory in trajectories]
    kept = [score for score in scores if not score.left_out]
    endings = Counter(score.ending for score in scores)
    return {
        "schema": SCHEMA,
        "metrics_version": METRICS_VERSION,
        "seed": seed,
        "resamples": resamples,
        "left_out": {why: sum(score.left_out == why for score in scores) for why in ("outage", "no_gold")},
        "outages": dict(sorted(Counter(score.outage for score in scores if score.outage).items())),
        "endings": {ending: endings[ending] for ending in ENDINGS},
        "overall": _group(kept, seed, "overall", resamples),
        "by_structure": _groups(kept, lambda score: score.structure or "unknown", seed, "structure", resamples),
        "by_hops": _groups(kept, lambda s: "unknown" if s.hops is None else str(s.hops), seed, "hops", resamples),
    }


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """The unbiased estimate of the chance that one of ``k`` samples is right: 1 - C(n-c, k) / C(n, k).

    Chen et al. 2021, arXiv:2107.03374, equation 1. Raises ``ValueError`` unless 0 <= correct <= samples and
    1 <= k <= samples.

    >>> pass_at_k(8, 2, 1), round(pass_at_k(8, 2, 4), 4), pass_at_k(8, 0, 8)
    (0.25, 0.7857, 0.0)
    """
    if not (0 <= correct <= samples and 1 <= k <= samples):
        raise ValueError(f"pass@{k} of {correct} right among {samples} samples is not defined")
    return 1.0 - math.comb(samples - correct, k) / math.comb(samples, k)


def paired_bootstrap(
    before: Iterable[Trajectory],
    after: Iterable[Trajectory],
    metric: str = "em_set",
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """How much ``metric`` rose from one run to another: `paired_difference` of their `question_means`."""
    old, new = (question_means(map(score_trajectory, run), metric) for run in (before, after))
    return {"metric": metric, **paired_difference(old, new, seed, resamples)}


def paired_difference(
    before: Mapping[str, float], after: Mapping[str, float], seed: int = 0, resamples: int = RESAMPLES
) -> dict[str, Any]:
    """The mean difference of a metric between two runs, paired by question id, with a bootstrap interval.

    Questions that only one run scored are left out and counted in ``unpaired``. ``excludes_zero`` says whether the
    interval lies wholly on one side of 0. With no question in both, all values are ``None``.
    """
    ids = sorted(before.keys() & after.keys())
    pairs = np.array([(before[i], after[i]) for i in ids], dtype=np.float64).reshape(-1, 2)  # (Q, 2)
    found = mean_interval(pairs[:, 1] - pairs[:, 0], random_stream(seed, "paired"), resamples)
    return {
        "questions": len(ids),
        "unpaired": len(before.keys() ^ after.keys()),
        "before": rounded(pairs[:, 0].mean() if ids else math.nan),
        "after": rounded(pairs[:, 1].mean() if ids else math.nan),
        "difference": rounded(found.value),
        "low": rounded(found.low),
        "high": rounded(found.high),
        "excludes_zero": bool(found.low > 0 or found.high < 0),
    }


def question_means(scores: Iterable[EpisodeScore], metric: str) -> dict[str, float]:
    """Each question's mean of a metric over its scored episodes."""
    values: dict[str, list[float]] = defaultdict(list)
    for score in scores:
        if not score.left_out and not math.isnan(score.values[metric]):
            values[score.question_id].append(score.values[metric])
    return {question: float(np.mean(samples)) for question, samples in values.items()}


def _groups(scores: Sequence[EpisodeScore], key, seed: int, name: str, resamples: int) -> dict[str, Any]:
    groups: dict[str, list[EpisodeScore]] = defaultdict(list)
    for score in scores:
        groups[key(score)].append(score)
    return {label: _group(groups[label], seed, f"{name} {label}", resamples) for label in sorted(groups)}


def _group(scores: Sequence[EpisodeScore], seed: int, name: str, resamples: int) -> dict[str, Any]:
    columns = [[score.values[metric] for score in scores] for metric in METRICS]
    columns += [[float(status in score.statuses) for score in scores] for status in ERROR_STATUSES]
    table = np.array(columns, dtype=np.float64).reshape(len(columns), len(scores)).T  # (episodes, metrics)
    ids = [score.question_id for score in scores]
    intervals, of = table_intervals(ids, table, random_stream(seed, name), resamples)
    errors = zip(ERROR_STATUSES, intervals[len(METRICS) :], strict=True)
    return {
        "questions": len(set(ids)),
        "episodes": len(scores),
        "metrics": {
            metric: {**plain_interval(interval), "episodes": n}
            for metric, interval, n in zip(METRICS, intervals, of, strict=False)
        },
        "pass_at_k": {metric: _pass_table(scores, metric, seed, name, resamples) for metric in PASS_AT_K},
        "errors": {
            status: {"turns": sum(score.statuses.get(status, 0) for score in scores), "share": plain_interval(interval)}
            for status, interval in errors
        },
    }


def _pass_table(scores: Sequence[EpisodeScore], metric: str, seed: int, name: str, resamples: int) -> dict[str, Any]:
    """Pass@k for k = 1, 2, 4, ... and the most samples there are, each over the questions that have k samples."""
    right: Mapping[str, list[bool]] = defaultdict(list)
    for score in scores:
        right[score.question_id].append(score.values[metric] == 1.0)
    most = max(map(len, right.values()), default=0)
    table = {}
    for k in sorted({2**i for i in range(most.bit_length()) if 2**i <= most} | ({most} if most else set())):
        values = np.array([pass_at_k(len(hits), sum(hits), k) for hits in right.values() if len(hits) >= k])
        found = mean_interval(values, random_stream(seed, name, metric, f"pass@{k}"), resamples)
        table[str(k)] = {**plain_interval(found), "questions": len(values)}
    return table


def plain_interval(interval: Interval) -> dict[str, float | None]:
    return {"value": rounded(interval.value), "low": rounded(interval.low), "high": rounded(interval.high)}


def rounded(value: float) -> float | None:
    """Six digits, so that the last bits of a sum's order do not show; JSON has no NaN."""
    return None if math.isnan(value) else round(float(value), 6)
