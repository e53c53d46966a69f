"""An actor that is a language model as it is, behind an OpenAI-compatible server."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphwalker.errors import UserError
from graphwalker.files import read_jsonl
from graphwalker.protocol import chat
from graphwalker.protocol.interactive import OBSERVATION, PROTOCOL
from graphwalker.protocol.prompts import Prompt
from graphwalker.tools.chat_server import ChatServer, Reply
from graphwalker.types import Trajectory

STOPS = {PROTOCOL: "\n" + OBSERVATION.strip(), "graphwalker": "<information>"}
"""What a model begins to write in an observation's place, by protocol: its turn has ended before."""

_CONTROL = re.compile(f"<(?={re.escape(chat.TURN_START[1:])}|{re.escape(chat.TURN_END[1:])})")  # none forges a turn


class PromptedActor:
    """Writes turns of a protocol. `examples` are trajectories that it is shown first, under the same `prompt`."""

    def __init__(
        self, server: ChatServer, prompt: Prompt, examples: Sequence[Trajectory] = (), *, protocol: str = PROTOCOL
    ):
        if protocol not in STOPS:
            raise UserError(f"a prompted model acts in one of the protocols {', '.join(STOPS)}, not in {protocol}")
        self.server, self.shown, self._stop = server, chat.shown_first(examples, prompt), STOPS[protocol]

    def turn(self, messages: Sequence[dict[str, str]], max_tokens: int, **sampling: Any) -> Reply:
        """The model's next turn after the messages of an episode; raises as `ChatServer.reply` does."""
        reply = self.server.complete([*self.shown, *messages], max_tokens, stop=[self._stop], **sampling)
        text, stop, _ = reply.text.partition(self._stop)
        return Reply(_CONTROL.sub("\\\\u003c", text.strip()), reply.cut and not stop)


def read_examples(path: str | Path, shots: int | None = None, *, protocol: str = PROTOCOL) -> list[Trajectory]:
    """The first `shots` (all) worked trajectories of a file.

    Raises `UserError` where it holds fewer, or another protocol's, and `FileFormatError` for a broken record.
    """
    examples = list(read_jsonl(path, Trajectory))[:shots]
    if any(example.extra.get("protocol", "graphwalker") != protocol for example in examples):
        raise UserError(f"{path}: not trajectories of the {protocol} protocol")
    if len(examples) < (shots or 0):
        raise UserError(f"{path}: {shots} examples are to be shown, and it holds {len(examples)}")
    return examples
