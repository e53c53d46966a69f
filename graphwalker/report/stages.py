"""What each stage of a run gave: the stage table and the gains. No times: equal runs print equal tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphwalker.errors import UserError
from graphwalker.metrics.aggregate import paired_difference, question_means, score_run
from graphwalker.metrics.run_folder import METRICS_FILE, Evaluation, evaluations
from graphwalker.metrics.trajectory import EpisodeScore, score_trajectory

COLUMNS = ("em_set", "em", "f1", "hits@1", "retrieval_rate", "recovery_rate", "turns")


@dataclass(frozen=True, slots=True)
class StageRow:
    """One evaluation in the stage table; ``metrics`` is the whole of its ``metrics.json``."""

    stage: str
    split: str
    decoding: str
    metrics: Mapping[str, Any]

    @property
    def questions(self) -> int:
        return self.metrics["overall"]["questions"]

    @property
    def samples(self) -> str:
        """Episodes per question, ``8`` or, where some are missing, ``7.9``."""
        return f"{self.metrics['overall']['episodes'] / max(1, self.questions):.1f}".removesuffix(".0")

    def interval(self, metric: str, structure: str | None = None) -> Mapping[str, Any] | None:
        """Value, low and high of a metric, overall or in one structure; ``None`` where there is no such structure."""
        group = self.metrics["overall"] if structure is None else self.metrics["by_structure"].get(structure)
        return None if group is None else group["metrics"][metric]


@dataclass(frozen=True, slots=True)
class Gain:
    """How a stage differs from the one before it on the same questions (`paired_difference`)."""

    stage: str
    before: str
    split: str
    decoding: str
    metric: str
    result: Mapping[str, Any]


def stage_table(run: Path) -> list[StageRow]:
    """A row for each evaluation of a run, in the order of the stages, from the stored metrics.

    Raises ``UserError`` when there are none or their version is not this one's.
    """
    return [StageRow(e.stage, e.split, e.decoding, whole_metrics(e)) for e in evaluations(Path(run))]


def whole_metrics(evaluation: Evaluation) -> dict[str, Any]:
    """The stored metrics; raises ``UserError`` when something is missing in them or has a wrong kind of value."""
    metrics, like = evaluation.metrics(), score_run([], resamples=1)
    groups = [group for field in ("by_structure", "by_hops") for group in _parts(metrics.get(field))]
    passes = [
        table
        for group in (metrics.get("overall"), *groups)
        for table in _parts(_part(group, "pass_at_k"))
        if isinstance(table, dict)
    ]
    whole = _is_like(metrics, like) and all(_is_like(group, like["overall"]) for group in groups)
    whole = whole and all(_is_like(count, 0) for count in _parts(metrics["outages"]))
    interval = like["overall"]["metrics"]["em"]
    ends = {end: interval[end] for end in ("value", "low", "high")}
    if not whole or not all(k.isdecimal() and _is_like(v, ends) for table in passes for k, v in table.items()):
        file = evaluation.path / METRICS_FILE
        raise UserError(f"{file}: damaged; compute it again with: graphwalker rescore RUN, or remove it")
    return metrics


def _part(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _parts(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else []


def _is_like(value: Any, like: Any) -> bool:
    """Whether a JSON value has all that another has, in the same kinds; ``None`` stands for a number or none."""
    if isinstance(like, dict):
        if not isinstance(value, dict) or not all(key in value and _is_like(value[key], like[key]) for key in like):
            return False
        return "low" not in like or len({value[end] is None for end in ("value", "low", "high")}) == 1
    if like is None:
        return value is None or (isinstance(value, int | float) and abs(value) < 1e100)
    return isinstance(value, type(like)) and not isinstance(value, bool)


def summary(out: Path) -> str:
    """The metrics of one evaluation's folder as text, a line each."""
    metrics = whole_metrics(Evaluation(out, out.name))
    overall = metrics["overall"]
    lines = [f"{overall['questions']} questions, {overall['episodes']} episodes; value [95% interval]"]
    lines += [f"{name:<24}{with_interval(interval)}" for name, interval in overall["metrics"].items()]
    for structure, group in metrics["by_structure"].items():
        lines.append(f"em_set, {structure:<16}{with_interval(group['metrics']['em_set'])}")
    return "\n".join(lines)


def structures(rows: Iterable[StageRow]) -> list[str]:
    """The structures that the rows have: chains by length, then the others."""
    return sorted({structure for row in rows for structure in row.metrics["by_structure"]})


def stage_gains(run: Path, metric: str = "em_set", seed: int = 0) -> list[Gain]:
    """The paired bootstrap of each evaluation against the stage before it, same split and decoding."""
    means = [(e, question_means(map(score_trajectory, e.trajectories()), metric)) for e in evaluations(Path(run))]
    return gains_between(means, metric, seed)


def gains_between(
    means: Sequence[tuple[Evaluation, Mapping[str, float]]], metric: str = "em_set", seed: int = 0
) -> list[Gain]:
    """As `stage_gains`, from each evaluation's value per question, the evaluations in the order of the stages."""
    last: dict[tuple[str, str], tuple[Evaluation, Mapping[str, float]]] = {}
    gains = []
    for evaluation, values in means:
        setting = (evaluation.split, evaluation.decoding)
        if setting in last:
            earlier, old = last[setting]
            result = paired_difference(old, values, seed)
            gains.append(Gain(evaluation.stage, earlier.stage, *setting, metric, result))
        last[setting] = (evaluation, values)
    return gains


def scores_of(evaluation: Evaluation) -> list[EpisodeScore]:
    return [score_trajectory(trajectory) for trajectory in evaluation.trajectories()]


def format_stage_table(rows: Sequence[StageRow]) -> str:
    """The table as text: ``em_set`` with its 95% interval, other metrics, and ``em_set`` by structure."""
    shapes = structures(rows)
    head = ["stage", "split", "decoding", "questions", "em_set [95%]", *(c.removesuffix("_rate") for c in COLUMNS[1:])]
    lines = [
        [
            row.stage,
            row.split,
            row.decoding,
            f"{row.questions} x {row.samples}",
            with_interval(row.interval("em_set")),
            *(plain(row.interval(column), 1 if column == "turns" else 3) for column in COLUMNS[1:]),
            *(plain(row.interval("em_set", shape)) for shape in shapes),
        ]
        for row in rows
    ]
    return _aligned([head + shapes, *lines], left=3)


def format_gains(gains: Sequence[Gain]) -> str:
    """The gains as text, one a line; "" when there are none."""
    head = ["stage", "over", "split", "decoding", "questions", "before", "after", "difference [95%]", ""]
    lines = [
        [
            *(gain.stage, gain.before, gain.split, gain.decoding, str(gain.result["questions"])),
            *(number(gain.result["before"]), number(gain.result["after"]), signed(gain.result)),
            "excludes 0" if gain.result["excludes_zero"] else "includes 0",
        ]
        for gain in gains
    ]
    return _aligned([head, *lines], left=4) if lines else ""


def number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def plain(interval: Mapping[str, Any] | None, digits: int = 3) -> str:
    return "-" if interval is None else number(interval["value"], digits)


def with_interval(interval: Mapping[str, Any] | None, digits: int = 3) -> str:
    if interval is None or interval["value"] is None:
        return "-"
    return f"{interval['value']:.{digits}f} [{interval['low']:.{digits}f}, {interval['high']:.{digits}f}]"


def signed(result: Mapping[str, Any]) -> str:
    if result["difference"] is None:
        return "-"
    return f"{result['difference']:+.3f} [{result['low']:+.3f}, {result['high']:+.3f}]"


def _aligned(rows: Sequence[Sequence[str]], left: int) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    pad = [str.ljust if i < left else str.rjust for i in range(len(widths))]
    lines = ["  ".join(p(cell, w) for p, cell, w in zip(pad, row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])
