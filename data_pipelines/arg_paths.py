"""All shortest paths between a topic entity and an answer: ArG's weak supervision (section 4.1, after RoG).

Paths are of single edges walked both ways, mediators among their nodes (`graphwalker.kg.hops`). The search runs from
both ends and is bounded: a node with more neighbours than ``hub`` can begin or end a path and is not walked through, so
that no path says more of a hub than of the question.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from data_pipelines.importers.paths import PathWalker
from graphwalker.kg.hops import Edge, Hops

_KEPT = 100_000  # nodes whose neighbours are remembered
NO_PATH = "no path from the topic to the answer"
NO_PATH_BUT_HUBS = "no path from the topic to the answer but perhaps through hubs, where none is looked for"
SAME = "the answer is the topic itself"


@dataclass(frozen=True, slots=True, order=True)
class Hop:
    """An edge and the id of the node it leads to."""

    edge: Edge
    node: str


Path = tuple[Hop, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The shortest paths, sorted, at most ``most`` of them; without any, ``why`` says why."""

    paths: tuple[Path, ...] = ()
    why: str = ""


@dataclass
class _Side:
    """The levels of a search from one end: a node's place, and what lies before it, nearer to that end."""

    place: dict[str, int]
    before: dict[str, set[str]]
    frontier: list[str]
    depth: int = 0


class PathSearch:
    """Shortest paths on one KG. ``max_hops`` edges at most; of one pair no more than ``most`` paths are given.

    Every method raises `KGUnavailable` when the graph is out of order.
    """

    def __init__(self, hops: Hops, *, max_hops: int = 4, hub: int = 1000, most: int = 1000):
        self.hops, self.max_hops, self.hub, self.most = hops, max_hops, hub, most
        self.store = hops.store
        self.walker = PathWalker(self.store)  # of gold paths, which cross mediators
        self._neighbours = lru_cache(_KEPT)(self._find_neighbours)
        self._edges_to = lru_cache(_KEPT)(self._find_edges)

    def paths(self, topic: str, answer: str) -> Found:
        """All shortest paths of one pair of nodes."""
        if topic == answer:
            return Found(why=SAME)
        if self._edges_to(topic, answer):  # found between hubs, too
            return Found(tuple((Hop(edge, answer),) for edge in self._edges_to(topic, answer))[: self.most])
        start, end = (_Side({node: 0}, {}, [node]) for node in (topic, answer))
        while start.depth + end.depth < self.max_hops:
            ways = [side for side in (start, end) if side.frontier]
            open_ = [side for side in ways if any(self._neighbours(node) is not None for node in side.frontier)]
            if not open_:
                break
            self._expand(min(open_, key=lambda side: len(side.frontier)))
            meeting = start.place.keys() & end.place.keys()
            if meeting := {node for node in meeting if node in (topic, answer) or self._neighbours(node) is not None}:
                found = tuple(islice(self._between(topic, start, end, meeting), self.most))
                return Found(found) if found else Found(why=NO_PATH)
        hubs = any(self._neighbours(node) is None for side in (start, end) for node in side.place)
        return Found(why=NO_PATH_BUT_HUBS if hubs else NO_PATH)

    def tails(self, node: str, edge: Edge) -> list[str]:
        """Where an edge leads, sorted; of a hub's, which the store gives in its own order, the first ``hub`` ones."""
        return self.hops.tails(node, edge, self.hub)

    def reached(self, topic: str, edges: Sequence[Edge]) -> set[str]:
        """The nodes that a sequence of edges leads to, followed from at most ``hub`` nodes a hop."""
        frontier = {topic}
        for edge in edges:
            frontier = {end for node in sorted(frontier)[: self.hub] for end in self.tails(node, edge)}
        return frontier

    def _expand(self, side: _Side) -> None:
        side.depth += 1
        found: dict[str, set[str]] = {}
        for node in side.frontier:
            for other in self._neighbours(node) or ():
                if other not in side.place:
                    found.setdefault(other, set()).add(node)
        side.place.update(dict.fromkeys(found, side.depth))
        side.before.update(found)
        side.frontier = sorted(found)

    def _between(self, topic: str, start: _Side, end: _Side, meeting: set[str]) -> Iterator[Path]:
        """The paths over the meeting nodes that are nearest, in order."""
        shortest = min(start.place[node] + end.place[node] for node in meeting)
        after: dict[str, set[str]] = {}
        todo = [node for node in meeting if start.place[node] + end.place[node] == shortest]
        forward = list(todo)
        while todo:  # from where the two sides meet back to the topic
            node = todo.pop()
            for before in start.before.get(node, ()):
                if before not in after:
                    todo.append(before)
                after.setdefault(before, set()).add(node)
        while forward:  # and on to the answer
            node = forward.pop()
            if node not in after:
                after[node] = end.before.get(node, set())
                forward.extend(after[node])
        yield from self._walk(topic, after, shortest)

    def _walk(self, node: str, after: dict[str, set[str]], left: int) -> Iterator[Path]:
        if not left:
            yield ()
            return
        for other in sorted(after.get(node, ())):
            for edge in self._edges_to(node, other):
                for rest in self._walk(other, after, left - 1):
                    yield (Hop(edge, other), *rest)

    def _find_neighbours(self, node: str) -> frozenset[str] | None:
        """The nodes one visible edge away; ``None`` of a hub."""
        visible = self.store.schema.is_visible
        ways = (
            [self.store.match(tail=node)] if node[:1] == '"' else [self.store.match(node), self.store.match(tail=node)]
        )
        found: set[str] = set()
        for triples in ways:
            near = (t for t in triples if visible(t.relation))
            found |= {t.tail if t.head == node else t.head for t in islice(near, self.hub + 1)}
        return None if len(found) > self.hub else frozenset(found - {node})

    def _find_edges(self, node: str, other: str) -> tuple[Edge, ...]:
        """The hops from one node that lead to the other, sorted."""
        if node[:1] == '"':
            return ()
        out = {(t.relation, False) for t in self.store.match(node, None, other)}
        back = {(t.relation, True) for t in self.store.match(other, None, node)} if other[:1] != '"' else set()
        return tuple(edge for edge in self.hops.edges(node) if edge in out or edge in back)
