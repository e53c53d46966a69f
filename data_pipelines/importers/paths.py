"""Gold relation paths walked on a KG, to see what a question's gold is worth there.

A path is a sequence of hops as in ``Question.paths``: ``r``, ``^r`` against its direction, ``r1.r2`` through a
mediator (both edges in one direction).
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

from graphwalker.kg.store import KGStore
from graphwalker.types import Parse, Question

EXACT = "exact"
PART = "part"
OTHER = "other"
UNKNOWN = "unknown"

LeaveOut = Literal["always", "end", "never"]
CONSTRAINTS = "+constraints"
"""Ends the ``structure`` of a question whose paths alone can lead to more than its gold."""

CLOSED_WORLD = "-closed-world"
"""Ends the ``dataset`` of a question whose gold was recomputed on a KG."""

# At how many hops MetaQA's gold leaves the topic entity out: at one hop a film can have a tag of its own name.
_METAQA: dict[int, LeaveOut] = {1: "never", 2: "end", 3: "always"}
# Whose published gold has the topic entity, too, where the path leads back to it (PathQuestion: all 7,106 questions).
_NEVER = frozenset({"pathquestion", "kqapro", "lcquad1", "lcquad2", "qald"})


def leave_out(question: Question | Parse) -> LeaveOut:
    """Where a data set's gold leaves the topic entity out of what a path leads to."""
    if isinstance(question, Parse):
        return "always"  # only WebQSP has several
    dataset = question.dataset.removesuffix(CLOSED_WORLD)
    if dataset == "metaqa":
        return _METAQA.get(question.hops or 0, "always")
    return "never" if dataset in _NEVER else "always"


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
        for first, second in halves(relation):
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
            hop = chain[position]
            if position + 1 < len(chain) and self._leads_to_mediators(frontier, hop):
                joined = self._joined(hop, chain[position + 1])
                position += joined != hop
                hop = joined
            hops.append(hop)
            frontier = {end for node in frontier for end in self.follow(node, hop)} - {start}
            position += 1
        return tuple(hops)

    def _leads_to_mediators(self, frontier: Iterable[str], hop: str) -> bool:
        relation = hop.removeprefix("^")
        middles = {
            edge.head if hop.startswith("^") else edge.tail
            for node in frontier
            for edge in (
                self.store.match(relation=relation, tail=node)
                if hop.startswith("^")
                else self.store.match(head=node, relation=relation)
            )
        }
        return bool(middles) and all(map(self.store.is_mediator, middles))

    def _joined(self, first: str, second: str) -> str:
        """Two edges around a mediator as one hop. A flattened relation keeps one direction: where the edges do not, one
        gives way to its declared reverse; ``first`` alone comes back where it has none."""
        if first.startswith("^") and second.startswith("^"):
            return f"^{second[1:]}.{first[1:]}"
        if not first.startswith("^") and not second.startswith("^"):
            return f"{first}.{second}"
        if first.startswith("^"):
            reverse = self._reverse(first[1:])
            return f"{reverse}.{second}" if reverse else first
        reverse = self._reverse(second[1:])
        return f"{first}.{reverse}" if reverse else first

    def _reverse(self, relation: str) -> str:
        declared = (
            edge.tail if edge.head == relation else edge.head
            for predicate in self.store.schema.reverse_predicates
            for pattern in ({"head": relation}, {"tail": relation})
            for edge in self.store.match(relation=predicate, **pattern)
        )
        return min(declared, default="")

    def ends(self, question: Question | Parse) -> set[str]:
        """Where all paths of a question lead together; empty without one path for each topic with an id."""
        topics = [topic.id for topic in question.topic_entities]
        if not question.paths or None in topics or len(topics) != len(question.paths):
            return set()
        left_out = leave_out(question)
        pairs = zip(topics, question.paths, strict=True)
        return set.intersection(*(self.walk(topic, path, left_out) for topic, path in pairs if topic is not None))

    def judge(self, question: Question) -> str:
        """How the gold stands to what its path gives: ``EXACT``, ``PART`` (gold is a true subset) or ``OTHER``.

        ``UNKNOWN`` without a path, a topic's id, or an id for every answer.
        """
        gold = {answer.id for answer in question.answers}
        topics = [topic.id for topic in question.topic_entities]
        if not question.paths or None in topics or None in gold or len(topics) != len(question.paths):
            return UNKNOWN
        found = self.ends(question)
        return EXACT if found == gold else PART if gold < found else OTHER


def halves(relation: str) -> Iterable[tuple[str, str]]:
    """Every way to cut a flattened relation in two at a dot (the halves of a Freebase one hold two dots each)."""
    parts = relation.split(".")
    return [(".".join(parts[:i]), ".".join(parts[i:])) for i in range(1, len(parts))]
