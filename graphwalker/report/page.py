"""One self-contained HTML page of a run: tables, curves and episodes.

Nothing on it is fetched, and all that comes from the run is escaped. A content security policy allows only the page's
own style and script, by their hashes, so that a name with markup stays text even where an escape were missed.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from graphwalker.files import atomic_write
from graphwalker.metrics.aggregate import METRICS_VERSION, question_means
from graphwalker.metrics.run_folder import Evaluation, evaluations
from graphwalker.metrics.trajectory import ERROR_STATUSES
from graphwalker.metrics.trees import read_tree
from graphwalker.report import charts, curves, stages
from graphwalker.report.episodes import (
    MOST_CHARACTERS,
    MOST_EPISODES,
    PER_EVALUATION,
    VERDICTS,
    EpisodeView,
    choose,
    printable,
    view,
    visible,
)
from graphwalker.report.tree_view import TreeView, tree_view

REPORT = "report.html"
_CONFIG_CHARACTERS = 20_000
Shown = tuple[EpisodeView, TreeView | None]
"""An episode and, where ArG searched for it, its tree."""


def write_report(run: Path, out: Path | None = None) -> Path:
    """Write the page of a run (to ``RUN/report.html`` unless ``out``) and return its path.

    Raises ``UserError`` when the run has no evaluations, its metrics are of another version, or a file is broken.
    """
    out = Path(out) if out is not None else Path(run) / REPORT
    html = render_report(Path(run))
    with atomic_write(out) as handle:
        handle.write(html)
    return out


def render_report(run: Path) -> str:
    """The page as text; the same for the same run."""
    rows = stages.stage_table(run)
    found = evaluations(run)
    shown, means = _read(found)
    style, script = _asset("page.css.jinja"), _asset("page.js.jinja")
    return (
        _environment()
        .get_template("page.html")
        .render(
            name=printable(run.resolve().name),
            rows=rows,
            structures=stages.structures(rows),
            hops=sorted({hops for row in rows for hops in row.metrics["by_hops"]}),
            gains=stages.gains_between(means),
            statuses=[s for s in ERROR_STATUSES if any(_turns(row, s) for row in rows)],
            pass_at=sorted({int(k) for row in rows for k in row.metrics["overall"]["pass_at_k"]["em"]}),
            score_charts=[curves.score_chart(rows, metric) for metric in ("em_set", "em")] if len(rows) > 1 else [],
            training=curves.training_charts(run),
            episodes=[episode for episode, _ in shown],
            trees=[tree for _, tree in shown],
            episodes_in_all=sum(row.metrics["overall"]["episodes"] + _left_out(row) for row in rows),
            left_out={name: sum(row.metrics["left_out"][name] for row in rows) for name in ("outage", "no_gold")},
            outages=sorted(sum((Counter(row.metrics["outages"]) for row in rows), Counter()).items()),
            verdicts=VERDICTS,
            most_characters=MOST_CHARACTERS,
            config=_config(run),
            metrics_version=METRICS_VERSION,
            style=style,
            script=script,
            policy=f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; "
            "form-action 'none'",
        )
    )


def _read(found: list[Evaluation]) -> tuple[list[Shown], list[tuple[Evaluation, Mapping[str, float]]]]:
    """The episodes to show, the last stage's first, and each evaluation's value per question.

    One evaluation's trajectories are in memory at a time.
    """
    each = max(4, min(PER_EVALUATION, MOST_EPISODES // len(found)))
    shown: dict[str, list[Shown]] = {}
    means: list[tuple[Evaluation, Mapping[str, float]]] = []
    for evaluation in found:
        scores = stages.scores_of(evaluation)
        means.append((evaluation, question_means(scores, "em_set")))
        wanted = set(choose(scores, each))
        shown.setdefault(evaluation.stage, []).extend(
            (
                view(evaluation, trajectory, scores[i]),
                tree_view(read_tree(evaluation.path, trajectory.question.id)),
            )
            for i, trajectory in enumerate(evaluation.trajectories())
            if i in wanted
        )
    return [episode for stage in reversed(shown) for episode in shown[stage]], means


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("graphwalker.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=stages.number,
        plain=stages.plain,
        with_interval=stages.with_interval,
        signed=stages.signed,
        bar=lambda i: charts.interval_bar(i["value"], i["low"], i["high"]),
        metric_name=lambda name: name.removesuffix("_rate").replace("_", " "),
    )
    return environment


def _asset(name: str) -> Markup:
    """The page's own style or script, word for word (not rendered): its hash stands in the policy."""
    return Markup(resources.files("graphwalker.report").joinpath("templates", name).read_text(encoding="utf-8"))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _config(run: Path) -> str:
    file = run / "config.yaml"
    if not file.is_file():
        return ""
    text = file.read_text(encoding="utf-8", errors="replace")
    cut = text if len(text) <= _CONFIG_CHARACTERS else text[:_CONFIG_CHARACTERS] + "\n… (cut)"
    return visible(cut)


def _turns(row: stages.StageRow, status: str) -> int:
    return row.metrics["overall"]["errors"][status]["turns"]


def _left_out(row: stages.StageRow) -> int:
    counts: dict[str, Any] = row.metrics["left_out"]
    return sum(counts.values())
