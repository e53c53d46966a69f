"""What GRPO logs of its episodes, over all processes; an episode that an outage ended is counted and nothing else."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from accelerate.utils import gather_object

from graphwalker.inference.rollout import Rollout
from graphwalker.types import RAN

# name -> (sum, count) of this process's episodes; the metric is the quotient of the sums over all processes
Sums = dict[str, tuple[float, float]]


def episode_sums(rollouts: Sequence[Rollout]) -> Sums:
    """Sums and counts of what is averaged: per episode, ``cut_turns`` per turn, ``repeated_queries`` per query."""
    scored = [r for r in rollouts if r.trajectory().ending != "outage"]
    episodes = [r.trajectory() for r in scored]
    turns = [turn for t in episodes for turn in t.turns]
    queries = [[turn.action for turn in t.turns if turn.kind == "query"] for t in episodes]
    count = len(scored)
    return {
        "completions/mean_length": (sum(sum(r.mask) for r in scored), count),
        "episode/tokens": (sum(len(r.prompt_ids) + len(r.ids) for r in scored), count),
        "episode/turns": (len(turns), count),
        "episode/answered": (sum(t.ending == "answered" for t in episodes), count),
        "episode/errors": (sum(turn.status not in RAN for turn in turns), count),
        "episode/cut_turns": (sum(turn.status == "truncated" for turn in turns), len(turns)),
        "episode/repeated_queries": (sum(len(q) - len(set(q)) for q in queries), sum(map(len, queries))),
        "episode/outage": (len(rollouts) - count, len(rollouts)),
        "num_tokens": (sum(len(r.prompt_ids) + len(r.ids) for r in rollouts), 1),
    }


def total(sums: Sums, accelerator: Any) -> Sums:
    """The sums over all processes."""
    local = torch.tensor(list(sums.values()), dtype=torch.float64, device=accelerator.device)
    summed = accelerator.reduce(local, reduction="sum").tolist()
    return {name: (value, count) for name, (value, count) in zip(sums, summed, strict=True)}


def outages_by_kind(rollouts: Sequence[Rollout]) -> Counter[str]:
    """How many episodes each kind of outage ended, over all processes."""
    episodes = [r.trajectory() for r in rollouts]
    kinds = [str(t.extra.get("outage") or t.turns[-1].status) for t in episodes if t.ending == "outage"]
    return Counter(gather_object(kinds))
