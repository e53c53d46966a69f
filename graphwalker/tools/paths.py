"""What ArG's paths ask of a graph: topic entities, candidate relations by a retriever, and where a relation leads."""

from collections.abc import Sequence
from functools import lru_cache

from graphwalker.kg.hops import Edge, Ends, Hops
from graphwalker.kg.store import KGStore
from graphwalker.protocol.reflection import read_relation, write_relation
from graphwalker.tools.retriever import BM25Retriever, Retriever, candidates
from graphwalker.tools.toolbox import resolve
from graphwalker.types import Entity, Question


class PathTools:
    """Hops over one store; share it between episodes, its caches are bounded. Methods raise `KGUnavailable`."""

    def __init__(self, store: KGStore, retriever: Retriever | None = None):
        self.store, self.hops = store, Hops(store)
        self.retriever: Retriever = retriever or BM25Retriever()
        self._resolve = lru_cache(4096)(lambda name: resolve(store, name))

    def node_of(self, entity: Entity) -> str | None:
        """The id of an entity: its own where the graph has it, else what its name stands for."""
        if entity.id and self.store.has_node(entity.id):
            return entity.id
        return self._resolve(entity.name)

    def unknown_topics(self, question: Question) -> list[str]:
        """The names of topic entities that the graph does not know, by id or by name."""
        return [entity.name for entity in question.topic_entities if self.node_of(entity) is None]

    def relations(self, node: str) -> list[str]:
        """The relations at a node, both ways, as `write_relation` gives them, sorted."""
        return [write_relation(relation, inverse) for relation, inverse in self.hops.edges(node)]

    def retrieve(self, node: str, queries: Sequence[str], k: int) -> list[str]:
        """The ``k`` best relations of a node for all queries together (`graphwalker.tools.retriever.candidates`).

        A query that is a relation of the node is its own best.
        """
        return candidates(_Exact(self.retriever), queries, self.relations(node), k)

    def ends(self, node: str, edge: Edge, limit: int, without: Sequence[str] = ()) -> Ends:
        """Where a relation leads, what a path has been to left out: see `Hops.ends`."""
        return self.hops.ends(node, edge, limit, without)

    def follow(self, node: str, relation: str, without: Sequence[str] = ()) -> Ends:
        """The first end of a relation as `write_relation` gives it."""
        return self.ends(node, read_relation(relation), 1, without)


class _Exact:
    """A retriever for which a relation's very name is the best query for it."""

    def __init__(self, retriever: Retriever):
        self.retriever = retriever

    def rank(self, query: str, relations: Sequence[str]) -> list[str]:
        ranked = self.retriever.rank(query, relations)
        return [query, *(relation for relation in ranked if relation != query)] if query in ranked else ranked
