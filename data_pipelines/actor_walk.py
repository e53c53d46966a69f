"""One question walked through the interactive tools by its gold query: what walks of all query languages share."""

from collections.abc import Iterable
from dataclasses import replace

from data_pipelines.gold_queries import NotWalkable
from envs.kbqa_env import KBQAEnv
from graphwalker.errors import KGUnavailable
from graphwalker.protocol.interactive import DONE, EXECUTE, format_call, render_turn
from graphwalker.rewards import em_set
from graphwalker.types import Question, Trajectory


class Walk:
    """An episode that looks up what a gold query is made of, runs the query, and is done.

    A step takes of the gold which of the things shown are right; ``look_up`` is each query language's own.
    """

    def __init__(self, env: KBQAEnv, question: Question):
        self.env, self.question = env, question
        self.found = ""
        """What the last observation gave, for the next thought."""

    def look_up(self) -> str:
        """Take the steps that show all of the query, and give it as the actor writes it.

        Raises `NotWalkable` where a tool does not show what the next step needs.
        """
        raise NotImplementedError

    def run(self) -> Trajectory:
        """The trajectory, whose result is the question's gold; raises `NotWalkable` where there is none."""
        self.env.reset(options={"question": self.question})
        query = self.look_up()
        self.say("Now I can write the query.", EXECUTE, query)
        self.found = ""
        self.say("The last result is the answer.", DONE)
        trajectory = self.env.trajectory()
        if em_set(trajectory.answer or (), self.question.answers) < 1:
            raise NotWalkable("its query gives another answer than its gold here")
        return replace(trajectory, extra={**trajectory.extra, "source": "gold"})

    def check_values(self, values: Iterable[str]) -> None:
        """Raise `NotWalkable` for a value that neither the question nor an observation has."""
        texts = [self.question.text, *(turn.observation for turn in self.env.trajectory().turns)]
        seen = "\n".join(texts).casefold()
        if not all(value.casefold() in seen for value in values):
            raise NotWalkable("a value of its query is neither in the question nor in an observation")

    def say(self, thought: str, tool: str, *arguments: str) -> str:
        """Take a turn and give what was observed; the thought begins with what was found before."""
        text = render_turn(f"{self.found} {thought}", format_call(tool, *arguments))
        observation, _, answered, over, info = self.env.step(text)
        if over:
            if info["outage"]:
                raise KGUnavailable(f"question {self.question.id}: {info['message']}", "kg_error")
            raise NotWalkable("it takes more turns than there are")
        if not answered and info["status"] not in ("ok", "empty"):
            raise NotWalkable(f"a call came back {info['status']}")
        return observation
