"""Which questions a KG can answer, with the gold that it gives itself: a closed world.

A question is answerable where its topic entities are in the KG and its gold query, or else its gold path, leads to
something there that agrees with the published gold. What is found becomes the gold: of a KG that knows less than the
one a data set was made from, nothing else can be asked.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from data_pipelines.importers import on_kg
from data_pipelines.importers.counts import Counts
from data_pipelines.importers.paths import CLOSED_WORLD, CONSTRAINTS, PathWalker
from graphwalker.errors import KGUnavailable, QueryRefused, UserError
from graphwalker.kg.guard import QueryLimits
from graphwalker.kg.store import KGStore
from graphwalker.kg.terms import literal
from graphwalker.types import Entity, Question

RunQuery = Callable[[str], Iterable[str]]
"""Runs a gold query: the nodes (or values) it finds. Raises ``UserError`` when it cannot be run on this KG."""

LIMITS = QueryLimits(rows=50_000, seconds=120)
"""Of a gold query, which is trusted to mean well and not to be cheap."""

SAME = "its gold is the published one"
LESS = "its gold is a part of the published one"
MORE = "its gold has more than the published one"
MIXED = "its gold shares some with the published one"
NEW = "its gold is published only as a query"


def gold_runner(store: KGStore) -> RunQuery | None:
    """What runs a gold query on a store, guarded and limited; ``None`` for a store without SPARQL.

    The nodes are those of the query's first variable; an ASK gives ``"yes"`` or ``"no"``.
    """
    execute = getattr(store, "execute", None)
    if execute is None:
        return None

    def run(query: str) -> Iterable[str]:
        try:
            answer = execute(query, LIMITS)
        except QueryRefused as error:
            raise UserError(str(error)) from error
        except KGUnavailable as error:
            if error.status == "kg_timeout":
                raise UserError(str(error)) from error
            raise
        if answer.boolean is not None:
            return [literal("yes" if answer.boolean else "no")]
        if answer.truncated:
            raise UserError(f"it finds more than {LIMITS.rows:,} rows")
        return [next(iter(row.values())) for row in answer.rows if row]

    return run


@dataclass(frozen=True)
class Checked:
    """What a KG makes of a question: the question with its own gold, or why there is none (``reason``)."""

    question: Question
    reason: str = ""
    note: str = ""


class Checker:
    """Checks questions against one store.

    ``run_query`` executes gold SPARQL (`gold_runner`); without it only paths are used.
    """

    def __init__(self, store: KGStore, run_query: RunQuery | None = None):
        self.store, self.run_query = store, run_query
        self.walker = PathWalker(store)

    def check(self, question: Question) -> Checked:
        """Raises ``KGUnavailable`` when the KG cannot answer at all: an outage is no property of a question."""
        question, _ = on_kg.settle(question, self.walker)
        if on_kg.missing_topic(question, self.store):
            return Checked(question, on_kg.MISSING_TOPIC)
        if self.run_query is not None and question.sparql:
            return self._by_query(question, self.run_query)
        if not question.topic_entities:
            return Checked(question, "it has no topic entity" + self._unless_queried(question))
        if not question.paths:
            return Checked(question, "it has no gold path" + self._unless_queried(question))
        return self._by_path(question)

    def _unless_queried(self, question: Question) -> str:
        return " (its gold query was not run)" if question.sparql and self.run_query is None else ""

    def _by_query(self, question: Question, run_query: RunQuery) -> Checked:
        try:
            found = set(run_query(question.sparql or ""))
        except UserError as error:
            if question.paths and not question.structure.endswith(CONSTRAINTS):
                return self._by_path(question)
            return Checked(question, "its gold query does not run: " + str(error).splitlines()[0])
        if not found:
            return Checked(question, "its gold query finds nothing")
        return self._compared(question, found)

    def _by_path(self, question: Question) -> Checked:
        found = self.walker.ends(question)
        if not found:
            return Checked(question, "its gold path leads nowhere")
        if question.structure.endswith(CONSTRAINTS):
            # The path alone leads to too much: of that, only what is published as gold is known to be right.
            found &= {answer.id or answer.name for answer in question.answers}
            if not found:
                return Checked(question, "its gold path leads to none of its answers")
        return self._compared(question, found)

    def _compared(self, question: Question, found: set[str]) -> Checked:
        names = dict(zip(ordered := sorted(found), self.store.names(ordered), strict=True))
        published = {answer.id or answer.name: answer for answer in question.answers}
        by_name = {answer.name: answer for answer in question.answers}
        shared = {n: a for n in ordered if (a := published.get(n) or by_name.get(names[n] or "")) is not None}
        if question.answers and not shared:
            return Checked(question, "what the KG gives shares nothing with the published gold")
        note = NEW if not question.answers else _standing(len(shared), len(ordered), len(published))
        answers = tuple(
            on_kg.named_by_kg(replace(shared[n], id=_id(n)), self.store) if n in shared else self._entity(n, names[n])
            for n in ordered
        )
        dataset = question.dataset.removesuffix(CLOSED_WORLD) + CLOSED_WORLD
        return Checked(replace(question, answers=answers, dataset=dataset), note=note)

    def _entity(self, node: str, name: str | None) -> Entity:
        return Entity(name or node, _id(node), tuple(self.store.aliases(node)))


def _id(node: str) -> str | None:
    return None if node.startswith('"') else node


def _standing(shared: int, found: int, published: int) -> str:
    if shared == found:
        return SAME if shared >= published else LESS
    return MORE if shared >= published else MIXED


def check(questions: Iterable[Question], checker: Checker, counts: Counts) -> Iterator[Question]:
    """Yield the answerable questions with the KG's own gold, counting in ``counts`` why the others are not."""
    for question in questions:
        checked = checker.check(question)
        if checked.reason:
            counts.drop(checked.reason, question.id)
            continue
        counts.note(checked.note, question.id)
        counts.kept += 1
        yield checked.question
