"""How well a value ranks siblings: against Monte-Carlo values within the sets of children (MCTS-KBQA, section 4.8).

The truth is what a Classic MCTS run with the value ``f1`` (F1 of terminal answers against gold) backed up: a node's
total over its visits. A sibling set is a node's children, at least two.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphwalker.metrics.aggregate import plain_interval
from graphwalker.metrics.bootstrap import RESAMPLES, random_stream, table_intervals
from graphwalker.metrics.statistics import kendall_tau_b

KS = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Siblings:
    """The children of one node: their numbers and Monte-Carlo values."""

    question_id: str
    numbers: tuple[int, ...]
    truth: tuple[float, ...]

    @property
    def tells(self) -> bool:
        """Whether one child is better than another; a set of equals has no best child to keep."""
        return len(set(self.truth)) > 1


def sibling_sets(tree: Mapping[str, Any]) -> Iterator[Siblings]:
    """The sibling sets of a tree (`graphwalker.search.tree_json`) whose children were all visited."""
    children: dict[int, list[Mapping[str, Any]]] = {}
    for node in tree["nodes"]:
        if node["parent"] is not None and node["visits"] > 0:
            children.setdefault(node["parent"], []).append(node)
    for nodes in children.values():
        if len(nodes) > 1:
            truth = tuple(node["total"] / node["visits"] for node in nodes)
            yield Siblings(tree["question_id"], tuple(node["number"] for node in nodes), truth)


def recall_at(k: int, truth: Sequence[float], proxy: Sequence[float]) -> float:
    """The chance that a best child is among the first ``k`` by ``proxy``, ties in it broken by lot.

    >>> recall_at(1, [0.0, 1.0, 0.5], [0.1, 0.9, 0.4]), recall_at(1, [0.0, 1.0], [0.5, 0.5])
    (1.0, 0.5)
    """
    if k >= len(truth):
        return 1.0
    edge = sorted(proxy, reverse=True)[k - 1]
    best = [value == max(truth) for value in truth]
    if any(is_best and value > edge for is_best, value in zip(best, proxy, strict=True)):
        return 1.0
    places = k - sum(value > edge for value in proxy)
    tied = sum(value == edge for value in proxy)
    others = tied - sum(is_best and value == edge for is_best, value in zip(best, proxy, strict=True))
    return 1.0 - math.comb(others, places) / math.comb(tied, places)


def agreement(
    pairs: Iterable[tuple[Siblings, Sequence[float]]], seed: int = 0, resamples: int = RESAMPLES
) -> dict[str, Any]:
    """Recall@k and tau_b of a proxy, whose values stand beside each set, with intervals over questions; JSON-ready.

    Sets whose true values are all equal are left out and counted (``equal``). A proxy that gives all children of a set
    the same value says nothing of their order: its tau_b there is 0, and such sets are counted (``tied``).
    """
    found = list(pairs)
    kept = [(siblings, proxy) for siblings, proxy in found if siblings.tells]
    rows = []
    for siblings, proxy in kept:
        tau = kendall_tau_b(siblings.truth, proxy)
        recalls = (recall_at(k, siblings.truth, proxy) for k in KS)
        rows.append((*recalls, 0.0 if math.isnan(tau) else tau))
    table = np.array(rows, dtype=np.float64).reshape(-1, len(KS) + 1)
    ids = [siblings.question_id for siblings, _ in kept]
    intervals, _ = table_intervals(ids, table, random_stream(seed, "siblings"), resamples)
    names = (*(f"recall@{k}" for k in KS), "tau_b")
    return {
        "sets": len(kept),
        "questions": len(set(ids)),
        "equal": len(found) - len(kept),
        "tied": sum(len(set(proxy)) == 1 for _, proxy in kept),
        **{name: plain_interval(interval) for name, interval in zip(names, intervals, strict=True)},
    }
