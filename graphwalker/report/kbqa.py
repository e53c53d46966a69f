"""The tables of MCTS-KBQA from finished inference runs: Tables 2, 5, 6, 7, 8, 9 and the numbers of Figure 2.

Each function gives JSON-ready rows; `markdown` prints rows of any of them. A run's name is its folder's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from graphwalker.metrics.costs import mean_costs
from graphwalker.metrics.kbqa import MEASURES, TOP, counts_for_scores, main_measure, score_kbqa
from graphwalker.metrics.run_folder import Evaluation, evaluations
from graphwalker.metrics.siblings import agreement, sibling_sets
from graphwalker.metrics.statistics import t_interval
from graphwalker.metrics.tree_shape import tree_shape
from graphwalker.metrics.trees import read_proxies, read_trees
from graphwalker.report.stages import number, with_interval
from graphwalker.types import Trajectory
from graphwalker.yaml_file import read_yaml

Row = dict[str, Any]
_SEEDLESS = ("seed", "out", "run", "output_dir")  # settings in which runs of one method may differ


@dataclass(frozen=True)
class KbqaRun:
    """A finished inference run: its evaluation's folder and settings."""

    evaluation: Evaluation
    name: str
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def trajectories(self) -> list[Trajectory]:
        return list(self.evaluation.trajectories())

    @cached_property
    def scores(self) -> dict[str, Any]:
        return score_kbqa(self.trajectories, self.seed)

    @property
    def searcher(self) -> str:
        noted = {t.extra.get("searcher") for t in self.trajectories}
        return str(noted.pop()) if len(noted) == 1 else ""

    @property
    def trees(self) -> Any:
        return read_trees(self.evaluation.path)


def read_run(folder: Path, seed: int = 0) -> list[KbqaRun]:
    """The evaluations of a run's folder; raises ``UserError`` when there are none."""
    found = evaluations(folder)
    runs = []
    for evaluation in found:
        file = evaluation.path / "config.yaml"
        settings = read_yaml(file) if file.is_file() else {}
        name = folder.resolve().name if len(found) == 1 else f"{folder.resolve().name}/{evaluation.path.name}"
        runs.append(KbqaRun(evaluation, name, seed, settings))
    return runs


def main_table(runs: Sequence[KbqaRun]) -> list[Row]:
    """Tables 2, 3 and 4: the main measure by type, and every measure overall, in percent with 95% intervals."""
    rows = []
    for run in runs:
        main = main_measure(run.trajectories)
        overall = run.scores["overall"]
        rows.append(
            {
                "method": run.name,
                "questions": overall["questions"],
                "by": main,
                "types": {name: _percent(group["measures"][main]) for name, group in run.scores["by_type"].items()},
                **{name: _percent(overall["measures"][name]) for name in MEASURES},
            }
        )
    return rows


def cost_table(runs: Sequence[KbqaRun]) -> list[Row]:
    """Table 5: the main measure beside actor calls and seconds of a question, relative to the majority vote.

    Without a run of ``majority_vote`` the first run is what times are relative to.
    """
    costs = [mean_costs(run.trajectories) for run in runs]
    first = next((i for i, run in enumerate(runs) if run.searcher == "majority_vote"), 0)
    base = costs[first]["seconds"] if costs else None
    rows = []
    for run, cost in zip(runs, costs, strict=True):
        main = main_measure(run.trajectories)
        seconds = cost["seconds"]
        rows.append(
            {
                "method": run.name,
                "measure": main,
                "score": _percent(run.scores["overall"]["measures"][main]),
                "actor_calls": cost["actor_calls"],
                "tokens": cost["tokens"],
                "seconds": seconds,
                "relative_time": seconds / base if seconds is not None and base else None,
            }
        )
    return rows


def proxy_table(runs: Sequence[KbqaRun]) -> list[Row]:
    """Table 6: how each value measured on a run's trees (``graphwalker kbqa proxies``) ranks siblings."""
    rows = []
    for run in runs:
        proxies = read_proxies(run.evaluation.path)
        if not proxies:
            continue
        sets = [siblings for tree in run.trees for siblings in sibling_sets(tree)]
        for name, proxy in proxies.items():
            pairs = []
            for siblings in sets:
                of = proxy["values"].get(siblings.question_id, {})
                # a set of equals is counted, not compared, and so was not valued
                values = [of.get(str(at)) for at in siblings.numbers] if siblings.tells else siblings.truth
                if all(isinstance(value, int | float) for value in values):
                    pairs.append((siblings, values))
            found = agreement(pairs, run.seed)
            recalls = {key: _percent(found[key]) for key in found if key.startswith("recall@")}
            rows.append(
                {"method": run.name, "value": name, **found, **recalls, "sets_without_values": len(sets) - len(pairs)}
            )
    return rows


def seed_table(runs: Sequence[KbqaRun]) -> list[Row]:
    """Table 7: runs that differ only in their seed, as mean, standard deviation and 95% t interval, in percent."""
    groups: dict[str, list[KbqaRun]] = {}
    for run in runs:
        same = {key: value for key, value in run.settings.items() if key not in _SEEDLESS}
        key = str(sorted(same.items(), key=lambda item: str(item[0]))) if same else run.name
        groups.setdefault(key, []).append(run)
    rows = []
    for of in groups.values():
        main = main_measure(of[0].trajectories)
        scored = [run.scores["overall"]["measures"][main]["value"] for run in of]
        values = [100 * value for value in scored if value is not None]
        if len(values) < 2:
            continue
        found = t_interval(values)
        names = ", ".join(run.name for run in of)
        rows.append(
            {
                "method": names,
                "searcher": of[0].searcher,
                "measure": main,
                "seeds": len(values),
                "questions": of[0].scores["overall"]["questions"],
                "mean": found.mean,
                "std": found.std,
                "interval": {"value": found.mean, "low": found.low, "high": found.high},
                "each": values,
            }
        )
    return rows


def error_table(runs: Sequence[KbqaRun]) -> list[Row]:
    """Table 8's first two lines: the best F1 among five candidates, and how often all five score 0, in percent."""
    rows = []
    for run in runs:
        measures = run.scores["overall"]["measures"]
        if measures[f"max_f1@{TOP}"]["value"] is None:
            continue
        rows.append(
            {
                "method": run.name,
                "f1": _percent(measures["f1"]),
                f"max_f1@{TOP}": _percent(measures[f"max_f1@{TOP}"]),
                f"empty@{TOP}": _percent(measures[f"empty@{TOP}"]),
            }
        )
    return rows


def scoring_table(runs: Sequence[KbqaRun]) -> list[Row]:
    """Table 9: values in Classic MCTS, with the time that scoring took relative to the IG reward's."""
    classic = [run for run in runs if run.searcher == "classic_mcts" and run.settings.get("value")]
    costs = [mean_costs(run.trajectories) for run in classic]
    base = next((c["value_seconds"] for r, c in zip(classic, costs, strict=True) if r.settings["value"] == "ig"), None)
    rows = []
    for run, cost in zip(classic, costs, strict=True):
        main = main_measure(run.trajectories)
        seconds = cost["value_seconds"]
        rows.append(
            {
                "method": run.name,
                "value": run.settings["value"],
                "measure": main,
                "score": _percent(run.scores["overall"]["measures"][main]),
                "value_calls": cost["value_calls"],
                "value_seconds": seconds,
                "relative_time": seconds / base if seconds is not None and base else None,
            }
        )
    return rows


def shape_table(runs: Sequence[KbqaRun]) -> list[Row]:
    """Figure 2: depths and branching of every run's trees."""
    shapes = [(run, tree_shape(run.trees)) for run in runs]
    return [{"method": run.name, **shape} for run, shape in shapes if shape["trees"]]


TABLES = {
    "Tables 2 to 4: answers by type": main_table,
    "Table 5: cost": cost_table,
    "Table 6: values against Monte-Carlo values among siblings": proxy_table,
    "Table 7: seeds": seed_table,
    "Table 8: candidates": error_table,
    "Table 9: values in Classic MCTS": scoring_table,
    "Figure 2: depth and branching": shape_table,
}


def kbqa_report(folders: Sequence[Path], seed: int = 0) -> dict[str, list[Row]]:
    """Every table of the runs, by its title; a table that the runs do not give has no rows."""
    runs = [run for folder in folders for run in read_run(folder, seed)]
    return {title: table(runs) for title, table in TABLES.items()}


def left_out(run: KbqaRun) -> int:
    """Episodes of a run that take no part in its scores."""
    return sum(not counts_for_scores(trajectory) for trajectory in run.trajectories)


def markdown(rows: Sequence[Row]) -> str:
    """Rows as one Markdown table; what lies in a mapping is spread over columns (types, and depths in order)."""
    flat = [_flat(row) for row in rows]
    first: dict[str, int] = {}  # where each mapping's columns begin
    for column in (seen := list(dict.fromkeys(column for row in flat for column in row))):
        first.setdefault(_numbered(column)[0], len(first))
    head = sorted(seen, key=lambda column: (first[_numbered(column)[0]], _numbered(column)[1]))
    lines = [head, ["---"] * len(head), *([row.get(column, "-") for column in head] for row in flat)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _numbered(column: str) -> tuple[str, int]:
    """The name and the number of a column of a mapping over numbers; 0 for any other."""
    name, _, last = column.rpartition(" ")
    return (name, int(last)) if last.isdigit() else (column, 0)


def _flat(row: Row) -> dict[str, str]:
    cells: dict[str, str] = {}
    for key, value in row.items():
        if isinstance(value, dict) and "low" not in value:
            cells |= {f"{key} {name}" if key != "types" else name: _cell(part) for name, part in value.items()}
        else:
            cells[key] = _cell(value)
    return cells


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return with_interval(value, 2)
    if isinstance(value, list):
        return " ".join(map(_cell, value))
    return number(value, 2) if value is None or isinstance(value, float) else str(value)


def _percent(interval: Mapping[str, float | None]) -> dict[str, float | None]:
    return {end: None if value is None else 100 * value for end, value in interval.items()}
