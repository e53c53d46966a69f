"""Rewards: pure functions of the answers given and the gold answers, each in [0, 1].

Answers are compared as whole names in one normal form (`graphwalker.metrics.normalise`) to the gold names and their
aliases, never by parts. Spellings of one name count once, and so do two names of one gold answer. Where nothing is
given, or there is no gold, every reward is 0. ``em`` is what RL uses by default; ``em_lenient`` is only for comparison
with published tables.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from graphwalker.metrics.normalise import forms, normalise
from graphwalker.protocol.escape import unescape_name
from graphwalker.types import Entity

Reward = Callable[[Sequence[str], Sequence[Entity]], float]


def em(given: Sequence[str], gold: Sequence[Entity]) -> float:
    """1 when at least one answer is given and every given answer is gold.

    Listing candidates or fragments gains nothing, and it can be reached when there are more gold answers than an
    observation shows.

    >>> gold = [Entity("Busch Stadium"), Entity("Sportsman's Park")]
    >>> em(["busch stadium"], gold), em(["Busch Stadium", "Fenway Park"], gold), em(["Busch"], gold), em([], gold)
    (1.0, 0.0, 0.0, 0.0)
    """
    right, wrong, _ = _counts(given, gold)
    return float(right > 0 and wrong == 0)


def em_set(given: Sequence[str], gold: Sequence[Entity]) -> float:
    """1 when the given answers are exactly the gold ones.

    >>> gold = [Entity("Busch Stadium"), Entity("Sportsman's Park")]
    >>> em_set(["Busch Stadium"], gold), em_set(["Sportsmans Park", "Busch Stadium"], gold)
    (0.0, 1.0)
    """
    right, wrong, total = _counts(given, gold)
    return float(0 < right == total and wrong == 0)


def precision(given: Sequence[str], gold: Sequence[Entity]) -> float:
    """The share of the given answers that are gold; names of one gold answer count once.

    >>> precision(["US", "America", "France"], [Entity("United States", aliases=("US", "America"))])
    0.5
    """
    right, wrong, _ = _counts(given, gold)
    return right / (right + wrong) if right else 0.0


def recall(given: Sequence[str], gold: Sequence[Entity]) -> float:
    """The share of the gold answers that are given.

    >>> recall(["Rome", "Oslo"], [Entity("Rome"), Entity("Paris")])
    0.5
    """
    right, _, total = _counts(given, gold)
    return right / total if right else 0.0


def f1(given: Sequence[str], gold: Sequence[Entity]) -> float:
    """The harmonic mean of `precision` and `recall`, over answers (not tokens).

    >>> f1(["Rome", "Oslo", "Bonn"], [Entity("Rome")])
    0.5
    """
    right, wrong, total = _counts(given, gold)
    return 2 * right / (right + wrong + total) if right else 0.0


def hits_at_1(given: Sequence[str], gold: Sequence[Entity]) -> float:
    """1 when the first given answer is gold.

    >>> hits_at_1(["Rome", "Oslo"], [Entity("Rome")]), hits_at_1(["Oslo", "Rome"], [Entity("Rome")])
    (1.0, 0.0)
    """
    return em(given[:1], gold)


def em_lenient(given: Sequence[str], gold: Sequence[Entity]) -> float:
    """The exact match of the GraphWalker authors' released evaluation: not for training, it can be gamed.

    1 when any given answer contains, or is contained in, any gold name or alias; case, "a" and "an", and runs of spaces
    are ignored, and empty answers are left out.

    >>> em_lenient(["u"], [Entity("Busch Stadium")]), em_lenient(["Oslo", "Rome", "Bonn"], [Entity("Rome")])
    (1.0, 1.0)
    """
    golds = [_lenient(name) for entity in gold for name in (entity.name, *entity.aliases)]
    return float(any(g in a or (a and a in g) for a in map(_lenient, filter(None, _listed(given))) for g in golds))


REWARDS: dict[str, Reward] = {
    "em": em,
    "em_set": em_set,
    "f1": f1,
    "precision": precision,
    "recall": recall,
    "hits@1": hits_at_1,
    "em_lenient": em_lenient,
}


def is_gold(name: str, gold: Sequence[Entity]) -> bool:
    """Whether one name, as it prints or as it is, is that of a gold answer."""
    return not forms(name).isdisjoint(form for names in _gold_forms(gold) for form in names)


def _counts(given: Sequence[str], gold: Sequence[Entity]) -> tuple[int, int, int]:
    """How many gold answers are given, how many other answers are, and how many gold answers there are."""
    return _counted(tuple(_listed(given)), tuple(gold))


@lru_cache(maxsize=64)  # an answer is scored by several rewards one after another
def _counted(given: tuple[str, ...], gold: tuple[Entity, ...]) -> tuple[int, int, int]:
    answers = _gold_forms(gold)
    found: set[int] = set()
    wrong: set[str] = set()
    for name in given:
        given_forms = forms(name)
        matches = [i for i, names in enumerate(answers) if not given_forms.isdisjoint(names)]
        found.update(matches)
        if not matches:
            wrong.add(normalise(unescape_name(name)))
    return len(found), len(wrong), len(answers)


def _gold_forms(gold: Sequence[Entity]) -> list[set[str]]:
    """The forms of each gold answer; entities of one name are one answer, since a reader cannot tell them apart."""
    answers: dict[str, set[str]] = {}
    for entity in gold:
        names = answers.setdefault(normalise(entity.name), set())
        names.update(normalise(name) for name in (entity.name, *entity.aliases))
    return [names - {""} for names in answers.values()]


def _listed(given: Sequence[str]) -> Sequence[str]:
    if isinstance(given, str):  # its characters would be scored as answers
        raise TypeError(f"answers are a list of names, not one string: {given!r}")
    return given


def _lenient(name: str) -> str:
    return " ".join(re.sub(r"\b(?:a|an)\b", " ", name.lower()).split())
