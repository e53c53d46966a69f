"""GraphSynth: walks become questions, and questions trajectories (GraphWalker, section 2.2.1, phases 2 to 4).

The oracle's queries run through the very environment that is used in training and inference, so the observations are
the real ones. A trajectory is kept when its answer is right (`em` = 1) and every answer was seen in an observation.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from data_pipelines.teachers import Act, NamedBranch, NamedWalk, State, Teacher, oracle_plan
from data_pipelines.walks import Walk, Walker
from envs.kg_env import KGEnv
from graphwalker.kg.store import KGStore
from graphwalker.metrics.normalise import forms
from graphwalker.metrics.trajectory import grounded, seen_names
from graphwalker.protocol.prompts import Prompt
from graphwalker.protocol.render import render_turn
from graphwalker.rewards import em
from graphwalker.tools.toolbox import Toolbox
from graphwalker.types import Entity, Question, Trajectory

T = TypeVar("T")

BATCH = 256  # episodes that advance together, so that a teacher may answer them at once


@dataclass(frozen=True, slots=True)
class Item:
    """A walk with its names and its question."""

    walk: Walk
    named: NamedWalk
    question: Question


def name_walk(walker: Walker, walk: Walk) -> NamedWalk:
    return tuple(
        NamedBranch(tuple(walker.graph.name(node) for node in branch.nodes), branch.relations)
        for branch in walk.branches
    )


def make_items(
    walks: Iterable[Walk], walker: Walker, store: KGStore, teacher: Teacher, *, dataset: str, dropped: Counter[str]
) -> Iterator[Item]:
    """Questions for walks; one that names a masked node is dropped and counted."""
    for batch in batches(walks):
        named = [name_walk(walker, walk) for walk in batch]
        digests = [hashlib.sha256(repr(walk).encode()).hexdigest() for walk in batch]
        texts = teacher.questions(named, [int(digest[:8], 16) for digest in digests])
        for walk, names, digest, text in zip(batch, named, digests, texts, strict=True):
            if _leaks(text, names):
                dropped["question names a masked entity"] += 1
                continue
            yield Item(walk, names, _question(store, walk, names, text, f"{dataset}-{digest[:12]}", dataset))


def _leaks(text: str, walk: NamedWalk) -> bool:
    """Whether a question names a node that is to be found, alone or inside the topic's own name."""
    words = f" {_words(text)} "
    return any(f" {_words(name)} " in words for branch in walk for name in branch.names[1:])


def _words(text: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())


def _question(store: KGStore, walk: Walk, named: NamedWalk, text: str, key: str, dataset: str) -> Question:
    literal = walk.answer.startswith('"')
    aliases = () if literal else tuple(store.aliases(walk.answer))
    return Question(
        id=key,
        text=text,
        topic_entities=tuple(Entity(b.names[0], node) for b, node in zip(named, walk.topics, strict=True)),  # fmt: skip
        answers=(Entity(named[0].names[-1], None if literal else walk.answer, aliases),),
        dataset=dataset,
        structure=walk.structure,
        hops=walk.hops,
        paths=tuple(b.relations for b in walk.branches),
    )


class Driver:
    """Runs planned episodes through the environment, a batch in step, with thoughts by the teacher."""

    def __init__(self, toolbox: Toolbox, teacher: Teacher, *, max_turns: int = 10) -> None:
        self._toolbox, self._teacher, self._max_turns = toolbox, teacher, max_turns
        self._prompt = Prompt("compact")

    def run(self, items: Sequence[Item], plans: Sequence[Sequence[Act]]) -> list[Trajectory]:
        """One trajectory an item. After an act with a detour, the teacher's `recover` is asked before the plan goes on.

        A plan longer than `max_turns` gets an episode that is just long enough: a chain of five hops needs 11 turns.
        """
        lengths = [len(plan) + sum(bool(act.detour) for act in plan) for plan in plans]
        envs = [KGEnv(self._toolbox, prompt=self._prompt, max_turns=max(self._max_turns, length)) for length in lengths]
        for env, item in zip(envs, items, strict=True):
            env.reset(options={"question": item.question})
        left = [list(plan) for plan in plans]
        while active := [i for i, env in enumerate(envs) if left[i] and not env.over]:
            self._turn([envs[i] for i in active], [items[i] for i in active], [left[i] for i in active])
        return [env.trajectory() for env in envs]

    def _turn(self, envs: Sequence[KGEnv], items: Sequence[Item], left: Sequence[list[Act]]) -> None:
        acts = [plan.pop(0) for plan in left]
        states = [_state(env, item, act) for env, item, act in zip(envs, items, acts, strict=True)]
        thoughts = self._teacher.thoughts(states, acts)
        astray = []
        for env, act, thought, plan in zip(envs, acts, thoughts, left, strict=True):
            env.step(render_turn(thought, act.kind, act.action))
            if act.detour and not env.over and not (plan and plan[0].detour):  # some mistakes take two turns
                astray.append((env, act, plan))
        if astray:
            item_of = dict(zip(map(id, envs), items, strict=True))
            after = [replace(_state(env, item_of[id(env)], act), mistake=act.detour) for env, act, _ in astray]
            for (_, _, plan), act in zip(astray, self._teacher.recover(after), strict=True):
                plan.insert(0, act)


def _state(env: KGEnv, item: Item, act: Act) -> State:
    return State(item.question, item.named, env.trajectory().turns, act.branch, act.hop, act.after)


def why_bad(item: Item, trajectory: Trajectory) -> str:
    """Why a trajectory is not kept, "" when it is.

    Rejection sampling's two criteria are that the answer is right and that every answer was seen in an observation;
    ours is that the entities in between were seen too, so that no turn uses what the agent could not know.
    """
    if em(trajectory.answer or (), trajectory.question.answers) == 1.0 and grounded(trajectory):
        seen = seen_names(trajectory.turns)
        unseen = [n for b in item.named for n in b.names[1:] if forms(n).isdisjoint(seen)]
        return "an entity in between was not seen" if unseen else ""
    for turn in trajectory.turns:
        if turn.status != "ok":
            return f"a query came back {turn.status}"
    return "the answer is wrong or was not seen" if trajectory.answer else "no answer"


def graphsynth(
    items: Iterable[Item], toolbox: Toolbox, teacher: Teacher, *, dropped: Counter[str]
) -> Iterator[tuple[Item, Trajectory]]:
    """The straight trajectories of questions, in order; those that fail are counted by why."""
    driver = Driver(toolbox, teacher)
    for batch in batches(items):
        for item, trajectory in zip(batch, driver.run(batch, [oracle_plan(i.named) for i in batch]), strict=True):
            if why := why_bad(item, trajectory):
                dropped[why] += 1
            else:
                yield item, replace(trajectory, extra={"source": "graphsynth"})


def batches(values: Iterable[T], size: int = BATCH) -> Iterator[list[T]]:
    batch: list[T] = []
    for value in values:
        batch.append(value)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
