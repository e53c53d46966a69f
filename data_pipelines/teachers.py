"""Who writes the words: questions from walks, thoughts for actions, and the way back from a dead end.

The offline `TemplateTeacher` writes all of it from phrases; an LLM behind the same protocol may do it instead.
Calls take lists, so that such a teacher can answer a whole batch at once.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from data_pipelines.phrases import Phrases, load_phrases, short_name
from graphwalker.protocol.parse import GET_RELATIONS, GET_TRIPLES
from graphwalker.protocol.render import format_answer, format_query
from graphwalker.types import Question, Turn


@dataclass(frozen=True, slots=True)
class NamedBranch:
    """A walk's branch in names: `relations[i]` leads from `names[i]` to `names[i + 1]`."""

    names: tuple[str, ...]
    relations: tuple[str, ...]


NamedWalk = tuple[NamedBranch, ...]

Detour = Literal["", "wrong_relation", "wrong_entity", "misspelled", "unseen_relation", "bad_query"]


@dataclass(frozen=True, slots=True)
class Act:
    """One planned turn: what to write, where on the walk it stands, and whether it goes astray or comes back."""

    move: Literal["explore", "follow", "answer"]
    """get_relations, get_triples, or the answer."""
    branch: int
    hop: int
    action: str
    """The text between the tags."""
    detour: Detour = ""
    """The mistake that this turn makes."""
    after: Detour = ""
    """The mistake that this turn comes back from."""
    wrong: str = ""
    """What a detour tries: a relation or an entity's name."""

    @property
    def kind(self) -> Literal["query", "answer"]:
        return "answer" if self.move == "answer" else "query"


@dataclass(frozen=True, slots=True)
class State:
    """What a teacher may look at before it writes a turn."""

    question: Question
    walk: NamedWalk
    turns: tuple[Turn, ...]
    branch: int
    hop: int
    mistake: Detour = ""
    """What went wrong in the last turn, if anything did."""


class Teacher(Protocol):
    """Writes questions, thoughts and, after a mistake, the expert's next action."""

    def questions(self, walks: Sequence[NamedWalk], seeds: Sequence[int]) -> list[str]:
        """One question a walk; it may name the topic entities and no other node of the walk."""
        ...

    def thoughts(self, states: Sequence[State], acts: Sequence[Act]) -> list[str]:
        """One short thought that leads from each state to its act."""
        ...

    def recover(self, states: Sequence[State]) -> list[Act]:
        """For each state whose last turn went astray, the act that leads back onto the walk."""
        ...


class TemplateTeacher:
    """Offline: everything from `phrases.yaml` and a few sentences, so short that a tiny model can learn them."""

    def __init__(self, phrases: Phrases | None = None) -> None:
        self.phrases = phrases or load_phrases()

    def questions(self, walks: Sequence[NamedWalk], seeds: Sequence[int]) -> list[str]:
        return [self._question(walk, random.Random(seed)) for walk, seed in zip(walks, seeds, strict=True)]

    def thoughts(self, states: Sequence[State], acts: Sequence[Act]) -> list[str]:
        return [self._thought(state.walk, act) for state, act in zip(states, acts, strict=True)]

    def recover(self, states: Sequence[State]) -> list[Act]:
        return [_recovery(state) for state in states]

    def _question(self, walk: NamedWalk, rng: random.Random) -> str:
        if len(walk) == 1:
            return self.phrases.chain(walk[0].names[0], walk[0].relations, rng)
        return self.phrases.conjunction([b.names[0] for b in walk], [b.relations for b in walk], rng)

    def _thought(self, walk: NamedWalk, act: Act) -> str:
        plain = self._plain(walk, act)
        if act.detour in ("wrong_relation", "wrong_entity"):
            if act.move == "explore":
                return f"Look at {act.wrong}."
            return f"Its {self._noun(walk, act)} may be under {short_name(act.wrong)}."
        if act.after == "wrong_relation":
            return f"That did not help. Try {short_name(walk[act.branch].relations[act.hop])} instead."
        if act.after == "wrong_entity":
            return f"That is a dead end. Go back to {walk[act.branch].names[act.hop]}."
        if act.after == "misspelled":
            return f"The name was wrong. Use {walk[act.branch].names[act.hop]}."
        if act.after == "unseen_relation":
            return "That was refused. Get its relations first instead."
        if act.after == "bad_query":
            return "That query was wrong. Write it again."
        return plain

    def _plain(self, walk: NamedWalk, act: Act) -> str:
        branch = walk[act.branch]
        if act.move == "answer":
            return f"The {self._noun(walk, act)} is {branch.names[-1]}." if len(walk) == 1 else (
                f"Only {branch.names[-1]} fits all."
            )  # fmt: skip
        noun = self._noun(walk, act)
        if act.move == "follow":
            return f"Its {noun} is under {short_name(branch.relations[act.hop])}."
        if act.hop:
            before = self.phrases[branch.relations[act.hop - 1]].noun
            return f"Its {before} is {branch.names[act.hop]}. Next find its {noun}."
        if act.branch:
            return "Now look at the other topic entity."
        return f"First find its {noun}."

    def _noun(self, walk: NamedWalk, act: Act) -> str:
        return self.phrases[walk[act.branch].relations[act.hop]].noun


def explore(walk: NamedWalk, branch: int, hop: int, **extra) -> Act:
    """The act that asks for the relations of the walk's node."""
    return Act("explore", branch, hop, format_query(GET_RELATIONS, walk[branch].names[hop]), **extra)


def follow(walk: NamedWalk, branch: int, hop: int, **extra) -> Act:
    """The act that asks for the triples of the walk's next relation, and of no other."""
    relation = walk[branch].relations[hop].removeprefix("^")
    return Act("follow", branch, hop, format_query(GET_TRIPLES, walk[branch].names[hop], [relation]), **extra)


def answer(walk: NamedWalk) -> Act:
    """The act that answers with what the walk leads to."""
    last = len(walk) - 1
    return Act("answer", last, len(walk[last].relations) - 1, format_answer([walk[last].names[-1]]))


def oracle_plan(walk: NamedWalk) -> list[Act]:
    """The acts that walk straight to the answer: per hop relations, then triples; at last the answer."""
    plan = []
    for b, branch in enumerate(walk):
        for hop in range(len(branch.relations)):
            plan += [explore(walk, b, hop), follow(walk, b, hop)]
    return [*plan, answer(walk)]


def _recovery(state: State) -> Act:
    """What a mistake's turn should have been, except that an unseen relation asks for the relations first."""
    asks_triples = state.mistake in ("wrong_relation", "wrong_entity") or (
        state.mistake == "bad_query" and "triple" in state.turns[-1].action.partition("(")[0]
    )
    make = follow if asks_triples else explore
    return make(state.walk, state.branch, state.hop, after=state.mistake)
