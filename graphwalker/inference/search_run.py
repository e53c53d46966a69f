"""A searched question set on disk: predictions, trees, metrics and costs; taken up again like an evaluation."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from graphwalker.files import write_json, write_jsonl
from graphwalker.inference.engine import Engine, Sampling
from graphwalker.inference.labels import Labeller
from graphwalker.inference.partial import Partial, order_of
from graphwalker.inference.searching import run_searches
from graphwalker.metrics.aggregate import score_run
from graphwalker.metrics.costs import mean_costs
from graphwalker.metrics.trees import TREES, tree_file
from graphwalker.search.requests import Value
from graphwalker.search.settings import SearchConfig
from graphwalker.types import Question, Trajectory

COSTS_FILE = "costs.json"


def search_questions(
    questions: Sequence[Question],
    make_env: Callable[[], Any],
    engine: Engine,
    value: Value,
    config: SearchConfig,
    sampling: Sampling,
    out: str | Path,
    *,
    seed: int = 0,
    labeller: Labeller | None = None,
    at_a_time: int | None = None,
    progress: str | None = None,
) -> dict[str, Any]:
    """Search the questions, write ``trajectories.jsonl``, ``trees/``, ``metrics.json`` and ``costs.json``.

    Returns the metrics. Trajectories are in the order of the questions. Interrupted, the same call goes on with the
    questions that are not finished or ended by an exception, and what comes of them is the same, up to rounding.
    Raises ``UserError`` as `evaluate.evaluate` and `searching.run_searches` do.
    """
    out = Path(out)
    order = order_of(questions)
    partial = Partial(out)
    done = [trajectory for trajectory in partial.read(order) if _came_to_an_end(trajectory)]
    finished = {trajectory.question.id for trajectory in done}
    left = [question for question in questions if question.id not in finished]
    searches = run_searches(
        left, make_env, engine, value, config, sampling, seed=seed, labeller=labeller, at_a_time=at_a_time
    )
    bar = tqdm(searches, total=len(questions), initial=len(done), desc=progress, unit="question", disable=not progress)
    for searched in bar:
        # the tree first: a question that is noted as finished has one
        write_json(out / TREES / tree_file(searched.trajectory.question.id), searched.tree_json())
        partial.append(searched.trajectory)
        done.append(searched.trajectory)
    done.sort(key=lambda trajectory: order[trajectory.question.id])
    write_jsonl(out / "trajectories.jsonl", done)
    write_json(out / COSTS_FILE, costs(done))
    metrics = score_run(done, seed=seed)
    write_json(out / "metrics.json", metrics)
    partial.remove()
    return metrics


def _came_to_an_end(trajectory: Trajectory) -> bool:
    """Whether a kept trajectory is that of a search, and no exception ended it."""
    kinds = {"stopped": str, "endings": dict, "cost": dict}
    whole = all(isinstance(trajectory.extra.get(key), kind) for key, kind in kinds.items())
    return whole and trajectory.ending != "error"


def costs(trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    """Mean costs a question, why searches ended, and how their branches did; JSON-ready."""
    stopped = Counter(trajectory.extra["stopped"] for trajectory in trajectories)
    branches: Counter[str] = Counter()
    for trajectory in trajectories:
        branches.update(trajectory.extra["endings"])
    return {
        "questions": len(trajectories),
        "mean": mean_costs(trajectories),
        "stopped": dict(sorted(stopped.items())),
        "branches": dict(sorted(branches.items())),
    }
