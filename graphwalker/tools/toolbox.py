"""GraphWalker's two tools over any store (appendix F): get_relations and get_triples, with name resolution.

The same retrieval runs in synthesis, training and inference. What a call returns depends on the question, the entity
and the relations alone, never on earlier calls.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

from graphwalker.errors import KGUnavailable
from graphwalker.kg.store import KGStore
from graphwalker.protocol.escape import escape_name
from graphwalker.protocol.render import NO_RELATIONS, NO_TRIPLES
from graphwalker.tools.observation import Observation, Triples, echo, error, outage, unknown_entity
from graphwalker.tools.ranking import RelationRanker
from graphwalker.tools.session import ToolSession
from graphwalker.types import Question

Reranker = Callable[[str, list[str]], list[str]]
"""Given the question and ranked relations, the same relations in a better order (for instance by an LLM)."""


def resolve(store: KGStore, name: str) -> str | None:
    """The id of a name: exactly (most types first), else without case, else an id as it stands."""
    for ignore_case in (False, True):
        found = store.named(name, ignore_case=ignore_case)
        if found:
            return found[0]
    return name if not name.startswith('"') and store.has_node(name) else None


class Toolbox:
    """The tools over one store; share it between episodes, its caches are bounded by `cache_size` entries each.

    `top_k` relations are shown, `triples_per_relation` triples for each of the first `max_relations` relations asked.
    `strict` sessions refuse relations that get_relations has not shown for the entity.
    """

    def __init__(
        self,
        store: KGStore,
        *,
        top_k: int = 20,
        triples_per_relation: int = 5,
        max_relations: int = 4,
        strict: bool = True,
        reranker: Reranker | None = None,
        cache_size: int = 16_384,
    ):
        if min(top_k, triples_per_relation, max_relations) < 1:
            raise ValueError("top_k, triples_per_relation and max_relations must be at least 1")
        self.store, self.top_k, self.strict = store, top_k, strict
        self.triples_per_relation, self.max_relations = triples_per_relation, max_relations
        self.ranker = RelationRanker(store.vocabulary())
        self._reranker = reranker
        cached = lru_cache(maxsize=cache_size)
        self.resolve = cached(self._resolve)
        self.relations_at = cached(self._relations_at)
        self._incident = cached(self._incident_to)
        self._triples = cached(self._triples_at)
        self._relation = cached(escape_name)

    def _resolve(self, name: str) -> str | None:
        return resolve(self.store, name)

    def get_relations(self, entity: str, question: str) -> Observation:
        """The relations of the entity of this name, best first."""
        return self._at(entity, lambda node: self.relations_at(node, question))

    def get_triples(self, entity: str, relations: Sequence[str], question: str = "") -> Observation:
        """The triples of the entity of this name; which are shown does not depend on the question."""
        return self._at(entity, lambda node: self.triples_at(node, tuple(relations)).observation)

    def session(self, question: Question | str) -> ToolSession:
        """The tools for one episode."""
        return ToolSession(self, question)

    def unknown_topics(self, question: Question) -> list[str]:
        """The names of topic entities that the graph does not know, by id or by name."""
        return [
            entity.name
            for entity in question.topic_entities
            if not (entity.id and self.store.has_node(entity.id)) and self.resolve(entity.name) is None
        ]

    def _relations_at(self, node: str, question: str) -> Observation:
        """get_relations by id. Raises `KGUnavailable`."""
        ranked = self.ranker.rank(question, self._incident(node))
        if not ranked:
            return Observation(NO_RELATIONS, "empty")
        if self._reranker is not None:
            chosen = [relation for relation in self._reranker(question, list(ranked)) if relation in set(ranked)]
            ranked = list(dict.fromkeys(chosen + ranked))
        shown = tuple(ranked[: self.top_k])
        lines = list(map(self._relation, shown))
        if len(ranked) > len(shown):
            lines.append(f"... {len(ranked) - len(shown)} more relations")
        return Observation("\n".join(lines), "ok", shown)

    def triples_at(self, node: str, relations: tuple[str, ...]) -> Triples:
        """get_triples by id: of the first `max_relations` different relations. Raises `KGUnavailable`."""
        return self._triples(node, tuple(dict.fromkeys(relations)))

    def _incident_to(self, node: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(step.relation for step in self.store.steps(node)))

    def _triples_at(self, node: str, relations: tuple[str, ...]) -> Triples:
        run = relations[: self.max_relations]
        expansions = self.store.expand(node, run, self.triples_per_relation)
        nodes = list({end: None for e in expansions for t in e.triples for end in (t.head, t.tail)})
        labels = {end: end if name is None else name for end, name in zip(nodes, self.store.names(nodes), strict=True)}
        printed = {end: escape_name(label) for end, label in labels.items()}
        lines: list[str] = []
        for expansion in expansions:
            lines += [
                f"[{printed[t.head]}, {self._relation(t.relation)}, {printed[t.tail]}]" for t in expansion.triples
            ]
            if expansion.total > len(expansion.triples):
                more = expansion.total - len(expansion.triples)
                least = "at least " if expansion.capped else ""
                lines.append(f"... {least}{more} more triples of {self._relation(expansion.relation)}")
        if not lines:
            return Triples(self._no_triples(node, run), {})
        if len(relations) > len(run):
            lines.append(f"... {len(relations) - len(run)} more relations were not run, {self.max_relations} at most")
        # The first node shown under a name is the one that the name means; the entity asked about comes before all.
        ids = {labels[end]: end for end in [*reversed(nodes), node] if end in labels and not end.startswith('"')}
        return Triples(Observation("\n".join(lines)), ids)

    def _no_triples(self, node: str, relations: tuple[str, ...]) -> Observation:
        incident = self._incident(node)
        unknown = [relation for relation in relations if relation not in incident]
        if len(unknown) == len(relations):
            problem = f"the entity has no relation {echo(unknown[0])}. Copy relations from get_relations."
            return error(problem, "unknown_relation")
        return Observation(NO_TRIPLES, "empty")

    def _at(self, entity: str, call: Callable[[str], Observation]) -> Observation:
        try:
            node = self.resolve(entity)
            return unknown_entity(entity) if node is None else call(node)
        except KGUnavailable as problem:
            return outage(problem)
