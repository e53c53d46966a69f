"""Gold paths as the SPARQL that says the same."""

from collections.abc import Sequence

from data_pipelines.importers.paths import PathWalker, halves, leave_out
from graphwalker.kg.store import KGStore
from graphwalker.types import Question

_FRONTIER = 50  # nodes of a hop at which its halves are looked for


class NotWalkable(ValueError):
    """Why a query cannot be walked, in plain words."""


def gold_sparql(question: Question, store: KGStore) -> str:
    """A question's gold SPARQL, or what its gold paths say; raises `NotWalkable` where it has neither."""
    sparql = question.sparql or query_of_paths(question, store)
    if not sparql:
        raise NotWalkable("it has neither SPARQL nor a gold path for each topic")
    return sparql


def query_of_paths(question: Question, store: KGStore) -> str:
    """SPARQL for the gold paths of a question, "" without one for each topic with an id.

    What a data set leaves out of its gold (the topic itself, where a path comes back to it) a filter leaves out.
    """
    topics = [topic.id for topic in question.topic_entities]
    if not topics or None in topics or len(topics) != len(question.paths):
        return ""
    lines: list[str] = []
    left_out, numbers = leave_out(question), iter(range(1, 1000))
    for topic, path in zip(topics, question.paths, strict=True):
        assert topic is not None
        start = near = f"<{store.schema.expand(topic)}>"
        edges = 0
        for place, hop in enumerate(path, 1):
            parts = _hop_parts(store, topic, path[:place])
            far = "?x" if place == len(path) else f"?y{next(numbers)}"
            nodes = [near, f"?c{next(numbers)}", far] if len(parts) > 1 else [near, far]
            for relation, a, b in zip(parts, nodes, nodes[1:], strict=False):
                subject, end = (b, a) if hop.startswith("^") else (a, b)
                lines.append(f"{subject} <{store.schema.expand(relation)}> {end} .")
            edges += len(parts)
            if edges > 1 and (left_out == "always" or (left_out == "end" and far == "?x")):
                lines.append(f"FILTER(?x != {start})" if far == "?x" else f"FILTER({far} != {start})")
            near = far
    return f"SELECT DISTINCT ?x WHERE {{ {' '.join(lines)} }}"


def _hop_parts(store: KGStore, topic: str, path: Sequence[str]) -> tuple[str, ...]:
    """The last hop of a path as the edges it is made of, in the order in which they are walked."""
    relation, inverse = path[-1].removeprefix("^"), path[-1].startswith("^")
    ways = [(relation,), *halves(relation)]
    for node in sorted(PathWalker(store).walk(topic, path[:-1]))[:_FRONTIER]:
        for way in ways:
            first = way[-1] if inverse else way[0]
            edges = store.match(relation=first, tail=node) if inverse else store.match(head=node, relation=first)
            middles = [edge.head if inverse else edge.tail for edge in edges]
            if len(way) == 1 and any(not store.is_mediator(middle) for middle in middles):
                return way
            if len(way) == 2 and any(map(store.is_mediator, middles)):
                return way[::-1] if inverse else way
    raise NotWalkable("its gold path leads nowhere")
