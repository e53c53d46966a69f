"""The engine over a function that decodes one turn of a batch, such as TRL's vLLM generation.

In server mode TRL sends the prompts of all processes as one request, and with tensor parallelism those of a group: it
hands each process the share that follows from its rank, which is right only while all have equally many. So every
process fills up its batch with a dummy to the size of the largest.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from graphwalker.inference.engine import Completion, Sampling
from graphwalker.inference.in_step import Alone

Turns = tuple[Sequence[Sequence[int]], Sequence[Sequence[float]]]


@dataclass(slots=True)
class _Row:
    ids: list[int]
    waits: bool = True


class TurnEngine:
    """Decodes a turn of every waiting row at a time.

    ``generate`` maps token ids of prompts to those of the turns, the end-of-turn token included, and their
    log-probabilities; how it samples is its own affair. A turn that is longer than its ``Sampling`` or its row allows
    is cut.
    """

    def __init__(
        self,
        generate: Callable[[list[list[int]]], Turns],
        tokenizer: Any,
        *,
        capacity: int = 64,
        max_length: int = 4096,
        in_step: Alone | None = None,
    ):
        self.generate, self.tokenizer = generate, tokenizer
        self.capacity, self.max_length = capacity, max_length
        self.in_step = in_step or Alone()
        self.rows: dict[Hashable, _Row] = {}
        self.limit: dict[Hashable, int] = {}

    def add(self, key: Hashable, ids: Sequence[int], sampling: Sampling, seed: int) -> None:
        row = self.rows.setdefault(key, _Row([]))
        row.ids += ids
        row.waits = True
        self.limit[key] = min(sampling.max_new_tokens, self.max_length - len(row.ids))

    def step(self) -> list[Completion]:
        waiting = [key for key, row in self.rows.items() if row.waits]
        turns, logprobs = self._generate([self.rows[key].ids for key in waiting], self.in_step.agree(len(waiting)))
        # what came for dummies is left
        return [self._take(*turn) for turn in zip(waiting, turns, logprobs, strict=False)]

    def finish(self) -> None:
        """Take part in the turns of other processes, until none has an episode left."""
        self.in_step.finish(lambda most: self._generate([], most))

    def release(self, key: Hashable) -> None:
        del self.rows[key], self.limit[key]

    def _generate(self, prompts: list[list[int]], most: int) -> Turns:
        dummy = [[self.tokenizer.eos_token_id]] * (most - len(prompts))
        return self.generate([list(ids) for ids in prompts] + dummy)

    def _take(self, key: Hashable, ids: Sequence[int], logprobs: Sequence[float]) -> Completion:
        row, limit = self.rows[key], self.limit[key]
        made = list(ids[:limit])
        row.ids += made
        row.waits = False
        return Completion(key, made, list(logprobs[:limit]), bool(made) and made[-1] == self.tokenizer.eos_token_id)
