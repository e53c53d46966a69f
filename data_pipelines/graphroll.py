"""GraphRoll: expert trajectories that meet an uninformative observation or a dead end, and back out of it.

The paper (section 2.2.2) has an LLM play the expert on training questions of CWQ. The offline expert here knows the
walk, makes one mistake at a random place of it, reads what the environment says, reflects, and goes on. All mistakes
are run through the environment like any other turn, and a trajectory is kept only when it ends with the right answer
(`em` = 1) and every answer was seen in an observation. The turns that err are listed in `extra["detours"]`, so that
training may leave them out of the loss.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from data_pipelines.graphsynth import Driver, Item, batches, why_bad
from data_pipelines.teachers import Act, Detour, Teacher, explore, follow, oracle_plan
from graphwalker.protocol.parse import GET_RELATIONS, GET_TRIPLES
from graphwalker.protocol.render import format_query
from graphwalker.tools.toolbox import Toolbox
from graphwalker.types import Status, Trajectory

KINDS: dict[Detour, tuple[Status, ...]] = {
    "wrong_relation": ("ok", "empty"),  # a relation that is there and does not help
    "wrong_entity": ("ok", "empty"),  # such a relation, and then where it leads: a dead end
    "misspelled": ("unknown_entity",),  # a name in part or with a slip
    "unseen_relation": ("refused",),  # get_triples before get_relations
    "bad_query": ("bad_query",),  # a malformed query
}
"""The kinds of mistakes, with what the environment must say to their turns."""


LIKELY = 8  # a wrong relation is one of the first so many that are shown: an expert errs among the likely ones

Made = tuple[int, list[Act]] | None
"""Which turn of a hop (0 get_relations, 1 get_triples) goes astray, and how; `None` where it cannot."""


def graphroll(
    items: Iterable[Item],
    toolbox: Toolbox,
    teacher: Teacher,
    *,
    recovery: float = 0.5,
    seed: int = 0,
    dropped: Counter[str],
) -> Iterator[tuple[Item, Trajectory]]:
    """Expert trajectories, in order; a share of `recovery` of the questions gets one mistake each, kinds in turn."""
    driver, mistakes = Driver(toolbox, teacher), Mistakes(toolbox, recovery, seed)
    for batch in batches(items):
        plans = [_plan(item, mistakes) for item in batch]
        for item, plan, trajectory in zip(batch, plans, driver.run(batch, plans), strict=True):
            detours = [i for i, act in enumerate(plan) if act.detour]
            kinds = [plan[i].detour for i in detours]
            why = _why_not(item, trajectory, detours, kinds)
            if why:
                dropped[why] += 1
                continue
            extra = {"source": "graphroll", "detours": detours, "kinds": sorted(set(kinds))}
            yield item, replace(trajectory, extra=extra)


def _why_not(item: Item, trajectory: Trajectory, detours: Sequence[int], kinds: Sequence[Detour]) -> str:
    """Why a trajectory is not kept, "" when it is."""
    if why := why_bad(item, trajectory):
        return f"{kinds[0] if kinds else 'clean'}: {why}"
    for place, kind in zip(detours, kinds, strict=True):
        if trajectory.turns[place].status not in KINDS[kind]:
            return f"{kind}: the mistake came back {trajectory.turns[place].status}"
    return ""


class Mistake(NamedTuple):
    """A turn that goes astray, and what is done in its stead."""

    branch: int
    hop: int
    turn: int
    """0 get_relations, 1 get_triples."""
    acts: list[Act]


def _plan(item: Item, mistakes: Mistakes) -> list[Act]:
    """The oracle's plan, with a mistake in it where one is due."""
    plan = oracle_plan(item.named)
    if mistakes.due():
        made = mistakes.make(item, [(act.branch, act.hop) for act in plan if act.move == "explore"])
        return _replaced(plan, made) if made else plan
    return plan


class Mistakes:
    """Makes a mistake in a share of `recovery` of the questions, each kind as often as the others where it can be."""

    def __init__(self, toolbox: Toolbox, recovery: float, seed: int) -> None:
        self._toolbox, self._store, self._rng = toolbox, toolbox.store, random.Random(seed)
        self._recovery = recovery
        self._made: Counter[str] = Counter()
        self._owed = 0.0  # so that the share comes out exactly, whatever the order
        self._makers: dict[str, Callable[[Item, int, int], Made]] = {
            "wrong_relation": self._wrong_relation,
            "wrong_entity": self._wrong_entity,
            "misspelled": self._misspelled,
            "unseen_relation": self._unseen_relation,
            "bad_query": self._bad_query,
        }

    def due(self) -> bool:
        """Whether the next question is to have a mistake; asked once a question."""
        self._owed += self._recovery
        return self._owed >= 1

    def make(self, item: Item, places: Sequence[tuple[int, int]]) -> Mistake | None:
        """A mistake at one of the places (branch, hop) of a walk, `None` where there is none to make."""
        places = list(places)
        self._rng.shuffle(places)
        for kind in sorted(KINDS, key=lambda k: (self._made[k], self._rng.random())):
            for branch, hop in places:
                made = self._makers[kind](item, branch, hop)
                if made is not None:
                    self._made[kind] += 1
                    self._owed -= 1
                    return Mistake(branch, hop, *made)
        return None

    def _wrong_relation(self, item: Item, branch: int, hop: int) -> Made:
        """After get_relations, another of the first relations; what it shows must not be what is looked for."""
        for relation, _ in self._astray(item, branch, hop):
            return 1, [_try(item, branch, hop, relation, "wrong_relation")]
        return None

    def _wrong_entity(self, item: Item, branch: int, hop: int) -> Made:
        """Such a relation, and then the relations of an entity that it leads to, which is not on the walk."""
        on_walk = {name.casefold() for b in item.named for name in b.names}
        for relation, ends in self._astray(item, branch, hop):
            names = [name for name in self._store.names(ends) if name and name.casefold() not in on_walk]
            if names:
                wrong = names[0]
                look = Act(
                    "explore", branch, hop, format_query(GET_RELATIONS, wrong), detour="wrong_entity", wrong=wrong
                )
                return 1, [_try(item, branch, hop, relation, "wrong_entity"), look]
        return None

    def _astray(self, item: Item, branch: int, hop: int) -> Iterator[tuple[str, list[str]]]:
        """Relations that the agent is shown here and that lead elsewhere, in random order, each with the entities."""
        walked = item.walk.branches[branch]
        node, wanted = walked.nodes[hop], walked.nodes[hop + 1]
        shown = self._toolbox.relations_at(node, item.question.text).relations[:LIKELY]
        relations = [r for r in shown if r != walked.relations[hop].removeprefix("^")]
        self._rng.shuffle(relations)
        for relation in relations:
            (expansion,) = self._store.expand(node, [relation], self._toolbox.triples_per_relation)
            ends = [end for t in expansion.triples for end in (t.head, t.tail) if end != node]
            if wanted not in ends:
                yield relation, [end for end in ends if not end.startswith('"')]

    def _misspelled(self, item: Item, branch: int, hop: int) -> Made:
        slip = _misspell(item.named[branch].names[hop], self._rng)
        if slip is None or self._store.named(slip, ignore_case=True) or self._store.has_node(slip):
            return None
        return 0, [Act("explore", branch, hop, format_query(GET_RELATIONS, slip), detour="misspelled", wrong=slip)]

    def _unseen_relation(self, item: Item, branch: int, hop: int) -> Made:
        return 0, [follow(item.named, branch, hop, detour="unseen_relation")]

    def _bad_query(self, item: Item, branch: int, hop: int) -> Made:
        if self._rng.random() < 0.5:
            asked = explore(item.named, branch, hop)
            broken = asked.action.replace("get_relations", self._rng.choice(("get_relation", "relations")), 1)
            return 0, [replace(asked, action=broken, detour="bad_query")]
        asked = follow(item.named, branch, hop)
        broken = asked.action.replace("get_triples", self._rng.choice(("get_triple", "triples")), 1)
        return 1, [replace(asked, action=broken, detour="bad_query")]


def _try(item: Item, branch: int, hop: int, relation: str, detour: Detour) -> Act:
    query = format_query(GET_TRIPLES, item.named[branch].names[hop], [relation])
    return Act("follow", branch, hop, query, detour=detour, wrong=relation)


def _replaced(plan: Sequence[Act], made: Mistake) -> list[Act]:
    """The plan with one turn of a hop gone astray; `Teacher.recover` supplies what it should have been."""
    place = (made.branch, made.hop, "explore")
    at = made.turn + next(i for i, act in enumerate(plan) if (act.branch, act.hop, act.move) == place)
    return [*plan[:at], *made.acts, *plan[at + 1 :]]


def _misspell(name: str, rng: random.Random) -> str | None:
    """A name in part, or with two letters swapped or one left out; `None` where it is too short."""
    words = name.split()
    if len(words) > 1 and rng.random() < 0.5:
        return " ".join(words[:-1])
    letters = [i for i in range(1, len(name) - 1) if name[i].isalpha() and name[i + 1].isalpha()]
    if len(name) < 4 or not letters:
        return None
    at = rng.choice(letters)
    if rng.random() < 0.5:
        return name[:at] + name[at + 1 :]
    return name[:at] + name[at + 1] + name[at] + name[at + 2 :]
