"""The curves of a run: what each stage logged while it trained, and the scores of each stage's evaluations."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from graphwalker.errors import UserError
from graphwalker.metrics.run_folder import stages
from graphwalker.report.charts import COLOURS, Point, Series, line_chart, smoothed
from graphwalker.report.stages import StageRow

# Title of a chart, and the names under which trainers log what it shows; the order is that of the page.
_CHARTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("reward", re.compile(r"reward|rewards/[^/]+/mean|(?:eval_|train_)?em(?:_set)?")),
    ("loss", re.compile(r"loss|eval_loss")),
    ("groups without a difference in reward", re.compile(r"frac_reward_zero_std")),
    ("entropy", re.compile(r"entropy")),
    ("KL to the reference", re.compile(r"kl")),
    ("completion length (tokens)", re.compile(r"completions/mean_length")),
    ("token accuracy", re.compile(r"(?:eval_)?mean_token_accuracy")),
)
_LARGEST = 1e100
_SUMMARY_KEY = "train_runtime"  # the last entry of a log sums up the training; it is no point of a curve


def training_logs(run: Path) -> list[tuple[str, list[dict[str, Any]]]]:
    """Each stage's name and log history, in order; stages without a ``trainer_state.json`` are left out.

    The state is the stage's own or, while it trains, that of its last checkpoint. Raises ``UserError`` on a broken one.
    """
    found = []
    for _, name, folder in stages(run):
        checkpoints = sorted(folder.glob("checkpoint-*/trainer_state.json"), key=_checkpoint_step)
        own = folder / "trainer_state.json"
        state = own if own.is_file() else checkpoints[-1] if checkpoints else None
        if state is not None:
            found.append((name, _history(state)))
    return found


def training_charts(run: Path) -> list[Markup]:
    """The charts of every stage that logged anything, in order; the last entry's summary is no point of a curve."""
    logs = training_logs(run)
    return [c for name, history in logs for title, keys in _CHARTS if (c := _chart(f"{name}: {title}", keys, history))]


def score_chart(rows: Sequence[StageRow], metric: str) -> Markup:
    """A metric over the stages, a line for each split and way of decoding, with 95% intervals."""
    names = list(dict.fromkeys(row.stage for row in rows))
    lines: dict[str, list[tuple[Point, Point]]] = {}
    for row in rows:
        interval = row.interval(metric)
        if interval is not None and interval["value"] is not None:
            label = " ".join(part for part in (row.split, row.decoding) if part) or row.stage
            place = float(names.index(row.stage))
            lines.setdefault(label, []).append(((place, interval["value"]), (interval["low"], interval["high"])))
    nudge = 0.06  # lines beside each other, so that their whiskers can be told apart
    series = [
        Series(
            label,
            [(x + nudge * (i - (len(lines) - 1) / 2), y) for (x, y), _ in line],
            [bar for _, bar in line],
            colour=i % COLOURS,
        )
        for i, (label, line) in enumerate(lines.items())
    ]
    return line_chart(
        f"{metric} over the stages, with 95% intervals", series, x_label="", x_names=names, unit_range=True
    )


def _chart(title: str, keys: re.Pattern[str], history: Sequence[Mapping[str, Any]]) -> Markup:
    logged: dict[str, list[Point]] = {}
    for i, entry in enumerate(history):
        if _SUMMARY_KEY in entry:
            continue
        step = _finite(entry.get("step", i))
        for key, value in entry.items():
            if keys.fullmatch(key) and (y := _finite(value)) is not None and step is not None:
                logged.setdefault(key, []).append((step, y))
    series = []
    for colour, (key, points) in enumerate(sorted(logged.items())):
        if len(points) >= 8:
            series += [Series(key, points, faint=True, colour=colour), Series(key, smoothed(points), colour=colour)]
        else:
            series.append(Series(key, points, colour=colour))
    return line_chart(title, series)


def _finite(value: Any) -> float | None:
    """The value as a number that a chart can place; beyond ``_LARGEST`` sums and spans overflow."""
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _LARGEST
    return float(value) if usable else None


def _history(state: Path) -> list[dict[str, Any]]:
    try:
        history = json.loads(state.read_text(encoding="utf-8"))["log_history"]
        return [entry for entry in history if isinstance(entry, dict)]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{state}: no trainer state with a log_history ({error})") from error


def _checkpoint_step(state: Path) -> int:
    digits = state.parent.name.rpartition("-")[2]
    return int(digits) if digits.isdigit() else -1
