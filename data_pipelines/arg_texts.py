"""ArG's training texts: a shortest path with reflection tokens, and the candidates beside it (Algorithm 2, Figure 4).

A step that a critic finds unreasonable ends the path, and the gold answer follows: the model is to answer out of what
it knows. Beside the paper's candidates a path gives two branches that the shortest paths of most graphs never show: a
wrong step that was taken (unreasonable), and a wrong answer (of little use).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from data_pipelines.arg_candidates import ArgSettings, chance, relations, sample_paths, siblings
from data_pipelines.arg_critic import Case, Critic, Gold, answer_ids, gold_of
from data_pipelines.arg_paths import Hop, Path, PathSearch
from data_pipelines.importers.counts import Counts
from data_pipelines.side_by_side import side_by_side
from graphwalker.kg.hops import Edge
from graphwalker.protocol.reflection import (
    PARTIALLY_RELEVANT,
    RETRIEVE_ENTITY,
    RETRIEVE_RELATION,
    UNREASONABLE,
    UNRELEVANT,
    UTILITY,
    answer,
    enclosed,
    write_relation,
)
from graphwalker.protocol.reflection_data import Branch, ReflectionRecord
from graphwalker.tools.retriever import Retriever
from graphwalker.types import Question

T = TypeVar("T")
GOLD_NAMED = 5  # answers that are given after an unreasonable step
NO_IDS = "its topic or its answers have no id on the graph"
DROPPED_LABEL = "a candidate was left out: the critic gave no label"
DROPPED_PATH = "a path was left out: the critic gave no label for it"


@dataclass(frozen=True)
class ArgMaker:
    """Makes the records of a question. Raises `KGUnavailable` when the graph, or the critic, is out of order."""

    search: PathSearch
    retriever: Retriever
    critic: Critic
    settings: ArgSettings

    def records(self, question: Question, counts: Counts) -> list[ReflectionRecord]:
        """The records of one question, at most ``k_paths``; what is left out is counted, with the reason."""
        found = self._found(question, counts)
        if not found:
            return []
        golds = {gold.topic.id or "": gold for gold, _ in found}
        walks = [(gold.topic.id or "", path) for gold, paths in found for path in paths]
        by_chance = {(gold.topic.id or "", edges) for gold, _ in found for edges in gold.wrong}
        drawn = sample_paths(walks, self.settings, question.id, by_chance)
        records = [record for topic, path in drawn if (record := _Writer(self, golds[topic], path, counts).record())]
        if not records:
            counts.drop("no path of it was labelled", question.id)
        counts.kept += bool(records)
        return records

    def _found(self, question: Question, counts: Counts) -> list[tuple[Gold, list[Path]]]:
        """What is known from each topic, with its paths; without any the question is dropped."""
        topics = list({topic.id: topic for topic in question.topic_entities if topic.id}.values())
        answers = sorted(answer_ids(question, self.search.walker))
        if not topics or not answers:
            counts.drop(NO_IDS, question.id)
            return []
        if len(answers) > self.settings.answers:
            counts.note("only some of its answers are looked for", question.id)
            answers = sorted(chance(self.settings, "answers", question.id).sample(answers, self.settings.answers))
        found, why = [], ""
        for topic in topics:
            results = [self.search.paths(topic.id or "", goal) for goal in answers]
            why = next((result.why for result in results if result.why), why)
            if paths := [path for result in results for path in result.paths]:
                found.append((gold_of(question, topic, paths, self.search), paths))
        if not found:
            counts.drop(why, question.id)
        return found


def arg_records(
    questions: Iterable[Question], maker: ArgMaker, counts: Counts, *, parallel: int = 1
) -> Iterator[ReflectionRecord]:
    """The records of the questions, in order; ``parallel`` questions are worked on at a time, for a critic that waits
    on a server."""
    if parallel == 1:
        for question in questions:
            yield from maker.records(question, counts)
        return

    def work(question: Question) -> tuple[list[ReflectionRecord], Counts]:
        own = Counts()
        return maker.records(question, own), own

    for records, own in side_by_side(work, questions, parallel):
        counts.add(own)
        yield from records


class _NoLabel(Exception):
    """The critic has no label for a step of the path itself."""


class _Writer:
    """Writes one path, hop by hop; ``case`` is what of it is written."""

    def __init__(self, maker: ArgMaker, gold: Gold, path: Path, counts: Counts):
        self.gold, self.path, self.counts = gold, path, counts
        self.critic, self.search, self.settings = maker.critic, maker.search, maker.settings
        self.retriever = maker.retriever
        self.text = ""
        self.branches: list[Branch] = []
        self.case = Case(gold)
        self.chance = chance(self.settings, "wrong", gold.question.id, *(hop.node for hop in path))

    def record(self) -> ReflectionRecord | None:
        try:
            ended = self._write()
        except _NoLabel:
            self.counts.note(DROPPED_PATH, self.gold.question.id)
            return None
        return ReflectionRecord(self.gold.question, self.gold.topic, self.text, tuple(self.branches), ended)

    def _write(self) -> bool:
        """Write the whole path; false where a label cut it before an answer."""
        wrong = self.chance.randrange(len(self.path))
        for place, hop in enumerate(self.path):
            if not self._relation(hop, wrong_step=place == wrong) or not self._entity(hop):
                return False
            rationality = self._sure(self.critic.rationality(self.case))
            self.text += rationality
            if rationality == UNREASONABLE:
                self.text += self._gold_answer(self.case)
                return True
        last = self.path[-1].node
        right = last in self.gold.answers
        self.text += answer([self._name(last)], self._sure(self.critic.utility(self.case, [self._name(last)], right)))
        return True

    def _relation(self, hop: Hop, *, wrong_step: bool) -> bool:
        """Write a relation and branches for the others; whether the path goes on after it."""
        node = self.case.hops[-1].node if self.case.hops else self.gold.topic.id or ""
        self.text += RETRIEVE_RELATION
        wrong: list[Edge] = []
        for edge in relations(self.search, self.retriever, self.gold.question.text, node, hop.edge, self.settings):
            label = self.critic.relation(self.case, edge)
            self._branch("relation", _relation(edge), label)
            wrong += [edge] if label == UNRELEVANT else []
        if wrong and wrong_step:
            self._wrong_step(node, self.chance.choice(wrong))
        label = self._sure(self.critic.relation(self.case, hop.edge))
        self.text += _relation(hop.edge) + label
        return label != UNRELEVANT

    def _entity(self, hop: Hop) -> bool:
        """The same of an entity."""
        node = self.case.hops[-1].node if self.case.hops else self.gold.topic.id or ""
        self.text += RETRIEVE_ENTITY
        wrong: list[Hop] = []
        for other in siblings(self.search, node, hop, self.settings):
            label = self.critic.entity(self.case, other)
            self._branch("entity", self._entity_text(other), label)
            wrong += [other] if label == UNRELEVANT else []
        if wrong:
            self._wrong_entity(self.chance.choice(wrong))
        label = self._sure(self.critic.entity(self.case, hop))
        self.text += self._entity_text(hop) + label
        self.case = self.case.then(hop)
        return label != UNRELEVANT

    def _wrong_step(self, node: str, edge: Edge) -> None:
        """A branch that takes an unrelevant relation, judged as if it had seemed relevant."""
        if tails := self.search.tails(node, edge):
            hop = Hop(edge, self.chance.choice(tails))
            read = _relation(edge) + PARTIALLY_RELEVANT + RETRIEVE_ENTITY + self._entity_text(hop) + PARTIALLY_RELEVANT
            self._judge_wrong(hop, read, answered=True)

    def _wrong_entity(self, hop: Hop) -> None:
        self._judge_wrong(hop, self._entity_text(hop) + PARTIALLY_RELEVANT, answered=False)

    def _judge_wrong(self, hop: Hop, read: str, *, answered: bool) -> None:
        """Branches in which a step that should not have been taken is judged, and what it leads to as an answer.

        ``answered``: the gold answer follows, which the path does not show. One branch of a path is enough of that:
        more would teach a small model to guess answers rather than to copy them from the path.
        """
        case = self.case.then(hop)
        label = self.critic.rationality(case)
        if answered and label == UNREASONABLE:
            self._branch("rationality", read, label + self._gold_answer(case), ended=True)
        else:
            self._branch("rationality", read, label)
        if hop.node not in self.gold.answers:
            name = self._name(hop.node)
            utility = self.critic.utility(case, [name], False)
            told = None if utility is None else UTILITY[utility - 1]
            self._branch("utility", read + (label or "") + answer([name]), told, ended=True)

    def _branch(self, kind: str, read: str, label: str | None, *, ended: bool = False) -> None:
        if label is None:
            self.counts.note(DROPPED_LABEL, self.gold.question.id)
        else:
            self.branches.append(Branch(kind, len(self.text), read, label, ended))

    def _gold_answer(self, case: Case) -> str:
        """The answer that follows an unreasonable step at once."""
        names = [entity.name for entity in self.gold.question.answers[:GOLD_NAMED]]
        return answer(names, self._sure(self.critic.utility(case, names, True)))

    def _sure(self, label: T | None) -> T:
        if label is None:
            raise _NoLabel
        return label

    def _name(self, node: str) -> str:
        return self.search.hops.name(node)

    def _entity_text(self, hop: Hop) -> str:
        return enclosed(self._name(hop.node))


def _relation(edge: Edge) -> str:
    return enclosed(write_relation(*edge))
