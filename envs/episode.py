"""An episode on one question, Gymnasium-shaped: what the environments of all protocols keep, and how each ends."""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Self

from graphwalker.kg.store import KGStore
from graphwalker.protocol.escape import sound
from graphwalker.protocol.parse import ParsedTurn
from graphwalker.protocol.prompts import Prompt
from graphwalker.tools.observation import Observation, error
from graphwalker.types import RAN, Ending, Entity, Question, Status, Trajectory, Turn

Reward = Callable[[Sequence[str], Sequence[Entity]], float]
Step = tuple[str, float, bool, bool, dict[str, Any]]
"""Observation, reward, terminated, truncated, info."""


class EpisodeEnv:
    """At most `max_turns` turns, of which the last must answer; a protocol says what a turn means (`step`).

    Reward: ``reward(answer, gold)`` in [0, 1] with the answer, 0 in every other turn.
    Episode end: terminated by an answer; truncated (ending ``"budget"``) when turn `max_turns` holds none, or after
    `max_errors` erroneous turns in a row where that is given, since a policy in training that is lost is not to fill a
    batch with its wandering; truncated as ``"outage"`` when the graph is out of order: ``info["outage"]``, and such an
    episode cannot be scored.
    No random numbers are drawn. Raises `ValueError` for bounds that leave no turn for a query or an error.
    """

    role = "tool"
    """Under which its observations stand in the conversation."""

    def __init__(
        self, store: KGStore, prompt: Prompt, reward: Reward, max_turns: int, max_errors: int | None = None
    ) -> None:
        if max_turns < 2:
            raise ValueError("max_turns must be at least 2: one query and the answer")
        if max_errors is not None and max_errors < 1:
            raise ValueError("max_errors must be at least 1: so many erroneous turns in a row end an episode")
        self.prompt, self.max_turns, self.max_errors = prompt, max_turns, max_errors
        self._store, self._reward = store, reward
        self._question: Question | None = None
        self._turns: list[Turn] = []
        self._answer: tuple[str, ...] | None = None
        self._ending: Ending | None = None
        self._outage = ""

    @property
    def over(self) -> bool:
        """Whether the next call must be `reset`."""
        return self._question is None or self._ending is not None

    @property
    def waits(self) -> bool:
        """Whether a step may wait on a network: then it is worth running several episodes' steps at a time."""
        return self._store.remote

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode on ``options["question"]``; `seed` is accepted and changes nothing."""
        question = (options or {}).get("question")
        if not isinstance(question, Question):
            raise ValueError('reset needs options={"question": Question(...)}')
        self._question = question
        self._turns, self._answer, self._ending, self._outage = [], None, None, ""
        return self._begun(question), {"question_id": question.id, "turns": 0}

    def fork(self) -> Self:
        """An episode that stands where this one does; what happens in one does not change the other."""
        twin = copy(self)
        twin._turns = list(self._turns)
        return twin

    def step(self, text: str, truncated_turn: bool = False) -> Step:
        """Take one turn; `truncated_turn` says that the model's text was cut at its token cap.

        Raises `RuntimeError` before `reset` and after the end.
        """
        if self.over:
            raise RuntimeError("the episode is over (or has not begun): call reset first")
        return self._step(text, truncated_turn)

    def trajectory(self) -> Trajectory:
        """The episode so far; one that is still running has the ending ``"budget"``.

        ``extra["outage"]`` is the kind of the outage that ended it.
        """
        extra = {**self._extra(), **({"outage": self._outage} if self._outage else {})}
        return Trajectory(self._asked, tuple(self._turns), self._answer, self._ending or "budget", extra=extra)

    # What a protocol gives.

    def _begun(self, question: Question) -> str:
        """The user's message; whatever else the protocol keeps of an episode begins anew."""
        return self.prompt.text(question)

    def _step(self, text: str, truncated_turn: bool) -> Step:
        raise NotImplementedError

    def _extra(self) -> dict[str, Any]:
        """What a trajectory says beside its turns."""
        return {}

    # What it may use.

    @property
    def _asked(self) -> Question:
        if self._question is None:
            raise RuntimeError("no episode has begun: call reset first")
        return self._question

    @property
    def _is_last(self) -> bool:
        """Whether the turn that is being taken is number `max_turns`."""
        return len(self._turns) + 1 == self.max_turns

    def _answered(self, turn: Turn, answer: tuple[str, ...]) -> Step:
        """The end of an episode that has its answer."""
        self._turns.append(turn)
        self._answer, self._ending = answer, "answered"
        return "", float(self._reward(answer, self._asked.answers)), True, False, self._info("ok", "")

    def _went_on(self, turn: Turn, message: str = "") -> Step:
        """A turn that did not answer; `message` says what an observation would have said that nobody reads."""
        self._turns.append(turn)
        return turn.observation, 0.0, False, self.over, self._info(turn.status, message)

    def _lost(self, status: Status) -> bool:
        """Whether a turn with this status is the last that `max_errors` bears."""
        if self.max_errors is None:
            return False
        recent = [*(turn.status for turn in self._turns), status][-self.max_errors :]
        return len(recent) == self.max_errors and RAN.isdisjoint(recent)

    def _info(self, status: Status, message: str) -> dict[str, Any]:
        info: dict[str, Any] = {"status": status, "turns": len(self._turns), "outage": self._ending == "outage"}
        if self._ending is not None:
            info |= {"ending": self._ending, "message": message}
        return info


class ToolEnv(EpisodeEnv):
    """An episode whose turns are calls of tools, one a turn."""

    must_answer: str
    """What the last turn is told that calls a tool nevertheless."""
    calls = "queries"
    """What the protocol names its calls."""

    def _step(self, text: str, truncated_turn: bool) -> Step:
        parsed = self._parse(text)
        if (answer := self._answer_of(parsed)) is not None:
            return self._answered(_turn(text, parsed), answer)
        observation = self._observe(parsed, truncated_turn)
        self._outage = self._outage_of(observation)
        if self._outage or self._is_last or self._lost(observation.status):
            self._ending = "outage" if self._outage else "budget"
        body = "" if self.over else self._body(observation, parsed)
        return self._went_on(
            _turn(text, parsed, body, observation.status), message=observation.text if self.over else ""
        )

    def _observe(self, parsed: ParsedTurn, truncated_turn: bool) -> Observation:
        if parsed.problem is not None and truncated_turn:
            return error("your turn was cut at its length limit. Think less.", "truncated")
        if self._is_last:
            return error(self.must_answer, "refused")
        if parsed.problem is not None:
            return error(parsed.problem, "bad_query" if parsed.kind == "query" else "no_action")
        return self._call(parsed.action)

    def _body(self, observation: Observation, parsed: ParsedTurn) -> str:
        """What is shown of an observation."""
        if not parsed.extra_queries:
            return observation.text
        return f"{observation.text}\n... only the first of your {parsed.extra_queries + 1} {self.calls} was run"

    # What a protocol gives.

    def _parse(self, text: str) -> ParsedTurn:
        raise NotImplementedError

    def _answer_of(self, parsed: ParsedTurn) -> tuple[str, ...] | None:
        """The answer, where the turn ends the episode."""
        raise NotImplementedError

    def _call(self, action: str) -> Observation:
        raise NotImplementedError

    def _outage_of(self, observation: Observation) -> str:
        """The kind of outage that an observation means, "" for none."""
        raise NotImplementedError


def _turn(text: str, parsed: ParsedTurn, body: str = "", status: Status = "ok") -> Turn:
    return Turn(sound(text), parsed.thought, parsed.kind, parsed.action, body, status)
