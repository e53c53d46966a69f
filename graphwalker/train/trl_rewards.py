"""Our rewards in the signature TRL calls: one value a completion, ``None`` where an episode cannot be scored."""

from collections.abc import Callable, Sequence
from typing import Any

from graphwalker.errors import UserError
from graphwalker.rewards import REWARDS
from graphwalker.types import Trajectory


def reward_functions(names: Sequence[str]) -> list[Callable[..., list[float | None]]]:
    """The named rewards as TRL reward functions; raises ``UserError`` for a name that is none.

    Each reads the episodes from the environments that the trainer hands it. An episode that a KG outage
    ended gets ``None``: TRL leaves it out of the advantage.
    """
    unknown = [name for name in names if name not in REWARDS]
    if unknown:
        raise UserError(f"unknown reward {unknown[0]!r}; one of {', '.join(REWARDS)}")
    return [_trl(name) for name in names]


def _trl(name: str) -> Callable[..., list[float | None]]:
    score = REWARDS[name]

    def one(trajectory: Trajectory) -> float | None:
        if trajectory.ending == "outage":
            return None
        return score(trajectory.answer or (), trajectory.question.answers)

    def reward(environments: Sequence[Any], **kwargs: Any) -> list[float | None]:
        return [one(environment.episode.trajectory()) for environment in environments]

    reward.__name__ = name
    return reward
