"""The engine over a vLLM server: every row a request of its own, all of them under way together.

Each process asks for its own rows and for no other's, and an answer counts only if it names the prompt that was sent:
so no process can be handed another's completion.
"""

from collections.abc import Hashable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from typing import Any

from graphwalker.errors import UserError
from graphwalker.inference.engine import Completion, Sampling
from graphwalker.inference.vllm_http import VLLMServer
from graphwalker.inference.vllm_requests import Row
from graphwalker.protocol.chat import TURN_END, TURN_START

PROBE = f'{TURN_START}user\n<information>[Ann "Lee", a.b_c, 1946]</information>{TURN_END}\n<think>'


class VLLMServerEngine:
    """Decodes with a `VLLMServer`; ``guided`` holds every turn to the protocol's form.

    What a row draws depends on its own seed alone; which of the rows ends first is the server's affair. Raises
    ``UserError`` when the server reads other text in the ids of ``tokenizer``.
    """

    def __init__(
        self, server: VLLMServer, tokenizer: Any, *, capacity: int = 64, max_length: int = 4096, guided: bool = False
    ):
        self.server, self.tokenizer, self.capacity, self.guided = server, tokenizer, capacity, guided
        self.max_length = min(max_length, server.max_length)
        self.rows: dict[Hashable, Row] = {}
        read = server.text(tokenizer(PROBE, add_special_tokens=False)["input_ids"])
        if read is not None and read.split() != PROBE.split():
            raise UserError(
                f"the vLLM server at {server.url} serves {server.model}, whose vocabulary is another: serve the model "
                f"that is named here ({server.start})"
            )

    def add(self, key: Hashable, ids: Sequence[int], sampling: Sampling, seed: int) -> None:
        row = self.rows.setdefault(key, Row([], seed))
        asked = row.ask(ids, sampling, end=self.tokenizer.eos_token_id, max_length=self.max_length, guided=self.guided)
        row.request = self.server.ask(list(row.ids), asked)

    def step(self) -> list[Completion]:
        """Wait until at least one turn is over; raises ``UserError`` where the server fails for good."""
        under_way = [row.request for row in self.rows.values() if row.request is not None]
        over = wait(under_way, return_when=FIRST_COMPLETED).done if under_way else set()
        return [self._take(key, row) for key, row in self.rows.items() if row.request in over]

    def _take(self, key: Hashable, row: Row) -> Completion:
        turn = row.request.result()
        row.request = None
        row.ids += turn.ids
        return Completion(key, turn.ids, turn.logprobs, row.stopped(turn.ids))

    def release(self, key: Hashable) -> None:
        row = self.rows.pop(key)
        if row.request is not None:
            row.request.cancel()  # which closes its connection, and the server stops

    def finish(self) -> None:
        """The other processes' rows are none of this engine's affair; engines that keep in step have work here."""
