"""One question as an episode of Interactive-KBQA's protocol: calls of tools, then Done (MCTS-KBQA, section 3.1)."""

from typing import Any

from envs.episode import Reward, ToolEnv
from graphwalker.protocol.interactive import PROTOCOL, parse_turn
from graphwalker.protocol.parse import ParsedTurn
from graphwalker.protocol.prompts import Prompt
from graphwalker.rewards import em
from graphwalker.tools.kbqa.toolbox import Executed, KBQAToolbox
from graphwalker.tools.observation import Observation
from graphwalker.types import Question

MAX_TURNS = 15
"""The maximum depth. The paper gives none; its expected depth is 7 and Eq. 4 leaves nothing of a reward at depth 17."""


class KBQAEnv(ToolEnv):
    """A knowledge base that answers a model's calls until the model says Done.

    Action: the text of one turn, ``Thought: …`` and ``Action: …``.
    Observation: `reset` gives the user's message, `step` what stands after ``Observation: ``, "" once the episode is
    over.
    The answer is what the last query that ran has found: names, else the text of its values, "true" or "false" (KQA
    Pro: "yes" or "no") of an ASK; nothing where none ran. A query that takes too long is an observation: the model
    wrote it. Reward and ends are those of every `EpisodeEnv`; a call in turn `max_turns` is not run. A trajectory's
    ``extra`` has ``"sparql"`` (the last query that ran, "" where none did) and ``"executable"`` (whether it found
    anything).
    """

    role = "user"
    must_answer = "no call was left; this turn had to be Done."
    calls = "actions"

    def __init__(
        self,
        toolbox: KBQAToolbox,
        *,
        prompt: Prompt | None = None,
        reward: Reward = em,
        max_turns: int = MAX_TURNS,
        max_errors: int | None = None,
    ) -> None:
        prompt = prompt or Prompt(f"interactive_{toolbox.kind}", max_turns=max_turns)
        super().__init__(toolbox.store, prompt, reward, max_turns, max_errors)
        self.toolbox = toolbox
        self._executed: Executed | None = None

    def _extra(self) -> dict[str, Any]:
        done = self._executed
        return {"protocol": PROTOCOL, "sparql": done.sparql if done else "", "executable": bool(done and done.found)}

    def _begun(self, question: Question) -> str:
        self._executed = None
        return super()._begun(question)

    def _parse(self, text: str) -> ParsedTurn:
        return parse_turn(text)

    def _answer_of(self, parsed: ParsedTurn) -> tuple[str, ...] | None:
        if parsed.kind != "answer":
            return None
        return self._executed.answer if self._executed else ()

    def _call(self, action: str) -> Observation:
        said = self.toolbox.run(action)
        if said.executed is not None:
            self._executed = said.executed
        return said.observation

    def _outage_of(self, observation: Observation) -> str:
        return (observation.outage or "error") if observation.status == "kg_error" else ""
