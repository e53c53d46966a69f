"""What answering a question cost (MCTS-KBQA, Tables 5 and 9)."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from graphwalker.types import Trajectory

COSTS = ("actor_calls", "tokens", "value_calls", "value_tokens", "seconds", "value_seconds")


def mean_costs(trajectories: Sequence[Trajectory]) -> dict[str, float | None]:
    """The mean of each cost over questions, the episodes of a question added up; ``None`` where none noted it.

    ``actor_calls`` counts every sampled turn, the seconds are of work. An episode without a note of its costs (a plain
    evaluation) has one call a turn, and its tokens are the model's. What an outage cut short takes no part.
    """
    values: dict[str, dict[str, float]] = {name: defaultdict(float) for name in COSTS}
    for trajectory in trajectories:
        if trajectory.ending == "outage":
            continue
        for name, value in _costs(trajectory).items():
            values[name][trajectory.question.id] += value
    return {name: float(np.mean(list(of.values()))) if of else None for name, of in values.items()}


def _costs(trajectory: Trajectory) -> dict[str, float]:
    noted = trajectory.extra.get("cost")
    if not isinstance(noted, dict):
        return {"actor_calls": len(trajectory.turns), "tokens": trajectory.completion_tokens}
    return {
        name: float(noted[name])
        for name in COSTS
        if isinstance(noted.get(name), int | float) and not isinstance(noted[name], bool)
    }
