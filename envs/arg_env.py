"""One question as an episode of ArG's protocol: paragraphs are put into what the model writes (ArG, Algorithm 1).

Linear decoding steps through it; the tree searches (`graphwalker.search.arg`) ask it for topics, relations and ends.
"""

import copy
from collections.abc import Sequence
from typing import Any, Self

from envs.kg_env import Reward
from graphwalker.errors import KGUnavailable
from graphwalker.kg.hops import Edge, Ends
from graphwalker.protocol.escape import sound
from graphwalker.protocol.prompts import Prompt
from graphwalker.protocol.reflection import (
    NO_RETRIEVAL,
    PARAGRAPH,
    PARAGRAPH_END,
    PROTOCOL,
    RETRIEVE_ENTITY,
    RETRIEVE_RELATION,
    UNRELEVANT,
    ReflectionPath,
    Retrieved,
    messages,
    parse,
    write_name,
)
from graphwalker.rewards import em
from graphwalker.search.arg_hop import Topic
from graphwalker.tools.observation import outage
from graphwalker.tools.paths import PathTools
from graphwalker.types import Ending, Entity, Question, Status, Trajectory, Turn


class ArgEnv:
    """A knowledge graph that gives a model the paragraphs that it asks for, along one path.

    Action: what the model writes up to one of `stops`, that token included, or to its end.
    Observation: `reset` gives the user's message; `step` what goes on from the model's own text, without a break: the
    paragraph, or [No Retrieval] where the model has ended without an answer, which must then follow; "" once the
    episode is over.
    A relation is the retriever's best for the question, an entity the first end of it by name where the path has not
    been; the path starts from the first topic entity that the graph knows.
    Reward: ``reward(answer, gold)`` in [0, 1] with the answer, 0 in every other turn.
    Episode end: terminated by an answer and its utility; truncated when turn `max_turns` has none, when there is
    nothing to retrieve and the model does not answer, or when the graph is out of order (ending ``"outage"``). No
    random numbers are drawn.
    """

    role = "inline"
    """Observations go on from the model's text: no message stands around them."""
    stops = (PARAGRAPH, UNRELEVANT)
    """The tokens that end a turn, beside the end of the message."""

    def __init__(
        self, tools: PathTools, *, prompt: Prompt | None = None, reward: Reward = em, max_turns: int = 10
    ) -> None:
        if max_turns < 2:
            raise ValueError("max_turns must be at least 2: one paragraph and the answer")
        self.tools, self.max_turns = tools, max_turns
        self.prompt = prompt or Prompt("compact")
        self._reward = reward
        self._question: Question | None = None
        self._turns: list[Turn] = []
        self._answer: tuple[str, ...] | None = None
        self._ending: Ending | None = None
        self._outage = ""
        self._message = ""  # the model's text and the paragraphs in it
        self._nodes: list[str] = []  # where the path has been, as ids
        self._relation = ""  # the last one that was given

    @property
    def toolbox(self) -> PathTools:
        return self.tools

    @property
    def over(self) -> bool:
        """Whether the next call must be `reset`."""
        return self._question is None or self._ending is not None

    @property
    def waits(self) -> bool:
        """Whether a step may wait on a network: then it is worth running several episodes' steps at a time."""
        return self.tools.store.remote

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode on ``options["question"]``; `seed` is accepted and changes nothing."""
        question = (options or {}).get("question")
        if not isinstance(question, Question):
            raise ValueError('reset needs options={"question": Question(...)}')
        self._question, self._message, self._relation, self._nodes = question, "", "", []
        self._turns, self._answer, self._ending, self._outage = [], None, None, ""
        topics = self.topics()
        self._nodes = [topics[0].entity] if topics else []
        prompt = topics[0].prompt if topics else self.prompt.text(question)
        return prompt, {"question_id": question.id, "turns": 0}

    def fork(self) -> Self:
        """An episode that stands where this one does; what happens in one does not change the other."""
        other = copy.copy(self)
        other._turns, other._nodes = list(self._turns), list(self._nodes)
        return other

    # What a tree search asks (`graphwalker.search.arg_hop.ArgEpisode`).

    def topics(self) -> list[Topic]:
        """The topic entities that the graph knows, each once, with the message that opens a path from it."""
        assert self._question is not None
        found: dict[str, Topic] = {}
        for entity in self._question.topic_entities:
            node = self.tools.node_of(entity)
            if node is not None and node not in found:
                found[node] = Topic(node, entity.name, self._opening(entity))
        return list(found.values())

    def retrieve(self, entity: str, hypothesis: str, *, query: bool, k: int) -> list[str]:
        """See `graphwalker.search.arg_hop.ArgEpisode`: the hypothesis' best first, then in turn with the question's."""
        assert self._question is not None
        asked = [self._question.text] if query or not hypothesis else []
        return self.tools.retrieve(entity, [hypothesis, *asked] if hypothesis else asked, k)

    def ends(self, entity: str, edge: Edge, limit: int, without: Sequence[str] = ()) -> Ends:
        return self.tools.ends(entity, edge, limit, without)

    # Linear decoding.

    def step(self, text: str, truncated_turn: bool = False) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take one turn; `truncated_turn` says that the model's text was cut at its token cap.

        Raises `RuntimeError` before `reset` and after the end.
        """
        if self.over:
            raise RuntimeError("the episode is over (or has not begun): call reset first")
        text = sound(text)
        self._message += text
        path = parse(self._message).path
        if path.utility is not None:
            return self._answered(text, path)
        observation, action, status = self._observe(text, path, truncated_turn)
        if self._outage or len(self._turns) + 1 == self.max_turns or not observation:
            self._ending = "outage" if self._outage else "budget"
            observation = ""
        self._message += observation
        self._turns.append(Turn(text, "", "query" if action else "none", action, observation, status))
        return observation, 0.0, False, self.over, self._info(status)

    def trajectory(self) -> Trajectory:
        """The episode so far; one that is still running has the ending ``"budget"``.

        ``extra["outage"]`` is the kind of the outage that ended it.
        """
        if self._question is None:
            raise RuntimeError("no episode has begun: call reset first")
        extra = {"protocol": PROTOCOL, **({"outage": self._outage} if self._outage else {})}
        return Trajectory(self._question, tuple(self._turns), self._answer, self._ending or "budget", extra=extra)

    def _opening(self, entity: Entity) -> str:
        assert self._question is not None
        return messages(self._question, entity, self.prompt)[0]["content"]

    def _observe(self, text: str, path: ReflectionPath, cut: bool) -> tuple[str, str, Status]:
        """What goes on from the text ("" for nothing), the retrieval token that it answers, and what it means."""
        last = path.steps[-1] if path.steps else None
        if path.answers is not None or cut:
            return "", "", "truncated" if cut else "no_action"
        if not text.endswith(PARAGRAPH) or last is None or last.name not in (None, ""):
            return NO_RETRIEVAL, "", "no_action"  # the model ended, or judged what it got unrelevant
        action = RETRIEVE_RELATION if last.kind == "relation" else RETRIEVE_ENTITY
        try:
            name = self._next(last)
        except KGUnavailable as problem:
            said = outage(problem)
            self._outage = said.outage
            return "", action, said.status
        return ("", action, "empty") if name is None else (write_name(name) + PARAGRAPH_END, action, "ok")

    def _next(self, wanted: Retrieved) -> str | None:
        """The relation or the entity that the path goes on with; ``None`` where there is none."""
        assert self._question is not None
        if not self._nodes:
            return None
        if wanted.kind == "relation":
            found = self.tools.retrieve(self._nodes[-1], [self._question.text], 1)
            self._relation = found[0] if found else ""
            return self._relation or None
        if not self._relation:
            return None
        ends = self.tools.follow(self._nodes[-1], self._relation, self._nodes)
        if not ends.nodes:
            return None
        self._nodes.append(ends.nodes[0])
        return ends.names[0]

    def _answered(self, text: str, path: ReflectionPath) -> tuple[str, float, bool, bool, dict[str, Any]]:
        assert self._question is not None and path.answers is not None
        self._answer, self._ending = tuple(dict.fromkeys(path.answers)), "answered"
        self._turns.append(Turn(text, "", "answer", text.rpartition(NO_RETRIEVAL)[2] or text))
        return "", float(self._reward(self._answer, self._question.answers)), True, False, self._info("ok")

    def _info(self, status: Status) -> dict[str, Any]:
        info: dict[str, Any] = {"status": status, "turns": len(self._turns), "outage": self._ending == "outage"}
        return info | ({"ending": self._ending, "message": ""} if self._ending is not None else {})
