"""Annotation by a language model (MCTS-KBQA, appendix A.5): it acts, two checks are made, a person reviews.

The model is shown worked trajectories and asked for one turn at a time, each of which runs through the environment. A
trajectory is accepted when it comes to an end, when each step rests on the question and on earlier observations, and
when the last query's result is the question's gold. What the model got wrong on the way is read in training and not
learned (``extra["detours"]``).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from data_pipelines.side_by_side import side_by_side
from data_pipelines.support import unsupported
from envs.kbqa_env import KBQAEnv
from graphwalker.protocol import chat
from graphwalker.protocol.interactive import CallError, parse_call, parse_turn
from graphwalker.protocol.prompts import Prompt
from graphwalker.rewards import em_set
from graphwalker.tools.prompted import PromptedActor
from graphwalker.types import RAN, Question, Trajectory, Turn

MALFORMED = "the model wrote no call"
UNFINISHED = "the model did not say Done"
NO_RESULT = "no query found anything"
UNSUPPORTED = "a step rests on nothing that was known"
WRONG = "its result is not the question's gold"


@dataclass(frozen=True, slots=True)
class Annotation:
    """What became of a question: the trajectory, and why it is not accepted ("" when it is)."""

    trajectory: Trajectory
    why_not: str = ""
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        record = {"accepted": not self.why_not, "why_not": self.why_not, "detail": self.detail}
        return {**record, "trajectory": self.trajectory.to_json()}

    def text(self) -> str:
        """The annotation to be read by a person."""
        question, turns = self.trajectory.question, self.trajectory.turns
        verdict = f"NOT ACCEPTED: {self.why_not} {self.detail}".rstrip() if self.why_not else "accepted"
        lines = [f"=== {question.id}: {verdict}", f"Q: {question.text}"]
        for number, turn in enumerate(turns, 1):
            lines.append(f"[{number}] {turn.text}")
            lines += [f"Observation: {turn.observation}"] if turn.observation else []
        gold = [answer.name for answer in question.answers]
        return "\n".join([*lines, f"answer: {list(self.trajectory.answer or ())}", f"gold: {gold}", "", ""])


@dataclass
class Annotator:
    """Lets a model act; `tries` is how often it may write a turn.

    A reply that holds no call is asked for again at `temperature`, each time with another seed. ``counts`` says how
    often (``malformed``).
    """

    actor: PromptedActor
    make_env: Callable[[], KBQAEnv]
    prompt: Prompt
    tries: int = 3
    temperature: float = 0.7
    max_tokens: int = 512
    counts: Counter[str] = field(default_factory=Counter)

    def __call__(self, question: Question) -> Annotation:
        """Annotate a question. Raises `KGUnavailable` when the server or the graph does not answer."""
        env = self.make_env()
        env.reset(options={"question": question})
        messages = self.prompt.messages(question)
        while not env.over:
            text = self._turn(messages)
            if text is None:
                return Annotation(env.trajectory(), MALFORMED)
            observation, *_ = env.step(text)
            messages.append({"role": "assistant", "content": text})
            messages.append(chat.observation_message(observation, env.role))
        return self._checked(env.trajectory(), env)

    def _turn(self, messages: Sequence[dict[str, str]]) -> str | None:
        """A turn with a call in it; None where the model writes none."""
        for attempt in range(self.tries):
            again = {"temperature": self.temperature, "seed": attempt} if attempt else {}
            text = self.actor.turn(messages, self.max_tokens, **again).text
            parsed = parse_turn(text)
            if parsed.problem is None and (
                parsed.kind == "answer" or not isinstance(parse_call(parsed.action), CallError)
            ):
                return text
            self.counts["malformed"] += 1
        return None

    def _checked(self, trajectory: Trajectory, env: KBQAEnv) -> Annotation:
        extra = {**trajectory.extra, "source": "annotation", "model": self.actor.server.model}
        extra["detours"] = [place for place, turn in enumerate(trajectory.turns) if _is_detour(turn)]
        trajectory = replace(trajectory, extra=extra)
        if trajectory.ending != "answered":
            return Annotation(trajectory, UNFINISHED)
        if not extra["executable"]:
            return Annotation(trajectory, NO_RESULT)
        prompt = self.prompt.text(trajectory.question)
        if found := unsupported(trajectory, env.toolbox.store.schema, prompt=prompt):
            return Annotation(trajectory, UNSUPPORTED, found)
        gold = trajectory.question.answers
        return Annotation(trajectory, "" if em_set(trajectory.answer or (), gold) == 1 else WRONG)


def _is_detour(turn: Turn) -> bool:
    return turn.kind == "none" or (turn.kind == "query" and turn.status not in RAN)


def annotations(questions: Iterable[Question], annotate: Annotator, *, parallel: int = 4) -> Iterator[Annotation]:
    """The annotations of the questions in their order, `parallel` of them being made at a time."""
    yield from side_by_side(annotate, questions, parallel)
