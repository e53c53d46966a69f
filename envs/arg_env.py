"""One question as an episode of ArG's protocol: paragraphs are put into what the model writes (ArG, Algorithm 1).

Linear decoding steps through it; the tree searches (`graphwalker.search.arg`) ask it for topics, relations and ends.
"""

from collections.abc import Sequence
from typing import Any, Self

from envs.episode import EpisodeEnv, Reward, Step
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
from graphwalker.types import Entity, Question, Status, Turn


class ArgEnv(EpisodeEnv):
    """A knowledge graph that gives a model the paragraphs that it asks for, along one path.

    Action: what the model writes up to one of `stops`, that token included, or to its end.
    Observation: `reset` gives the user's message; `step` what goes on from the model's own text, without a break: the
    paragraph, or [No Retrieval] where the model has ended without an answer, which must then follow; "" once the
    episode is over.
    A relation is the retriever's best for the question, an entity the first end of it by name where the path has not
    been; the path starts from the first topic entity that the graph knows.
    Reward and ends are those of every `EpisodeEnv`; an answer comes with its utility, and an episode is truncated too
    when there is nothing to retrieve and the model does not answer.
    """

    role = "inline"
    """Observations go on from the model's text: no message stands around them."""
    stops = (PARAGRAPH, UNRELEVANT)
    """The tokens that end a turn, beside the end of the message."""

    def __init__(
        self, tools: PathTools, *, prompt: Prompt | None = None, reward: Reward = em, max_turns: int = 10
    ) -> None:
        super().__init__(tools.store, prompt or Prompt("compact"), reward, max_turns)
        self.toolbox = tools
        self._message = ""  # the model's text and the paragraphs in it
        self._nodes: list[str] = []  # where the path has been, as ids
        self._relation = ""  # the last one that was given

    def fork(self) -> Self:
        """An episode that stands where this one does; what happens in one does not change the other."""
        twin = super().fork()
        twin._nodes = list(self._nodes)
        return twin

    def _begun(self, question: Question) -> str:
        self._message, self._relation = "", ""
        topics = self.topics()
        self._nodes = [topics[0].entity] if topics else []
        return topics[0].prompt if topics else super()._begun(question)

    def _extra(self) -> dict[str, Any]:
        return {"protocol": PROTOCOL}

    # What a tree search asks (`graphwalker.search.arg_hop.ArgEpisode`).

    def topics(self) -> list[Topic]:
        """The topic entities that the graph knows, each once, with the message that opens a path from it."""
        found: dict[str, Topic] = {}
        for entity in self._asked.topic_entities:
            node = self.toolbox.node_of(entity)
            if node is not None and node not in found:
                found[node] = Topic(node, entity.name, self._opening(entity))
        return list(found.values())

    def retrieve(self, entity: str, hypothesis: str, *, query: bool, k: int) -> list[str]:
        """See `graphwalker.search.arg_hop.ArgEpisode`: the hypothesis' best first, then in turn with the question's."""
        asked = [self._asked.text] if query or not hypothesis else []
        return self.toolbox.retrieve(entity, [hypothesis, *asked] if hypothesis else asked, k)

    def ends(self, entity: str, edge: Edge, limit: int, without: Sequence[str] = ()) -> Ends:
        return self.toolbox.ends(entity, edge, limit, without)

    # Linear decoding.

    def _step(self, text: str, truncated_turn: bool) -> Step:
        text = sound(text)
        self._message += text
        path = parse(self._message).path
        if path.answers is not None and path.utility is not None:
            turn = Turn(text, "", "answer", text.rpartition(NO_RETRIEVAL)[2] or text)
            return self._answered(turn, tuple(dict.fromkeys(path.answers)))
        observation, action, status = self._observe(text, path, truncated_turn)
        if self._outage or self._is_last or not observation:
            self._ending = "outage" if self._outage else "budget"
            observation = ""
        self._message += observation
        return self._went_on(Turn(text, "", "query" if action else "none", action, observation, status))

    def _opening(self, entity: Entity) -> str:
        return messages(self._asked, entity, self.prompt)[0]["content"]

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
        if not self._nodes:
            return None
        if wanted.kind == "relation":
            found = self.toolbox.retrieve(self._nodes[-1], [self._asked.text], 1)
            self._relation = found[0] if found else ""
            return self._relation or None
        if not self._relation:
            return None
        ends = self.toolbox.follow(self._nodes[-1], self._relation, self._nodes)
        if not ends.nodes:
            return None
        self._nodes.append(ends.nodes[0])
        return ends.names[0]
