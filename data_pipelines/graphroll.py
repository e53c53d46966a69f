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

from data_pipelines.graphsynth import Driver, Item, batches, is_good, why_bad
from data_pipelines.teachers import Act, Detour, Teacher, explore, follow, oracle_plan
from graphwalker.kg.store import KGStore
from graphwalker.protocol.parse import GET_RELATIONS, GET_TRIPLES
from graphwalker.protocol.render import format_query
from graphwalker.tools.toolbox import Toolbox
from graphwalker.types import Trajectory

KINDS: tuple[Detour, ...] = (
    "wrong_relation",  # a relation that is there and does not help
    "wrong_entity",  # another entity of the observation is expanded: a dead end
    "misspelled",  # a name in part or with a slip: no such entity
    "unseen_relation",  # get_triples before get_relations: refused
    "bad_query",  # a malformed query
)


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
    driver, planner = Driver(toolbox, teacher), _Planner(toolbox.store, seed)
    for batch in batches(items):
        plans = [planner.plan(item, recovery) for item in batch]
        for item, plan, trajectory in zip(batch, plans, driver.run(batch, plans), strict=True):
            detours = [i for i, act in enumerate(plan) if act.detour]
            if not is_good(trajectory):
                dropped[f"{plan[detours[0]].detour if detours else 'clean'}: {why_bad(trajectory)}"] += 1
                continue
            kinds = [plan[i].detour for i in detours]
            yield item, replace(trajectory, extra={"source": "graphroll", "detours": detours, "kinds": kinds})


class _Planner:
    """Puts mistakes into the oracle's plan, each kind as often as the others where the walk allows it."""

    def __init__(self, store: KGStore, seed: int) -> None:
        self._store, self._rng = store, random.Random(seed)
        self._made: Counter[str] = Counter()
        self._owed = 0.0  # so that the share comes out exactly, whatever the order
        self._makers: dict[str, Callable[[Item, int, int], tuple[int, list[Act]] | None]] = {
            "wrong_relation": self._wrong_relation,
            "wrong_entity": self._wrong_entity,
            "misspelled": self._misspelled,
            "unseen_relation": self._unseen_relation,
            "bad_query": self._bad_query,
        }

    def plan(self, item: Item, recovery: float) -> list[Act]:
        plan = oracle_plan(item.named)
        self._owed += recovery
        if self._owed < 1:
            return plan
        places = [(act.branch, act.hop) for act in plan if act.move == "explore"]
        self._rng.shuffle(places)
        for kind in sorted(KINDS, key=lambda k: (self._made[k], self._rng.random())):
            for branch, hop in places:
                made = self._makers[kind](item, branch, hop)
                if made is not None:
                    self._made[kind] += 1
                    self._owed -= 1
                    return _replaced(plan, branch, hop, *made)
        return plan

    def _wrong_relation(self, item: Item, branch: int, hop: int) -> tuple[int, list[Act]] | None:
        """After get_relations, another of the relations; what it shows must not be what is looked for."""
        node, right = _place(item, branch, hop)
        wanted = item.walk.branches[branch].nodes[hop + 1]
        others = sorted({s.relation for s in self._store.steps(node)} - {right})
        self._rng.shuffle(others)
        for relation in others:
            (expansion,) = self._store.expand(node, [relation], 20)
            if all(wanted not in (t.head, t.tail) for t in expansion.triples):
                query = format_query(GET_TRIPLES, item.named[branch].names[hop], [relation])
                act = Act("follow", branch, hop, query, detour="wrong_relation", wrong=relation)
                return 1, [act]  # the teacher's `recover` then follows the right one
        return None

    def _wrong_entity(self, item: Item, branch: int, hop: int) -> tuple[int, list[Act]] | None:
        """Before the walk goes on from an entity, one that it has passed or that stood beside it is expanded."""
        if hop == 0:
            return None
        node, right = _place(item, branch, hop)
        wrong = item.named[branch].names[hop - 1]
        start = item.walk.branches[branch].nodes[hop - 1]
        if wrong == item.named[branch].names[hop] or right in {s.relation for s in self._store.steps(start)}:
            return None
        act = Act("explore", branch, hop, format_query(GET_RELATIONS, wrong), detour="wrong_entity", wrong=wrong)
        return 0, [act]

    def _misspelled(self, item: Item, branch: int, hop: int) -> tuple[int, list[Act]] | None:
        name = item.named[branch].names[hop]
        slip = _misspell(name, self._rng)
        if slip is None or self._store.named(slip, ignore_case=True) or self._store.has_node(slip):
            return None
        return 0, [Act("explore", branch, hop, format_query(GET_RELATIONS, slip), detour="misspelled", wrong=slip)]

    def _unseen_relation(self, item: Item, branch: int, hop: int) -> tuple[int, list[Act]] | None:
        act = follow(item.named, branch, hop, detour="unseen_relation")
        return 0, [act]

    def _bad_query(self, item: Item, branch: int, hop: int) -> tuple[int, list[Act]] | None:
        right = explore(item.named, branch, hop)
        broken = self._rng.choice((right.action.replace("get_relations", "get_relation"), right.action[:-2]))
        return 0, [replace(right, action=broken, detour="bad_query")]


def _place(item: Item, branch: int, hop: int) -> tuple[str, str]:
    walked = item.walk.branches[branch]
    return walked.nodes[hop], walked.relations[hop].removeprefix("^")


def _replaced(plan: Sequence[Act], branch: int, hop: int, offset: int, acts: list[Act]) -> list[Act]:
    """The plan with the turn at `offset` of a hop gone astray; `Teacher.recover` supplies what it should have been."""
    start = next(i for i, act in enumerate(plan) if (act.branch, act.hop, act.move) == (branch, hop, "explore"))
    return [*plan[: start + offset], *acts, *plan[start + offset + 1 :]]


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
