"""GrailQA (Gu et al. 2021, arXiv:2011.07743) and GraphQuestions (Su et al. 2016, D16-1054) as ``Question`` records.

Both state the query as a graph: nodes that are classes (variables), entities or literals, and edges between them. The
topics are its entities; a literal or a function (count, argmax, >=, …) makes the path alone lead to more than the gold.
GraphQuestions gives its answers by name only.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from data_pipelines.importers.found import Found, entities, from_branches, split_of, unique
from data_pipelines.importers.patterns import Branches, branches
from data_pipelines.importers.records import Row, read_records
from graphwalker.types import Entity, Question


class Answer(msgspec.Struct):
    answer_argument: str
    answer_type: str = "Entity"
    entity_name: str | None = None


class Node(msgspec.Struct):
    nid: int
    node_type: str
    id: str
    friendly_name: str | None = None
    question_node: int = 0


class Edge(msgspec.Struct):
    start: int
    end: int
    relation: str


class Graph(msgspec.Struct):
    nodes: list[Node]
    edges: list[Edge]


class Record(msgspec.Struct):
    qid: int | str
    question: str
    answer: list[Answer | str] | None = None
    function: str = "none"
    graph_query: Graph | None = None
    sparql_query: str | None = None
    level: str | None = None
    topic_entity: dict[str, str] | None = None


def read(source: Path, split: str | None = None, *, form: str = "grailqa") -> Iterator[Found]:
    """Yield the questions of a file of either data set."""
    for row in read_records(source, Record):
        record = row.value
        function = "" if record.function == "none" else record.function
        question = Question(
            id=str(record.qid),
            text=record.question,
            answers=unique(map(_answer, record.answer or ())),
            dataset=form,
            split=split or split_of(source),
            structure=" ".join(filter(None, (record.level, function))),
            sparql=record.sparql_query or None,
        )
        if record.graph_query is None:
            yield Found(replace(question, topic_entities=tuple(entities(record.topic_entity or {}).values())), row)
        else:
            names = {n.id: n.friendly_name or "" for n in record.graph_query.nodes if n.node_type == "entity"}
            yield Found(from_branches(question, _branches(row, list(names)), entities(names)), row)


def _answer(answer: Answer | str) -> Entity:
    if isinstance(answer, str):
        return Entity(answer)
    if answer.answer_type != "Entity":
        return Entity(answer.answer_argument)
    return Entity(answer.entity_name or answer.answer_argument, answer.answer_argument)


def _branches(row: Row[Record], topics: list[str]) -> Branches:
    graph = row.value.graph_query
    assert graph is not None
    terms = {node.nid: node.id if node.node_type == "entity" else f"?{node.nid}" for node in graph.nodes}
    for number, edge in enumerate(graph.edges):
        for side, end in (("start", edge.start), ("end", edge.end)):
            if end not in terms:
                raise row.error(f"field 'graph_query.edges[{number}].{side}': there is no node {end}")
    asked = next((f"?{node.nid}" for node in graph.nodes if node.question_node), "?0")
    constraints = row.value.function != "none" or any(node.node_type == "literal" for node in graph.nodes)
    edges = [(terms[edge.start], edge.relation, terms[edge.end]) for edge in graph.edges]
    return branches(edges, asked, topics, constraints)
