"""Questions with gold SPARQL as the pairs that the logic-form model is trained on (MCTS-KBQA, appendix A.2, Eq. 12)."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from data_pipelines.importers.counts import Counts
from graphwalker.kg.sparql_tokens import one_line
from graphwalker.types import Question, Trajectory, Turn


def logic_forms(questions: Iterable[Question], counts: Counts | None = None) -> Iterator[Trajectory]:
    """A trajectory of one turn, the SPARQL on one line, for each question that has one; others are counted.

    `recipes/sft.py` trains on them with ``prompt: logic_form``, and
    `graphwalker.inference.values.logic_form` reads the model in just this form.
    """
    for question in questions:
        text = one_line(question.sparql or "")
        if text:
            turn = Turn(text, kind="answer", action=text)
            if counts is not None:
                counts.kept += 1
            names = tuple(entity.name for entity in question.answers)
            yield Trajectory(question, (turn,), names, "answered")
        elif counts is not None:
            counts.drop("it has no SPARQL", question.id)


def as_the_actor_writes(trajectories: Iterable[Trajectory]) -> Iterator[Question]:
    """The questions of an actor's trajectories, each with the query that was executed last in place of its gold SPARQL.

    A searched query names its entities as the tools do, a published one has their ids; a model that knows the second
    form alone takes every query of an actor for a strange one (the "surface-form mismatch" of appendix A.3).
    """
    for trajectory in trajectories:
        yield replace(trajectory.question, sparql=trajectory.extra.get("sparql"))
