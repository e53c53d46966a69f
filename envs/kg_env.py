"""One question as an episode of at most T turns, Gymnasium-shaped."""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from graphwalker.protocol.escape import sound
from graphwalker.protocol.parse import ParsedTurn, parse_answer, parse_turn
from graphwalker.protocol.prompts import Prompt, final_answer
from graphwalker.rewards import em
from graphwalker.tools.observation import Observation, error
from graphwalker.tools.session import ToolSession
from graphwalker.tools.toolbox import Toolbox
from graphwalker.types import RAN, Ending, Entity, Question, Status, Trajectory, Turn

Reward = Callable[[Sequence[str], Sequence[Entity]], float]

_CUT = "your turn was cut at its length limit. Think less."


class KGEnv:
    """A knowledge graph that answers a model's turns until it answers the question.

    Action: the text of one turn, ``<think>...</think>`` and a query or an answer.
    Observation: `reset` gives the user's message, `step` the body of ``<information>``, "" once the episode is over.
    Reward: ``reward(given, gold)`` in [0, 1] with the answer, 0 in every other turn.
    Episode end: terminated by an answer; truncated when turn `max_turns` holds none or the graph is out of order
    (``info["outage"]``, ending ``"outage"``: such an episode cannot be scored), or after `max_errors` erroneous turns
    in a row where that is given: a policy in training that is lost is not to fill a batch with its wandering.
    Turn `max_turns` - 1 is told that it was the last query. The environment draws no random numbers.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        *,
        prompt: Prompt | None = None,
        reward: Reward = em,
        max_turns: int = 10,
        max_errors: int | None = None,
    ) -> None:
        if max_turns < 2:
            raise ValueError("max_turns must be at least 2: one query and the answer")
        if max_errors is not None and max_errors < 1:
            raise ValueError("max_errors must be at least 1: so many erroneous turns in a row end an episode")
        self.toolbox, self.max_turns, self.max_errors = toolbox, max_turns, max_errors
        self.prompt = prompt or Prompt(max_turns=max_turns, max_relations=toolbox.max_relations)
        self._reward = reward
        self._question: Question | None = None
        self._session: ToolSession
        self._turns: list[Turn] = []
        self._answer: tuple[str, ...] | None = None
        self._ending: Ending | None = None
        self._outage = ""

    role = "tool"  # under which its observations are rendered

    @property
    def over(self) -> bool:
        """Whether the next call must be `reset`."""
        return self._question is None or self._ending is not None

    @property
    def waits(self) -> bool:
        """Whether a step may wait on a network: then it is worth running several episodes' steps at a time."""
        return self.toolbox.store.remote

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode on ``options["question"]``; `seed` is accepted and changes nothing."""
        question = (options or {}).get("question")
        if not isinstance(question, Question):
            raise ValueError('reset needs options={"question": Question(...)}')
        self._question, self._session = question, self.toolbox.session(question)
        self._turns, self._answer, self._ending, self._outage = [], None, None, ""
        return self.prompt.text(question), {"question_id": question.id, "turns": 0}

    def fork(self) -> "KGEnv":
        """An episode that stands where this one does; what happens in one does not change the other."""
        twin = copy(self)
        twin._turns = list(self._turns)
        if self._question is not None:
            twin._session = self._session.fork()
        return twin

    def step(self, text: str, truncated_turn: bool = False) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take one turn; `truncated_turn` says that the model's text was cut at its token cap.

        Raises `RuntimeError` before `reset` and after the end.
        """
        if self.over:
            raise RuntimeError("the episode is over (or has not begun): call reset first")
        parsed = parse_turn(text)
        if parsed.kind == "answer" and parsed.problem is None:
            return self._answered(text, parsed)
        last = len(self._turns) + 1 == self.max_turns
        observation = self._observe(parsed, last, truncated_turn)
        failed = observation.status in ("kg_timeout", "kg_error")
        self._outage = (observation.outage or observation.status.removeprefix("kg_")) if failed else ""
        if self._outage or last or self._lost(observation.status):
            self._ending = "outage" if self._outage else "budget"
        body = "" if self.over else self._body(observation, parsed)
        self._record(text, parsed, body, observation.status)
        return body, 0.0, False, self.over, self._info(observation.status, observation.text if self.over else "")

    def trajectory(self) -> Trajectory:
        """The episode so far; one that is still running has the ending ``"budget"``.

        ``extra["outage"]`` is the kind of the outage that ended it.
        """
        if self._question is None:
            raise RuntimeError("no episode has begun: call reset first")
        extra = {"outage": self._outage} if self._outage else {}
        return Trajectory(self._question, tuple(self._turns), self._answer, self._ending or "budget", extra=extra)

    def _answered(self, text: str, parsed: ParsedTurn) -> tuple[str, float, bool, bool, dict[str, Any]]:
        assert self._question is not None
        given = parse_answer(parsed.action)
        self._answer = tuple(given) if isinstance(given, list) else ()
        self._ending = "answered"
        self._record(text, parsed, "", "ok")
        return "", float(self._reward(self._answer, self._question.answers)), True, False, self._info("ok", "")

    def _observe(self, parsed: ParsedTurn, last: bool, truncated_turn: bool) -> Observation:
        if parsed.problem is not None and truncated_turn:
            return error(_CUT, "truncated")
        if last:
            return error("no query was left; this turn had to answer.", "refused")
        if parsed.problem is not None:
            return error(parsed.problem, "bad_query" if parsed.kind == "query" else "no_action")
        return self._session.run(parsed.action)

    def _lost(self, status: Status) -> bool:
        """Whether a turn with this status is the last that `max_errors` bears."""
        if self.max_errors is None:
            return False
        recent = [*(turn.status for turn in self._turns), status][-self.max_errors :]
        return len(recent) == self.max_errors and RAN.isdisjoint(recent)

    def _body(self, observation: Observation, parsed: ParsedTurn) -> str:
        lines = [observation.text]
        if parsed.extra_queries:
            lines.append(f"... only the first of your {parsed.extra_queries + 1} queries was run")
        if len(self._turns) + 2 == self.max_turns:
            lines.append(final_answer())
        return "\n".join(lines)

    def _record(self, text: str, parsed: ParsedTurn, body: str, status: Status) -> None:
        self._turns.append(Turn(sound(text), parsed.thought, parsed.kind, parsed.action, body, status))

    def _info(self, status: Status, message: str) -> dict[str, Any]:
        info: dict[str, Any] = {"status": status, "turns": len(self._turns), "outage": self._ending == "outage"}
        if self._ending is not None:
            info |= {"ending": self._ending, "message": message}
        return info
