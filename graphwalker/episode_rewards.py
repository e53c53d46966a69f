"""Rewards of whole episodes: pure functions of a trajectory, each in [0, 1], named in `EPISODE_REWARDS`.

RL adds them up with weights (``rewards`` and ``reward_weights`` of a GRPO config); the default is ``em`` alone
(GraphWalker, section 2.3). Those of the answer are `graphwalker.rewards`. The others say how it was come by, and can
be had without a right answer: give them a small weight beside one that cannot. The turn-level ones are means over
turns, as in KG-R1 (Song et al., 2025), so that a longer episode earns no more.
"""

import re
from collections.abc import Callable

from graphwalker.metrics.normalise import forms
from graphwalker.metrics.trajectory import gold_names, seen_names
from graphwalker.protocol.parse import Query, parse_query
from graphwalker.rewards import REWARDS, Reward
from graphwalker.types import RAN, Trajectory, Turn

EpisodeReward = Callable[[Trajectory], float]

# one closed thought, then one query or answer, and nothing else; a name never holds a raw tag
_TAG = r"</?(?:think|kg-query|answer|information)>"
_TEXT = rf"(?:(?!{_TAG}).)*"
_TURN = re.compile(rf"\s*<think>{_TEXT}</think>\s*<(kg-query|answer)>{_TEXT}</\1>\s*", re.DOTALL)


def of_answer(reward: Reward) -> EpisodeReward:
    """A reward of the answer as one of the episode; no answer is an empty one."""
    return lambda trajectory: reward(trajectory.answer or (), trajectory.question.answers)


def well_formed(turn: Turn) -> bool:
    """Whether a turn is one closed thought and one readable query or answer, and nothing else.

    >>> well_formed(Turn('<think>Go.</think><kg-query>get_relations("Rome")</kg-query>', kind="query"))
    True
    """
    if _TURN.fullmatch(turn.text) is None:
        return False
    return turn.kind == "answer" or (turn.kind == "query" and isinstance(parse_query(turn.action), Query))


def turn_format(trajectory: Trajectory) -> float:
    """The share of the turns that are `well_formed`; 0 for an episode without turns."""
    turns = trajectory.turns
    return sum(map(well_formed, turns)) / len(turns) if turns else 0.0


def format_(trajectory: Trajectory) -> float:
    """1 when the episode ended with an answer and every turn is `well_formed`."""
    return float(trajectory.ending == "answered" and turn_format(trajectory) == 1.0)


def turn_query(trajectory: Trajectory) -> float:
    """The share of the queries that the graph could run and that had not been asked before; 0 without a query.

    One that finds nothing counts: that nothing is there is knowledge too. Asking again is worth nothing, or a share
    spoilt by one mistake could be mended by repeating what worked.
    """
    queries = [turn for turn in trajectory.turns if turn.kind == "query"]
    good = {turn.action for turn in queries if turn.status in RAN}
    return len(good) / len(queries) if queries else 0.0


def retrieval(trajectory: Trajectory) -> float:
    """1 when a gold answer, under any of its names, stands in a triple that the episode observed.

    The paper's retrieval rate (GraphWalker, section 3.5), an episode at a time.
    """
    seen = seen_names(trajectory.turns)
    return float(any(not seen.isdisjoint(forms(name)) for name in gold_names(trajectory.question.answers)))


EPISODE_REWARDS: dict[str, EpisodeReward] = {
    **{name: of_answer(reward) for name, reward in REWARDS.items()},
    "format": format_,
    "retrieval": retrieval,
    "turn_format": turn_format,
    "turn_query": turn_query,
}
