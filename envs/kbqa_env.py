"""One question as an episode of Interactive-KBQA's protocol: calls of tools, then Done (MCTS-KBQA, section 3.1)."""

import copy
from typing import Any, Self

from envs.kg_env import Reward
from graphwalker.protocol.escape import sound
from graphwalker.protocol.interactive import PROTOCOL, parse_turn
from graphwalker.protocol.parse import ParsedTurn
from graphwalker.protocol.prompts import Prompt
from graphwalker.rewards import em
from graphwalker.tools.kbqa.toolbox import Executed, KBQAToolbox
from graphwalker.tools.observation import Observation, error
from graphwalker.types import RAN, Ending, Question, Status, Trajectory, Turn

MAX_TURNS = 15
"""The maximum depth. The paper gives none; its expected depth is 7 and Eq. 4 leaves nothing of a reward at depth 17."""
_CUT = "your turn was cut at its length limit. Think less."


class KBQAEnv:
    """A knowledge base that answers a model's calls until the model says Done.

    Action: the text of one turn, ``Thought: …`` and ``Action: …``.
    Observation: `reset` gives the user's message, `step` what stands after ``Observation: ``, "" once the episode is
    over.
    Reward: ``reward(answer, gold)`` in [0, 1] with Done, 0 in every other turn. The answer is what the last query that
    ran has found: names, else the text of its values, "true" or "false" (KQA Pro: "yes" or "no") of an ASK; nothing
    where none ran.
    Episode end: terminated by Done; truncated when turn `max_turns` is another, which is then not run (ending
    ``"budget"``), after `max_errors` erroneous turns in a row where that is given, or when the graph is out of order
    (``"outage"``). A query that takes too long is an observation: the model wrote it.
    The environment draws no random numbers. `fork` gives an episode that goes on from here by itself.
    """

    role = "user"
    """Under which observations stand in the conversation."""

    def __init__(
        self,
        toolbox: KBQAToolbox,
        *,
        prompt: Prompt | None = None,
        reward: Reward = em,
        max_turns: int = MAX_TURNS,
        max_errors: int | None = None,
    ) -> None:
        if max_turns < 2:
            raise ValueError("max_turns must be at least 2: one query and Done")
        if max_errors is not None and max_errors < 1:
            raise ValueError("max_errors must be at least 1: so many erroneous turns in a row end an episode")
        self.toolbox, self.max_turns, self.max_errors = toolbox, max_turns, max_errors
        self.prompt = prompt or Prompt(f"interactive_{toolbox.kind}", max_turns=max_turns)
        self._reward = reward
        self._question: Question | None = None
        self._turns: list[Turn] = []
        self._executed: Executed | None = None
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
        return self.toolbox.store.remote

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode on ``options["question"]``; `seed` is accepted and changes nothing."""
        question = (options or {}).get("question")
        if not isinstance(question, Question):
            raise ValueError('reset needs options={"question": Question(...)}')
        self._question, self._executed = question, None
        self._turns, self._answer, self._ending, self._outage = [], None, None, ""
        return self.prompt.text(question), {"question_id": question.id, "turns": 0}

    def fork(self) -> Self:
        """An episode that stands where this one does; what happens in one does not change the other."""
        other = copy.copy(self)
        other._turns = list(self._turns)
        return other

    def step(self, text: str, truncated_turn: bool = False) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take one turn; `truncated_turn` says that the model's text was cut at its token cap.

        Raises `RuntimeError` before `reset` and after the end.
        """
        if self.over:
            raise RuntimeError("the episode is over (or has not begun): call reset first")
        parsed = parse_turn(text)
        if parsed.kind == "answer":
            return self._done(text, parsed)
        last = len(self._turns) + 1 == self.max_turns
        observation = self._observe(parsed, last, truncated_turn)
        self._outage = (observation.outage or "error") if observation.status == "kg_error" else ""
        if self._outage or last or self._lost(observation.status):
            self._ending = "outage" if self._outage else "budget"
        body = "" if self.over else self._body(observation, parsed)
        self._record(text, parsed, body, observation.status)
        return body, 0.0, False, self.over, self._info(observation.status, observation.text if self.over else "")

    def trajectory(self) -> Trajectory:
        """The episode so far; one that is still running has the ending ``"budget"``.

        ``extra`` has ``"sparql"`` (the last query that ran, "" where none did), ``"executable"`` (whether it found
        anything) and, of an outage that ended it, ``"outage"`` (its kind).
        """
        if self._question is None:
            raise RuntimeError("no episode has begun: call reset first")
        done = self._executed
        extra = {"protocol": PROTOCOL, "sparql": done.sparql if done else "", "executable": bool(done and done.found)}
        if self._outage:
            extra["outage"] = self._outage
        return Trajectory(self._question, tuple(self._turns), self._answer, self._ending or "budget", extra=extra)

    def _done(self, text: str, parsed: ParsedTurn) -> tuple[str, float, bool, bool, dict[str, Any]]:
        assert self._question is not None
        self._answer = self._executed.answer if self._executed else ()
        self._ending = "answered"
        self._record(text, parsed, "", "ok")
        return "", float(self._reward(self._answer, self._question.answers)), True, False, self._info("ok", "")

    def _observe(self, parsed: ParsedTurn, last: bool, truncated_turn: bool) -> Observation:
        if parsed.problem is not None and truncated_turn:
            return error(_CUT, "truncated")
        if last:
            return error("no call was left; this turn had to be Done.", "refused")
        if parsed.problem is not None:
            return error(parsed.problem, "bad_query" if parsed.kind == "query" else "no_action")
        said = self.toolbox.run(parsed.action)
        if said.executed is not None:
            self._executed = said.executed
        return said.observation

    def _lost(self, status: Status) -> bool:
        """Whether a turn with this status is the last that `max_errors` bears."""
        if self.max_errors is None:
            return False
        recent = [*(turn.status for turn in self._turns), status][-self.max_errors :]
        return len(recent) == self.max_errors and RAN.isdisjoint(recent)

    def _body(self, observation: Observation, parsed: ParsedTurn) -> str:
        if not parsed.extra_queries:
            return observation.text
        return f"{observation.text}\n... only the first of your {parsed.extra_queries + 1} actions was run"

    def _record(self, text: str, parsed: ParsedTurn, body: str, status: Status) -> None:
        self._turns.append(Turn(sound(text), parsed.thought, parsed.kind, parsed.action, body, status))

    def _info(self, status: Status, message: str) -> dict[str, Any]:
        info: dict[str, Any] = {"status": status, "turns": len(self._turns), "outage": self._ending == "outage"}
        if self._ending is not None:
            info |= {"ending": self._ending, "message": message}
        return info
