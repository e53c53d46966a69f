"""Our rewards in the signature TRL calls: one value a completion, ``None`` where an episode cannot be scored."""

from collections.abc import Callable, Sequence
from typing import Any

from graphwalker.episode_rewards import EPISODE_REWARDS, EpisodeReward
from graphwalker.train.configs import RewardConfig
from graphwalker.types import Trajectory


def reward_functions(names: Sequence[str]) -> list[Callable[..., list[float | None]]]:
    """The named rewards as TRL reward functions.

    Raises ``UserError`` for names that ``RewardConfig`` refuses. Each reads the episodes as the model saw them, which
    our trainer hands it, or else from the environments. An episode that a KG outage ended gets ``None`` from every
    reward: it takes no part in the advantage.
    """
    RewardConfig(list(names))
    return [_trl(name, EPISODE_REWARDS[name]) for name in names]


def _trl(name: str, score: EpisodeReward) -> Callable[..., list[float | None]]:
    def reward(
        trajectory: Sequence[Trajectory] | None = None, environments: Sequence[Any] = (), **kwargs: Any
    ) -> list[float | None]:
        episodes = trajectory or [environment.episode.trajectory() for environment in environments]
        return [None if episode.ending == "outage" else score(episode) for episode in episodes]

    reward.__name__ = name
    return reward
