"""One hop of ArG's tree: relations are retrieved and judged, then the entities that they lead to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from graphwalker.kg.hops import Edge, Ends
from graphwalker.protocol.reflection import (
    ALL,
    PARAGRAPH,
    PARAGRAPH_END,
    RATIONALITY,
    RELEVANCE,
    RETRIEVAL,
    RETRIEVE_ENTITY,
    RETRIEVE_RELATION,
    UNREASONABLE,
    UNRELEVANT,
    RetrievedKind,
    paragraph,
    read_name,
    read_relation,
    write_name,
)
from graphwalker.search import arg_scores as scores
from graphwalker.search.arg_node import ArgNode
from graphwalker.search.node import Episode
from graphwalker.search.requests import Claim, Consult, Judge, Write
from graphwalker.search.tree import Tree
from graphwalker.types import Turn

PRUNING = frozenset({UNRELEVANT, UNREASONABLE})


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic entity and the message that opens a path from it."""

    entity: str
    name: str
    prompt: str


class ArgEpisode(Episode, Protocol):
    """What the search asks of an episode of the protocol reflection (``envs.arg_env``), already reset."""

    def topics(self) -> list[Topic]: ...

    def retrieve(self, entity: str, hypothesis: str, *, query: bool, k: int) -> list[str]:
        """The ``k`` relations of an entity that are candidates, as `write_relation` gives them, best first.

        They are retrieved by the hypothesis, where it is not "", and by the question, if ``query`` or there is no
        hypothesis.
        """
        ...

    def ends(self, entity: str, edge: Edge, limit: int, without: Sequence[str]) -> Ends: ...


@dataclass(slots=True)
class Found:
    """What a hop came to."""

    kept: list[ArgNode] = field(default_factory=list)  # entities that a path may go on from
    unreasonable: list[ArgNode] = field(default_factory=list)
    dead_ends: list[ArgNode] = field(default_factory=list)  # states from which nothing is left


class Hop:
    """Takes hops from states; ``nodes`` are all that it put into the tree."""

    def __init__(self, tree: Tree, numbers: Iterator[int]):
        self.tree, self.numbers = tree, numbers
        self.episode: ArgEpisode = tree.root.episode  # type: ignore[assignment]
        self.nodes: list[ArgNode] = []

    def grow(self, node: ArgNode) -> ArgNode:
        """Put a node below its parent."""
        assert node.parent is not None
        node.number, node.depth = next(self.numbers), node.parent.depth + 1
        node.parent.children.append(node)
        self.nodes.append(node)
        return node

    def take(self, states: Sequence[ArgNode], depth: int) -> Any:
        """Every candidate of a hop from these states, judged; gives a `Found`."""
        relations = yield from self._relations(states, depth)
        entities = yield from self._entities([node for node in relations if not node.limit], depth)
        found = Found()
        for node in entities:
            if not node.limit:
                found.kept.append(node)
            elif node.limit == "unreasonable":
                found.unreasonable.append(node)
        alive = {id(node.parent.parent) for node in found.kept if node.parent is not None}
        found.dead_ends = [state for state in states if id(state) not in alive]
        for state in found.dead_ends:
            state.notes["dead_end"] = True
        return found

    def _relations(self, states: Sequence[ArgNode], depth: int) -> Any:
        settings, episode = self.tree.config, self.episode
        hypotheses = [""] * len(states)
        if settings.arg_hypothesis:
            written = yield Write([Claim(state, RETRIEVE_RELATION + PARAGRAPH) for state in states], ALL)
            hypotheses = [read_name(wrote.text) for wrote in written]
        retrieve = partial(episode.retrieve, query=settings.arg_query, k=settings.arg_relations)
        retrieved = yield Consult(
            [partial(retrieve, state.entity, expected) for state, expected in zip(states, hypotheses, strict=True)]
        )
        nodes = []
        for state, expected, names in zip(states, hypotheses, retrieved, strict=True):
            if settings.arg_hypothesis:
                state.notes["hypothesis"] = expected
            for name in names:
                node = self._candidate(state, "relation", name, state.entity, depth)
                node.edge = read_relation(name)
                nodes.append(node)
        yield from judged(nodes, [RELEVANCE])
        self._prune(nodes)
        return nodes

    def _entities(self, relations: Sequence[ArgNode], depth: int) -> Any:
        settings, episode = self.tree.config, self.episode
        ways = [(node.entity, node.edge, [step.entity for step in node.steps()]) for node in relations if node.edge]
        found: list[Ends] = yield Consult(
            [partial(episode.ends, entity, edge, settings.arg_entities, been) for entity, edge, been in ways]
        )
        nodes = []
        for relation, ends in zip(relations, found, strict=True):
            relation.notes["ends"] = ends.total
            for entity, name in zip(ends.nodes, ends.names, strict=True):
                nodes.append(self._candidate(relation, "entity", name, entity, depth))
        last = depth == settings.arg_depth
        yield from judged(nodes, [RELEVANCE, RATIONALITY, *([] if last else [RETRIEVAL])])
        self._prune(nodes)
        for node in nodes:
            self._score(node)
        return nodes

    def _candidate(self, parent: ArgNode, kind: RetrievedKind, name: str, entity: str, depth: int) -> ArgNode:
        node = ArgNode(self.episode, parent, kind=kind, name=name, entity=entity, hop=depth)
        node.text = paragraph(kind, name)
        action = RETRIEVE_RELATION if kind == "relation" else RETRIEVE_ENTITY
        said = "".join(parent.labels_given()) + action + PARAGRAPH
        node.turn = Turn(said, "", "query", action, write_name(name) + PARAGRAPH_END)
        return self.grow(node)

    def _prune(self, nodes: Sequence[ArgNode]) -> None:
        """End the candidates with an undesirable label (section 4.2, the hard constraint)."""
        for node in nodes:
            given = node.labels_given()
            if UNRELEVANT in given or UNREASONABLE in given or not given:
                node.ending = "budget"
                node.limit = "unrelevant" if UNRELEVANT in given else "unreasonable" if given else "length"
                self.tree.ends.append(node)

    def _score(self, node: ArgNode) -> None:
        """Eq. 5 of a hop, from its relation and its entity; a candidate that is unrelevant was not judged further."""
        relation = node.parent
        assert isinstance(relation, ArgNode) and isinstance(relation.parent, ArgNode)
        if len(node.labels) < 2:
            return
        seq = scores.sequence(relation.logprob + node.logprob, relation.read + node.read)
        rel = scores.hop_relevance(relation.labels[0], node.labels[0])
        node.value = scores.hop_score(seq, rel, scores.rationality(node.labels[1]), self.tree.config)
        node.total = relation.parent.total + node.value


def judged(nodes: Sequence[ArgNode], groups: Sequence[tuple[str, ...]], *, after: bool = False) -> Any:
    """Have candidates judged, all in one batch; their tokens and labels are kept.

    ``after``: the nodes hold their tokens already, and what follows them is judged.
    """
    if not nodes:
        return
    claims = [Claim(node) if after else Claim(node.parent, node.text) for node in nodes]  # type: ignore[arg-type]
    verdicts = yield Judge(claims, groups, PRUNING)
    for node, verdict in zip(nodes, verdicts, strict=True):
        labels, ids = verdict.labels, verdict.ids
        if len(labels) == 3:  # the retrieval token is decided on when the state is gone on from
            labels, node.retrieval, ids = labels[:2], labels[2], ids[:-1]
        node.labels, node.logprob, node.read = tuple(labels), verdict.logprob, verdict.read
        node.ids += ids
        node.logprobs += [max(of.values()) for of in node.labels]
