"""Who judges candidates, paths and answers when ArG's training texts are made (Algorithm 2): the rules.

The paper's critic is GPT-4-mini (`data_pipelines.arg_llm_critic` asks such a model). This one knows the gold answers
and needs no model. It judges a sequence of relations by the nodes that it leads to from the topic: their F1 beside the
gold answers, in proportion to that of the right sequence (the question's gold path, or the best that was found).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from data_pipelines.arg_paths import Hop, Path, PathSearch
from data_pipelines.importers.paths import PathWalker
from graphwalker.kg.hops import Edge
from graphwalker.protocol.reflection import (
    FULLY_REASONABLE,
    FULLY_RELEVANT,
    PARTIALLY_REASONABLE,
    PARTIALLY_RELEVANT,
    UNREASONABLE,
    UNRELEVANT,
)
from graphwalker.types import Entity, Question

PARTLY = 0.5
"""A sequence of relations with this share of the right one's F1 is partially reasonable, one with less is not."""
_AS_GOOD = 0.99
Edges = tuple[Edge, ...]


@dataclass(frozen=True)
class Gold:
    """What is known of a question from one topic: which sequences of relations are right, and which partly."""

    question: Question
    topic: Entity
    answers: frozenset[str]
    right: frozenset[Edges]
    partly: frozenset[Edges] = frozenset()
    wrong: frozenset[Edges] = frozenset()
    """Sequences that lead to an answer by chance."""


@dataclass(frozen=True)
class Case:
    """What is judged: a path so far (empty at the topic). The gold is for rules; no model is shown it."""

    gold: Gold
    hops: Path = field(default=())

    def then(self, hop: Hop) -> "Case":
        return Case(self.gold, (*self.hops, hop))

    @property
    def edges(self) -> Edges:
        return tuple(hop.edge for hop in self.hops)


class Critic(Protocol):
    """Labels for cases; ``None`` where the critic has none to give, which drops what was to be judged."""

    def relation(self, case: Case, edge: Edge) -> str | None:
        """The relevance of an edge out of where the path has come to."""
        ...

    def entity(self, case: Case, hop: Hop) -> str | None:
        """The relevance of what a relevant edge leads to."""
        ...

    def rationality(self, case: Case) -> str | None:
        """Whether the path so far is reasonable."""
        ...

    def utility(self, case: Case, answers: Sequence[str], right: bool) -> int | None:
        """How useful the answers, 1 to 5, are after the path; ``right``: they are gold."""
        ...


class RuleCritic:
    """Judges by the gold answers. A node without a name says nothing and is at most partial (the paper's Table 6)."""

    def __init__(self, search: PathSearch):
        self.search = search

    def relation(self, case: Case, edge: Edge) -> str:
        edges, gold = (*case.edges, edge), case.gold
        if _begins(gold.right, edges):
            return FULLY_RELEVANT
        return PARTIALLY_RELEVANT if _begins(gold.partly | gold.wrong, edges) else UNRELEVANT

    def entity(self, case: Case, hop: Hop) -> str:
        edges, gold = (*case.edges, hop.edge), case.gold
        if self.search.store.is_mediator(hop.node):
            return PARTIALLY_RELEVANT
        for sequences, label in ((gold.right, FULLY_RELEVANT), (gold.partly | gold.wrong, PARTIALLY_RELEVANT)):
            if any(self._leads(hop.node, rest, gold.answers) for rest in _rests(sequences, edges)):
                return label
        return UNRELEVANT

    def rationality(self, case: Case) -> str:
        edges, gold, node = case.edges, case.gold, case.hops[-1].node
        mediator = self.search.store.is_mediator(node)
        for sequences, label in ((gold.right, FULLY_REASONABLE), (gold.partly, PARTIALLY_REASONABLE)):
            if any(mediator or self._leads(node, rest, gold.answers) for rest in _rests(sequences, edges)):
                return PARTIALLY_REASONABLE if mediator else label
        return UNREASONABLE

    def utility(self, case: Case, answers: Sequence[str], right: bool) -> int:
        """5: right after a right path; 4: after a partly right one; 3: right, but the path does not show it.

        2: wrong, but of the kind that was asked for; 1: wrong.
        """
        if right:
            return {FULLY_REASONABLE: 5, PARTIALLY_REASONABLE: 4, UNREASONABLE: 3}[self.rationality(case)]
        return 2 if case.edges in case.gold.right else 1

    def _leads(self, node: str, rest: Edges, answers: frozenset[str]) -> bool:
        return not answers.isdisjoint(self.search.reached(node, rest) if rest else {node})


def gold_of(question: Question, topic: Entity, paths: Iterable[Path], search: PathSearch) -> Gold:
    """Which of the sequences of relations of the shortest paths are right, from one topic (with an id)."""
    answers = frozenset(answer_ids(question, search.walker))
    sequences: dict[Edges, Path] = {}
    for path in paths:
        sequences.setdefault(tuple(hop.edge for hop in path), path)
    assert topic.id is not None
    scores = {edges: _f1(search.reached(topic.id, edges), answers) for edges in sequences}
    given = _gold_path(question, topic)
    right = {edges for edges, path in sequences.items() if given and flattened(path, search) == given}
    best = max((scores[edges] for edges in right or scores), default=0.0)
    right |= {edges for edges, score in scores.items() if score >= (_AS_GOOD if right else best)}
    partly = {edges for edges, score in scores.items() if score >= PARTLY * best} - right
    return Gold(question, topic, answers, frozenset(right), frozenset(partly), frozenset(scores) - right - partly)


def flattened(path: Path, search: PathSearch) -> tuple[str, ...]:
    """A path's relations as ``Question.paths`` has them: one edge into a mediator and one out of it are one relation.

    Edges around a mediator that do not run the same way stay as they are.
    """
    hops: list[str] = []
    place = 0
    while place < len(path):
        (relation, inverse), node = path[place].edge, path[place].node
        following = path[place + 1].edge if place + 1 < len(path) else None
        if following and following[1] == inverse and search.store.is_mediator(node):
            relation = f"{following[0]}.{relation}" if inverse else f"{relation}.{following[0]}"
            place += 1
        hops.append(f"^{relation}" if inverse else relation)
        place += 1
    return tuple(hops)


def _gold_path(question: Question, topic: Entity) -> tuple[str, ...] | None:
    if len(question.paths) != len(question.topic_entities):
        return None
    return next((p for t, p in zip(question.topic_entities, question.paths, strict=True) if t == topic), None)


def _f1(found: set[str], answers: frozenset[str]) -> float:
    return 2 * len(found & answers) / (len(found) + len(answers)) if found or answers else 0.0


def _begins(sequences: Iterable[Edges], edges: Edges) -> bool:
    return any(sequence[: len(edges)] == edges for sequence in sequences)


def _rests(sequences: Iterable[Edges], edges: Edges) -> list[Edges]:
    return sorted({sequence[len(edges) :] for sequence in sequences if sequence[: len(edges)] == edges})


def answer_ids(question: Question, walker: PathWalker) -> set[str]:
    """The ids of a question's answers; of those without one (literals) where its gold paths lead to nodes so named."""
    found = {entity.id for entity in question.answers if entity.id}
    names = {entity.name for entity in question.answers if not entity.id}
    if names:
        ends = sorted(walker.ends(question))
        found |= {end for end, name in zip(ends, walker.store.names(ends), strict=True) if name in names}
    return found
