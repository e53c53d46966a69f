"""Runs beside each other: the last stage of each, with bootstrap intervals over questions and paired differences.

Runs that differ only in their seed are one row: a question's value is its mean over their episodes. The intervals are
over questions, so what the seeds add stands beside them as each run's own value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphwalker.metrics.aggregate import paired_difference, question_means
from graphwalker.metrics.bootstrap import mean_interval, random_stream
from graphwalker.metrics.run_folder import Evaluation, evaluations
from graphwalker.report.stages import number, scores_of, signed, with_interval


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed; ``name`` says what they have in common."""

    name: str
    parameters: Mapping[str, Any]
    runs: Sequence[Path]


def compare(groups: Sequence[Group], metrics: Sequence[str] = ("em_set", "em"), seed: int = 0) -> list[dict[str, Any]]:
    """A JSON-ready row for each group and each way its last stage was evaluated (split and decoding).

    ``difference`` is the first metric's against the first group, paired by question. Raises ``UserError`` for a run
    without evaluations.
    """
    found = [[_last(run) for run in group.runs] for group in groups]
    settings = sorted({setting for runs in found for run in runs for setting in run})
    rows = []
    for split, decoding in settings:
        first: Mapping[str, float] | None = None
        for group, runs in zip(groups, found, strict=True):
            there = [run[split, decoding] for run in runs if (split, decoding) in run]
            if not there:
                continue
            scores = [scores_of(evaluation) for evaluation in there]
            values = {
                metric: _pooled([question_means(of, metric) for of in scores], seed, metric) for metric in metrics
            }
            means = _means([question_means(of, metrics[0]) for of in scores])
            row = {
                "name": group.name,
                "parameters": dict(group.parameters),
                "split": split,
                "decoding": decoding,
                "stage": there[0].stage,
                "runs": len(there),
                "questions": len(means),
                "metrics": values,
                "difference": None if first is None else paired_difference(first, means, seed),
            }
            first = means if first is None else first
            rows.append(row)
    return rows


def format_comparison(rows: Sequence[Mapping[str, Any]], title: str = "run") -> str:
    """The rows as Markdown tables, one for each split and decoding."""
    parts = []
    for setting in dict.fromkeys((row["split"], row["decoding"]) for row in rows):
        of = [row for row in rows if (row["split"], row["decoding"]) == setting]
        main, *others = of[0]["metrics"]
        head = [
            title,
            "last stage",
            "runs",
            f"{main} [95%]",
            "each run",
            *(f"{other} [95%]" for other in others),
            f"{main} against the first [95%]",
        ]
        lines = [
            [
                row["name"],
                row["stage"],
                str(row["runs"]),
                with_interval(row["metrics"][main]),
                " ".join(number(value) for value in row["metrics"][main]["by_run"]),
                *(with_interval(row["metrics"][metric]) for metric in others),
                "-" if row["difference"] is None else signed(row["difference"]),
            ]
            for row in of
        ]
        table = [head, ["---"] * len(head), *lines]
        parts.append(f"{' '.join(setting)}, {of[0]['questions']} questions\n")
        parts += ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in table] + [""]
    return "\n".join(parts)


def _last(run: Path) -> dict[tuple[str, str], Evaluation]:
    """The evaluations of a run's last stage, by split and decoding."""
    found = evaluations(run)
    return {(e.split, e.decoding): e for e in found if e.stage == found[-1].stage}


def _means(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Each question's mean over the runs that scored it."""
    ids = {question: None for run in runs for question in run}
    return {q: float(np.mean([run[q] for run in runs if q in run])) for q in ids}


def _pooled(runs: Sequence[Mapping[str, float]], seed: int, metric: str) -> dict[str, Any]:
    means = np.array(list(_means(runs).values()))
    found = mean_interval(means, random_stream(seed, "comparison", metric))
    by_run = [float(np.mean(list(run.values()))) if run else None for run in runs]
    ends = {"value": found.value, "low": found.low, "high": found.high}
    return {
        **{name: None if np.isnan(value) else round(value, 6) for name, value in ends.items()},
        "by_run": [None if value is None else round(value, 6) for value in by_run],
    }
