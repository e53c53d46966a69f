"""Gold relation paths walked on a KG, to see what a question's gold is worth there.

A path is a sequence of hops as in ``Question.paths``: ``r``, ``^r`` against its direction, ``r1.r2`` through a
mediator (both edges in one direction).
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

from graphwalker.kg.store import KGStore
from graphwalker.types import Question

EXACT = "exact"
PART = "part"
OTHER = "other"
UNKNOWN = "unknown"

LeaveOut = Literal["always", "end", "never"]


class PathWalker:
    """Walks paths on one KG; remembers the hops it has taken (bounded)."""

    def __init__(self, store: KGStore, remember: int = 200_000):
        self.store = store
        self.follow = lru_cache(remember)(self._follow)

    def walk(self, start: str, path: Sequence[str], leave_out: LeaveOut = "always") -> set[str]:
        """The nodes at the end of a path; ``leave_out`` says whether the start may be met again on the way or there."""
        frontier = {start}
        for position, hop in enumerate(path, 1):
            frontier = {end for node in frontier for end in self.follow(node, hop)}
            if leave_out == "always" or (leave_out == "end" and position == len(path)):
                frontier.discard(start)
        return frontier

    def _follow(self, node: str, hop: str) -> frozenset[str]:
        relation, inverse = hop.removeprefix("^"), hop.startswith("^")
        if inverse:
            ends = {edge.head for edge in self.store.match(relation=relation, tail=node)}
        else:
            ends = {edge.tail for edge in self.store.match(head=node, relation=relation)}
        ends = {end for end in ends if not self.store.is_mediator(end)}
        return frozenset(ends | self._flattened(node, relation, inverse)) if "." in relation else frozenset(ends)

    def _flattened(self, node: str, relation: str, inverse: bool) -> set[str]:
        ends: set[str] = set()
        for first, second in _halves(relation):
            if inverse:
                middles = [edge.head for edge in self.store.match(relation=second, tail=node)]
                found = (e.head for m in middles if self._mediates(m) for e in self.store.match(relation=first, tail=m))
            else:
                middles = [edge.tail for edge in self.store.match(head=node, relation=first)]
                found = (
                    e.tail for m in middles if self._mediates(m) for e in self.store.match(head=m, relation=second)
                )
            ends.update(found)
        return ends - {node}

    def _mediates(self, node: str) -> bool:
        return self.store.is_mediator(node)

    def hops(self, start: str, chain: Sequence[str]) -> tuple[str, ...]:
        """A chain of single edges as hops: two edges with only mediators between them are one hop ``r1.r2``."""
        hops: list[str] = []
        frontier, position = {start}, 0
        while position < len(chain):
            relation = chain[position]
            middles = {edge.tail for node in frontier for edge in self.store.match(head=node, relation=relation)}
            if position + 1 < len(chain) and middles and all(map(self._mediates, middles)):
                relation = f"{relation}.{chain[position + 1]}"
                position += 1
            hops.append(relation)
            frontier = {end for node in frontier for end in self.follow(node, relation)} - {start}
            position += 1
        return tuple(hops)

    def judge(self, question: Question, leave_out: LeaveOut = "always") -> str:
        """How the gold stands to what its path gives: ``EXACT``, ``PART`` (gold is a true subset) or ``OTHER``.

        ``UNKNOWN`` without a path, a topic's id, or an id for every answer.
        """
        gold = {answer.id for answer in question.answers}
        topics = [topic.id for topic in question.topic_entities]
        if not question.paths or None in topics or None in gold or len(topics) != len(question.paths):
            return UNKNOWN
        ends = [
            self.walk(topic, path, leave_out)
            for topic, path in zip(topics, question.paths, strict=True)
            if topic is not None
        ]
        found = set.intersection(*ends)
        return EXACT if found == gold else PART if gold < found else OTHER


def _halves(relation: str) -> Iterable[tuple[str, str]]:
    """Every way to cut a flattened relation in two at a dot (the halves of a Freebase one hold two dots each)."""
    parts = relation.split(".")
    return [(".".join(parts[:i]), ".".join(parts[i:])) for i in range(1, len(parts))]
