"""The tools within one episode: what was shown so far decides what may be asked and whom a name means."""

from copy import copy
from typing import TYPE_CHECKING

from graphwalker.errors import KGUnavailable
from graphwalker.protocol.parse import GET_RELATIONS, QueryError, parse_query
from graphwalker.tools.observation import Observation, echo, error, outage, unknown_entity
from graphwalker.types import Question

if TYPE_CHECKING:
    from graphwalker.tools.toolbox import Toolbox


class ToolSession:
    """Runs the queries of one episode.

    A name means the topic entity that bears it; else the entity that the latest observation with this name showed, so
    that the walk stays on it; else what `Toolbox.resolve` says.
    """

    def __init__(self, toolbox: "Toolbox", question: Question | str):
        self._toolbox = toolbox
        self._question = question if isinstance(question, str) else question.text
        entities = () if isinstance(question, str) else question.topic_entities
        self._topics = {entity.name: entity.id for entity in reversed(entities) if entity.id}
        self._seen: dict[str, str] = {}
        self._shown: dict[str, set[str]] = {}

    def fork(self) -> "ToolSession":
        """A session that knows what this one does; neither sees what the other is shown from here on."""
        twin = copy(self)
        twin._seen = dict(self._seen)
        twin._shown = {node: set(relations) for node, relations in self._shown.items()}
        return twin

    def run(self, query_text: str) -> Observation:
        """The observation for the raw text between the query tags; every problem is an observation too."""
        query = parse_query(query_text)
        if isinstance(query, QueryError):
            return error(query.message, "bad_query")
        try:
            node = self.resolve(query.entity)
            if node is None:
                return unknown_entity(query.entity)
            if query.tool == GET_RELATIONS:
                return self._relations(node)
            return self._triples(node, query.relations)
        except KGUnavailable as problem:
            return outage(problem)

    def resolve(self, name: str) -> str | None:
        """The id a name stands for in this episode."""
        topic = self._topics.get(name)
        if topic is not None and self._toolbox.store.has_node(topic):
            return topic
        return self._seen.get(name) or self._toolbox.resolve(name)

    def _relations(self, node: str) -> Observation:
        observation = self._toolbox.relations_at(node, self._question)
        self._shown.setdefault(node, set()).update(observation.relations)
        return observation

    def _triples(self, node: str, relations: tuple[str, ...]) -> Observation:
        if self._toolbox.strict:
            shown = self._shown.get(node) or set()
            unseen = [r for r in relations[: self._toolbox.max_relations] if r not in shown]
            if unseen:
                problem = f"get_relations has not shown {echo(unseen[0])} for this entity. "
                advice = "Copy relations from its list." if shown else "Call get_relations on it first."
                return error(problem + advice, "refused")
        triples = self._toolbox.triples_at(node, relations)
        self._seen.update(triples.ids)
        return triples.observation
