"""One question as an episode of GraphWalker's protocol: queries, then an answer (section 3 and appendix F)."""

from typing import Self

from envs.episode import Reward, ToolEnv
from graphwalker.protocol.parse import ParsedTurn, parse_answer, parse_turn
from graphwalker.protocol.prompts import Prompt, final_answer
from graphwalker.rewards import em
from graphwalker.tools.observation import Observation
from graphwalker.tools.session import ToolSession
from graphwalker.tools.toolbox import Toolbox
from graphwalker.types import Question


class KGEnv(ToolEnv):
    """A knowledge graph that answers a model's turns until it answers the question.

    Action: the text of one turn, ``<think>...</think>`` and a query or an answer.
    Observation: `reset` gives the user's message, `step` the body of ``<information>``, "" once the episode is over.
    Turn `max_turns` - 1 is told that it was the last query. A query that takes too long is an outage. Reward and ends
    are those of every `EpisodeEnv`.
    """

    must_answer = "no query was left; this turn had to answer."

    def __init__(
        self,
        toolbox: Toolbox,
        *,
        prompt: Prompt | None = None,
        reward: Reward = em,
        max_turns: int = 10,
        max_errors: int | None = None,
    ) -> None:
        prompt = prompt or Prompt(max_turns=max_turns, max_relations=toolbox.max_relations)
        super().__init__(toolbox.store, prompt, reward, max_turns, max_errors)
        self.toolbox = toolbox
        self._session: ToolSession

    def fork(self) -> Self:
        """An episode that stands where this one does; what happens in one does not change the other."""
        twin = super().fork()
        if self._question is not None:
            twin._session = self._session.fork()
        return twin

    def _begun(self, question: Question) -> str:
        self._session = self.toolbox.session(question)
        return super()._begun(question)

    def _parse(self, text: str) -> ParsedTurn:
        return parse_turn(text)

    def _answer_of(self, parsed: ParsedTurn) -> tuple[str, ...] | None:
        if parsed.kind != "answer" or parsed.problem is not None:
            return None
        given = parse_answer(parsed.action)
        return tuple(given) if isinstance(given, list) else ()

    def _call(self, action: str) -> Observation:
        return self._session.run(action)

    def _outage_of(self, observation: Observation) -> str:
        failed = observation.status in ("kg_timeout", "kg_error")
        return (observation.outage or observation.status.removeprefix("kg_")) if failed else ""

    def _body(self, observation: Observation, parsed: ParsedTurn) -> str:
        body = super()._body(observation, parsed)
        return f"{body}\n{final_answer()}" if len(self._turns) + 2 == self.max_turns else body
