"""Questions of a data set cut in two, by question: one part to train on, one to test on.

Questions of one text stay on one side. Each length (`Question.hops`) is cut by itself, so that both parts have the same
mixture, or the test part as many of each. Which question goes where depends on the seed and the questions, not on their
order in the file; both parts come out in mixed order, so that the first so many of either are a fair sample.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence

from graphwalker.errors import UserError
from graphwalker.types import Question

Group = list[Question]
"""Questions of one text."""


def cut(
    questions: Iterable[Question], *, share: float = 0.1, per_hop: int | None = None, seed: int = 0
) -> tuple[list[Question], list[Question]]:
    """The questions to train on and those to test on: a `share` of each length, or `per_hop` of each.

    Raises ``UserError`` where a length has no more than `per_hop` questions, or one of the parts would be empty.
    """
    train: dict[Hashable, list[Group]] = {}
    test: dict[Hashable, list[Group]] = {}
    for hops, groups in _strata(questions, seed).items():
        size = sum(map(len, groups))
        wanted = round(share * size) if per_hop is None else per_hop
        if per_hop is not None and size <= per_hop:
            raise UserError(
                f"there are {size} questions of {hops} hops: cannot put {per_hop} aside and train on the rest"
            )
        test[hops], train[hops] = _take(groups, wanted)
    parts = list(_mixed(train)), list(_mixed(test))
    if not all(parts):
        raise UserError(f"{sum(map(len, parts))} questions: too few to cut in two")
    return parts


def subset(questions: Sequence[Question], count: int, seed: int = 0) -> list[Question]:
    """``count`` questions drawn at random, in the order of the file: the fixed sample that all methods share.

    What is drawn depends on the seed and the questions' ids, not on the file's order, nor on anything about a question
    (MCTS-KBQA, section 4.1); a smaller sample of the same seed is part of a larger one. Raises ``UserError`` where
    there are fewer.
    """
    if not 1 <= count <= len(questions):
        raise UserError(f"{len(questions)} questions: cannot draw {count} of them")
    ranked = sorted(questions, key=lambda q: hashlib.sha256(f"{seed}\0{q.id}".encode()).digest())
    drawn = {question.id for question in ranked[:count]}
    return [question for question in questions if question.id in drawn]


def _strata(questions: Iterable[Question], seed: int) -> dict[Hashable, list[Group]]:
    """For each length its groups, in an order that the seed and the texts decide."""
    groups: dict[str, Group] = defaultdict(list)
    for question in questions:
        groups[" ".join(question.text.casefold().split())].append(question)
    strata: dict[Hashable, list[Group]] = defaultdict(list)
    for _, group in sorted(groups.items(), key=lambda pair: hashlib.sha256(f"{seed}\0{pair[0]}".encode()).digest()):
        strata[group[0].hops].append(sorted(group, key=lambda question: question.id))
    return strata


def _take(groups: Sequence[Group], wanted: int) -> tuple[list[Group], list[Group]]:
    """The first groups that together have as many questions as wanted, or just fewer, and the others."""
    taken: list[Group] = []
    left: list[Group] = []
    for group in groups:
        fits = len(group) <= wanted
        wanted -= len(group) if fits else 0
        (taken if fits else left).append(group)
    return taken, left


def _mixed(strata: dict[Hashable, list[Group]]) -> Iterator[Question]:
    """The questions with the lengths in turn, as long as there are any of each."""
    ranked = [(place, str(hops), group) for hops, groups in strata.items() for place, group in enumerate(groups)]
    for _, _, group in sorted(ranked, key=lambda entry: entry[:2]):
        yield from group
