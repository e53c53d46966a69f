"""CoT scoring: a prompted model thinks about a state and names a score (MCTS-KBQA, section 4.2 and appendix A.3)."""

import logging
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from jinja2 import Environment, StrictUndefined

from graphwalker.errors import KGUnavailable, UserError
from graphwalker.inference.chat_tokens import ChatTokens
from graphwalker.inference.engine import Engine, Sampling
from graphwalker.protocol.escape import escape_tags
from graphwalker.protocol.prompts import read_template
from graphwalker.search.node import Node, question_of
from graphwalker.tools.chat_server import ChatServer
from graphwalker.types import Question, Turn

Judge = Callable[[Sequence[str]], Sequence[str]]
"""A model's replies to messages, one a message."""

HIGHEST = 10
_SCORE = re.compile(r"score\W{0,8}(\d{1,2}(?:\.\d{1,3})?)(?![\d.]*\d)", re.IGNORECASE)
_LONGEST = 2000  # characters of an observation that the judge is shown
_log = logging.getLogger(__name__)


class ChainOfThought:
    """A value function: the score of a judge's last ``Score: N``, N from 0 to 10, brought to [0, ``alpha``].

    A reply without one gives 0 and is counted in ``counts["malformed"]``; ``states`` are all that were asked for and
    ``asked`` those that the model was asked about (equal states are judged once).
    """

    def __init__(self, judge: Judge, *, alpha: float = 2.0):
        self.judge, self.alpha = judge, alpha
        self.counts: Counter[str] = Counter()
        self._known: dict[str, float] = {}
        self._prompt = Environment(undefined=StrictUndefined).from_string(read_template("cot_value.jinja"))

    def __call__(self, nodes: Sequence[Node]) -> list[float]:
        texts = [self.message(question_of(node), node.turns()) for node in nodes]
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        self.counts["states"] += len(texts)
        self.counts["asked"] += len(new)
        for text, reply in zip(new, self.judge(new) if new else (), strict=True):
            self._known[text] = self._score(reply)
        return [self._known[text] for text in texts]

    def message(self, question: Question, turns: Sequence[Turn]) -> str:
        """What the judge is asked: the question and the whole history, thoughts included."""
        shown = [(escape_tags(turn.text), escape_tags(turn.observation[:_LONGEST])) for turn in turns]
        return self._prompt.render(question=escape_tags(question.text), turns=shown, highest=HIGHEST)

    def _score(self, reply: str) -> float:
        found = [float(number) for number in _SCORE.findall(reply)]
        if not found or found[-1] > HIGHEST:
            self.counts["malformed"] += 1
            if self.counts["malformed"] == 1:
                _log.warning("cot: no score from 0 to %d in the reply %r; it counts as 0 (said once)", HIGHEST,
                             reply[-200:])  # fmt: skip
            return 0.0
        return self.alpha * found[-1] / HIGHEST


class EngineJudge:
    """A judge that runs on an engine of this project, greedily, as many messages at a time as it has rows."""

    def __init__(self, engine: Engine, max_new_tokens: int = 512):
        self.engine, self.sampling = engine, Sampling(temperature=0.0, max_new_tokens=max_new_tokens)
        self.chat = ChatTokens(engine.tokenizer)

    def __call__(self, messages: Sequence[str]) -> list[str]:
        replies = dict(self._run(messages))
        return [replies[i] for i in range(len(messages))]

    def _run(self, messages: Sequence[str]) -> Iterator[tuple[Hashable, str]]:
        """The place of each message and its reply, as they end."""
        waiting = list(enumerate(messages))[::-1]
        running = 0
        while waiting or running:
            while waiting and running < self.engine.capacity:
                place, text = waiting.pop()
                self.engine.add(place, self._fitting(text), self.sampling, seed=0)
                running += 1
            for done in self.engine.step():
                self.engine.release(done.key)
                running -= 1
                yield done.key, self.engine.tokenizer.decode(done.ids, skip_special_tokens=True)

    def _fitting(self, text: str) -> list[int]:
        """The message's ids; where a row has no room for them, without their middle: question and latest step stay."""
        room = self.engine.max_length - min(self.sampling.max_new_tokens, self.engine.max_length // 2)
        ids = self.chat.prompt([{"role": "user", "content": text}])
        over = len(ids) - room
        return ids if over <= 0 else ids[: room // 2] + ids[room // 2 + over :]


class ServerJudge:
    """A judge behind any OpenAI-compatible server, so many messages under way together."""

    def __init__(self, server: ChatServer, max_tokens: int = 512, together: int = 16):
        self.server, self.max_tokens, self.together = server, max_tokens, together

    def __call__(self, messages: Sequence[str]) -> list[str]:
        """Raises ``UserError`` where the server does not answer or refuses."""
        with ThreadPoolExecutor(self.together, "judge") as threads:
            return list(threads.map(self._reply, messages))

    def _reply(self, message: str) -> str:
        try:
            return self.server.reply([{"role": "user", "content": message}], self.max_tokens)
        except KGUnavailable as error:  # the judge's outage is none of the knowledge graph's
            raise UserError(f"{error}; the same command goes on from where this one stopped") from error
