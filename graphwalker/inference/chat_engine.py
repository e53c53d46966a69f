"""The engine over any OpenAI-compatible server: a turn is one request, and what is sent are messages.

Such a server shows no tokens. A row holds pieces of text instead, each about as long as a token, so that an episode is
bounded as on any engine; no log-probabilities are known.
"""

import math
import re
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from graphwalker.errors import KGUnavailable, UserError
from graphwalker.inference.engine import Completion, Sampling
from graphwalker.protocol import chat
from graphwalker.protocol.interactive import PROTOCOL
from graphwalker.protocol.prompts import Prompt
from graphwalker.tools.chat_server import ChatServer, Reply, ServerDown
from graphwalker.tools.prompted import PromptedActor, read_examples
from graphwalker.types import Question

_PIECE = re.compile(rf"{re.escape(chat.TURN_START)}|{re.escape(chat.TURN_END)}| ?\w{{1,5}}|\s+|.", re.DOTALL)
_EVERYONE_S = (401, 403, 404)  # what a server refuses for its key or the model's name, whatever is asked
TURN_SECONDS = 300.0  # one turn may take, where many are under way
_IN_A_ROW = 20  # turns that fail before a server is thought to be out of order


class TextPieces:
    """What an engine's tokenizer does, on pieces of text; ids are given out as pieces are met."""

    eos_token = chat.TURN_END

    def __init__(self) -> None:
        self._pieces = [self.eos_token]
        self._ids = {self.eos_token: 0}
        self.eos_token_id = 0

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [self._id(piece) for piece in _PIECE.findall(text)]}

    def decode(self, ids: Iterable[int], **_: Any) -> str:
        return "".join(self._pieces[i] for i in ids)

    def apply_chat_template(self, conversation: list[dict], *, add_generation_prompt: bool, **_: Any) -> str:
        return chat.render(conversation, open_turn=add_generation_prompt)

    def _id(self, piece: str) -> int:
        if (known := self._ids.setdefault(piece, len(self._pieces))) == len(self._pieces):
            self._pieces.append(piece)
        return known


@dataclass(slots=True)
class _Row:
    seed: int
    ids: list[int] = field(default_factory=list)
    turns: int = 0
    request: "Future[Reply] | None" = None


class ChatEngine:
    """Decodes with a `PromptedActor`, so many rows under way together.

    A request that fails for itself gives a `Completion` with its ``error``. Where none can succeed (nobody listens, too
    many are asked, the key or the model is unknown), `step` raises ``UserError``.
    """

    def __init__(self, actor: PromptedActor, *, capacity: int = 8, max_length: int = 4096):
        self.actor, self.capacity, self.max_length = actor, capacity, max_length
        self.tokenizer = TextPieces()
        self.rows: dict[Hashable, _Row] = {}
        self._threads = ThreadPoolExecutor(capacity, "chat")
        self._failed = 0  # turns since the last that came

    def add(self, key: Hashable, ids: Sequence[int], sampling: Sampling, seed: int) -> None:
        row = self.rows.setdefault(key, _Row(seed))
        row.ids += ids
        row.turns += 1
        asked: dict[str, Any] = {"temperature": 0.0 if sampling.greedy else sampling.temperature}
        if sampling.top_p < 1:
            asked["top_p"] = sampling.top_p
        asked["seed"] = (row.seed + row.turns - 1) % 2**31  # some servers read no larger one
        messages = chat.parse(self.tokenizer.decode(row.ids))
        row.request = self._threads.submit(self.actor.turn, messages, sampling.max_new_tokens, **asked)

    def step(self) -> list[Completion]:
        """Wait until at least one turn is over."""
        under_way = [row.request for row in self.rows.values() if row.request is not None]
        over = wait(under_way, return_when=FIRST_COMPLETED).done if under_way else set()
        return [self._take(key, row) for key, row in self.rows.items() if row.request in over]

    def release(self, key: Hashable) -> None:
        if (request := self.rows.pop(key).request) is not None:
            request.cancel()

    def finish(self) -> None:
        """The other processes' rows are none of this engine's affair; engines that keep in step have work here."""

    def _take(self, key: Hashable, row: _Row) -> Completion:
        assert row.request is not None
        request, row.request = row.request, None
        try:
            reply = request.result()
        except (KGUnavailable, UserError) as error:
            return self._failure(key, error)
        self._failed = 0
        ids = self.tokenizer(reply.text)["input_ids"]
        if not reply.cut:
            ids.append(self.tokenizer.eos_token_id)
        row.ids += ids
        return Completion(key, ids, [math.nan] * len(ids), not reply.cut)

    def _failure(self, key: Hashable, error: Exception) -> Completion:
        self._failed += 1
        everyone_s = isinstance(error, ServerDown) or getattr(error, "code", None) in _EVERYONE_S
        if everyone_s or self._failed >= _IN_A_ROW:
            self._threads.shutdown(wait=False, cancel_futures=True)
            raise UserError(f"{error}; the same command goes on from where this one stopped") from error
        # the graph is in order: this is no outage of it
        return Completion(key, [], [], False, error if isinstance(error, UserError) else UserError(str(error)))


def load_chat_engine(
    model: str,
    url: str | None,
    prompt: Prompt,
    *,
    protocol: str = PROTOCOL,
    examples: str | None = None,
    shots: int | None = None,
    cache: str | None = None,
    questions: Sequence[Question] = (),
    capacity: int = 8,
    max_length: int = 4096,
) -> ChatEngine:
    """The engine for a `model`, as the server at `url` calls it, that is shown the first `shots` (all) of `examples`.

    Raises ``UserError`` where the server does not answer or does not have the model, for too few examples and for one
    whose question is among the `questions` to be answered.
    """
    if url is None:
        raise UserError("url is missing: the backend openai needs the server's address (http://localhost:8000/v1)")
    if shots and examples is None:
        raise UserError("examples is missing: name the file of the worked trajectories that are shown, or say shots: 0")
    worked = read_examples(examples, shots, protocol=protocol) if examples and shots != 0 else []
    asked = {question.text for question in questions}
    if known := [example.question.id for example in worked if example.question.text in asked]:
        raise UserError(f"{examples}: the example {known[0]} is one of the questions to be answered")
    server = ChatServer(url, model, who="actor", cache=cache, timeout=TURN_SECONDS)
    actor = PromptedActor(server, prompt, worked, protocol=protocol)
    server.check()
    return ChatEngine(actor, capacity=capacity, max_length=max_length)
