"""The measures of MCTS-KBQA (section 4.4, Tables 2, 3 and 8): of answers as sets, by type of question.

All read stored trajectories. Names compare as everywhere (`graphwalker.rewards`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from graphwalker.metrics.aggregate import plain_interval
from graphwalker.metrics.bootstrap import RESAMPLES, random_stream, table_intervals
from graphwalker.metrics.normalise import normalise
from graphwalker.protocol.escape import unescape_name
from graphwalker.rewards import Reward, em, em_set, f1, hits_at_1, is_gold
from graphwalker.types import Entity, Trajectory

TOP = 5  # predictions that MaxF1@5 and Empty%@5 look at


def rhits_at_1(given: Sequence[str], gold: Sequence[Entity]) -> float:
    """RHits@1 (Shu et al. 2022): the expected hit of one predicted answer drawn uniformly.

    Spellings of one name are one answer. The expectation itself is taken, so no seed enters.

    >>> rhits_at_1(["Rome", "Oslo", "Bonn", "rome"], [Entity("Rome"), Entity("Bern")])
    0.3333333333333333
    """
    distinct = {normalise(unescape_name(name)): name for name in given}
    return sum(is_gold(name, gold) for name in distinct.values()) / len(distinct) if distinct else 0.0


def em_hit(given: Sequence[str], gold: Sequence[Entity]) -> float:
    """1 when at least one given answer is gold: the "EM" of the paper's CWQ columns, as far as it can be known.

    The paper's EM on CWQ (80.20) is above its F1 (70.15); the set equality of `em_set` can never be, and neither can
    `em`. Hitting one answer can: it holds whenever F1 is above 0. Listing candidates gains it, so it is reported under
    its own name beside the strict ones and is no reward.

    >>> em_hit(["Rome", "Oslo"], [Entity("Rome"), Entity("Bern")]), em_hit(["Oslo"], [Entity("Rome")])
    (1.0, 0.0)
    """
    return float(any(is_gold(name, gold) for name in given))


MEASURES: Mapping[str, Reward] = {
    "f1": f1,
    "hits@1": hits_at_1,  # what ArG reports
    "rhits@1": rhits_at_1,
    "em_hit": em_hit,
    "em": em,
    "em_set": em_set,
}
ACCURACY = "em_set"
"""What KQA Pro calls accuracy: the predicted answers and the gold ones correspond one to one (Cao et al. 2022)."""


def main_measure(trajectories: Sequence[Trajectory]) -> str:
    """The measure by which the paper compares methods: accuracy on KQA Pro, else F1."""
    return ACCURACY if trajectories and all(t.question.dataset == "kqapro" for t in trajectories) else "f1"


def counts_for_scores(trajectory: Trajectory) -> bool:
    """Whether an episode takes part: the graph was not out of order, and there is gold."""
    return trajectory.ending != "outage" and bool(trajectory.question.answers)


def score_kbqa(trajectories: Iterable[Trajectory], seed: int = 0, resamples: int = RESAMPLES) -> dict[str, Any]:
    """Every measure with its bootstrap interval over questions, ``overall`` and ``by_type``; JSON-ready.

    A type is ``Question.structure``, as the data set has it: 1-hop, Conjunction, i.i.d., Count. ``max_f1@5`` is the
    best F1 among a search's five best candidates and ``empty@5`` the share of questions where all of them score 0
    (Table 8); ``None`` where no search noted candidates.
    """
    kept = [trajectory for trajectory in trajectories if counts_for_scores(trajectory)]
    types = sorted({t.question.structure or "unknown" for t in kept})
    return {
        "overall": _group(kept, seed, "overall", resamples),
        "by_type": {
            name: _group([t for t in kept if (t.question.structure or "unknown") == name], seed, name, resamples)
            for name in types
        },
    }


def values_of(trajectory: Trajectory) -> dict[str, float]:
    """An episode's measures; NaN where one is not defined."""
    gold, given = trajectory.question.answers, trajectory.answer or ()
    values = {name: measure(given, gold) for name, measure in MEASURES.items()}
    best = max_f1(trajectory)
    return {**values, f"max_f1@{TOP}": best, f"empty@{TOP}": float(best == 0.0) if best == best else np.nan}


def max_f1(trajectory: Trajectory, top: int = TOP) -> float:
    """The best F1 among the first ``top`` candidates of a search; NaN where there is no list of them.

    A search without a valid terminal has an empty list, and its best is 0.
    """
    candidates = trajectory.extra.get("candidates")
    if not isinstance(candidates, list):
        return np.nan
    answers = [_names(candidate) for candidate in candidates[:top]]
    return max((f1(answer, trajectory.question.answers) for answer in answers), default=0.0)


def _names(candidate: Any) -> list[str]:
    answer = candidate.get("answer") if isinstance(candidate, dict) else None
    return [name for name in answer if isinstance(name, str)] if isinstance(answer, list) else []


def _group(trajectories: Sequence[Trajectory], seed: int, name: str, resamples: int) -> dict[str, Any]:
    rows = [values_of(trajectory) for trajectory in trajectories]
    names = (*MEASURES, f"max_f1@{TOP}", f"empty@{TOP}")
    table = np.array([[row[column] for column in names] for row in rows], dtype=np.float64).reshape(-1, len(names))
    ids = [trajectory.question.id for trajectory in trajectories]
    intervals, _ = table_intervals(ids, table, random_stream(seed, "kbqa", name), resamples)
    measures = {column: plain_interval(interval) for column, interval in zip(names, intervals, strict=True)}
    return {"questions": len(set(ids)), "episodes": len(rows), "measures": measures}
