"""GraphRoll's expert on questions that come with gold paths: real wordings, real observations (section 2.2.2).

The expert is the oracle with a teacher's thoughts. It follows a gold path through the environment, goes on to the next
entity where one leads nowhere, and makes one of GraphRoll's mistakes in a share of the questions. What it writes is
kept when its answer is right (`em` = 1), every answer was seen in an observation, and each mistake was one.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from data_pipelines.graphroll import KINDS, Mistake, Mistakes
from data_pipelines.graphsynth import Item
from data_pipelines.importers.counts import Counts
from data_pipelines.oracle import Move, Oracle, Replay, Trail, explain, has_paths
from data_pipelines.teachers import Act, Detour, NamedBranch, State, Teacher
from data_pipelines.walks import Branch, Walk
from envs.kg_env import KGEnv
from graphwalker.metrics.normalise import forms
from graphwalker.metrics.trajectory import grounded, seen_names
from graphwalker.protocol.escape import escape_name
from graphwalker.protocol.render import render_turn
from graphwalker.rewards import em
from graphwalker.types import Question, Trajectory

LONGEST = 2  # turns that a mistake takes at most


def experts(
    questions: Iterable[Question],
    env: KGEnv,
    teacher: Teacher,
    *,
    width: int | None = None,
    recovery: float = 0.0,
    seed: int = 0,
    counts: Counts,
) -> Iterator[Trajectory]:
    """Expert trajectories of the questions, in order; those that fail are counted.

    `width` is as in `Oracle`; a share of `recovery` of the questions gets one mistake each, where there is room for it
    in the turns. Raises ``UserError`` on a question without a gold path for each of its topic entities.
    """
    expert = Expert(env, teacher, Mistakes(env.toolbox, recovery, seed), width=width, seed=seed)
    for question in questions:
        replay = expert.replay(question)
        if why := why_not(replay, expert.detours):
            counts.drop(why, question.id)
            continue
        counts.kept += 1
        kinds = sorted({detour.kind for detour in expert.detours})
        extra = {"source": "expert", "detours": [detour.turn for detour in expert.detours], "kinds": kinds}
        yield replace(replay.trajectory, extra=extra)


class Strayed(NamedTuple):
    """A turn that went astray."""

    turn: int
    kind: Detour
    entity: str
    """The name of the entity where it did."""


def why_not(replay: Replay, detours: Sequence[Strayed]) -> str:
    """Why a trajectory is not kept, "" when it is."""
    trajectory, strayed = replay.trajectory, {detour.turn for detour in detours}
    if em(trajectory.answer or (), trajectory.question.answers) < 1:
        straight = tuple(turn for place, turn in enumerate(trajectory.turns) if place not in strayed)
        return explain(replace(replay, trajectory=replace(trajectory, turns=straight)), {"em": 0.0})
    if not grounded(trajectory):
        return "an answer was not seen in an observation"
    turns = trajectory.turns
    for detour in detours:
        if (status := turns[detour.turn].status) not in KINDS[detour.kind]:
            return f"{detour.kind}: the mistake came back {status}"
        back = detours[-1].turn + 1
        looked_for = seen_names(turns[back : back + 1]) - forms(detour.entity)
        if looked_for & seen_names(turns[detour.turn : back]):
            return f"{detour.kind}: the mistake showed what was looked for"
    return ""


class Expert(Oracle):
    """An oracle that has thoughts and, where a mistake is due, goes astray once and comes back."""

    def __init__(
        self, env: KGEnv, teacher: Teacher, mistakes: Mistakes, *, width: int | None = None, seed: int = 0
    ) -> None:
        super().__init__(env, width=width)
        self._teacher, self._mistakes, self._rng = teacher, mistakes, random.Random(seed)
        self.detours: list[Strayed] = []
        """The turns of the last replay that went astray."""

    def replay(self, question: Question) -> Replay:
        if has_paths(question):
            self._question, self.detours = question, []
            self._mistake: Mistake | None = None
            pairs = zip(question.topic_entities, question.paths, strict=True)
            self._trails = [Trail(branch, (topic.name,), path) for branch, (topic, path) in enumerate(pairs)]
            hops = sum(map(len, question.paths))
            self._straight: int | None = self._rng.randrange(hops) if self._mistakes.due() else None
        return super().replay(question)

    def _turn(self, move: Move, trail: Trail, action: str) -> str:
        self._trails[trail.branch] = trail
        after: Detour = ""
        if move == "explore":
            after = "wrong_entity" if trail.back else ""
            self._plan_mistake(trail)
        if self._mistake and move == ("explore", "follow")[self._mistake.turn]:
            for act in self._mistake.acts:
                self.detours.append(Strayed(len(self.env.trajectory().turns), act.detour, trail.names[-1]))
                self._say(act)
            after, self._mistake = self.detours[-1].kind, None
        return self._say(Act(move, trail.branch, min(trail.hop, len(trail.path) - 1), action, after=after))

    def _say(self, act: Act) -> str:
        walk = tuple(NamedBranch(tuple(map(escape_name, t.names)), t.path) for t in self._trails)  # as the tools print
        state = State(self._question, walk, self.env.trajectory().turns, act.branch, act.hop, act.after)
        (thought,) = self._teacher.thoughts([state], [act])
        return self.env.step(render_turn(thought, act.kind, act.action))[0]

    def _plan_mistake(self, trail: Trail) -> None:
        """Choose a mistake for this hop, if it is the one; where there is none to make, the next hop is."""
        self._mistake = None  # one that waits for a get_triples that the hop before it did not come to
        if self._straight is None:
            return
        if self._straight:
            self._straight -= 1
            return
        ahead = len(trail.path) - trail.hop + sum(map(len, self._question.paths[trail.branch + 1 :]))
        turns_left = self.env.max_turns - len(self.env.trajectory().turns) - 1
        if turns_left < 2 * ahead + LONGEST:
            return
        self._mistake = self._mistakes.make(self._item(trail), [(trail.branch, trail.hop)])
        if self._mistake:
            self._straight = None

    def _item(self, trail: Trail) -> Item:
        """The walk so far, and the first entity to which it goes on: what a mistake must not lead to."""
        toolbox = self.env.toolbox
        resolve = toolbox.session(self._question).resolve
        walks = [[resolve(name) or name for name in other.names] for other in self._trails]
        here = walks[trail.branch][-1]
        (hop,) = toolbox.store.expand(here, [trail.path[trail.hop].removeprefix("^")], 1)
        walks[trail.branch] += [end for t in hop.triples for end in (t.head, t.tail) if end != here] or [here]
        branches = [Branch(tuple(nodes), other.path) for nodes, other in zip(walks, self._trails, strict=True)]
        named = [NamedBranch(other.names, other.path) for other in self._trails]
        return Item(Walk(tuple(branches)), tuple(named), self._question)
