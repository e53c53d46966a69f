"""What the rollout harness asks of a decoding engine, whatever runs the model.

An engine holds *rows*: token sequences in progress, each under the caller's key. ``add`` starts a row
or continues one with new tokens (an observation); ``step`` advances all rows by at least one token and
returns those whose turn is over; ``release`` frees a row. Rows are independent, so finished ones are
refilled at once and no row waits for the longest of its batch.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a turn is decoded.

    ``temperature`` 0, or so low that logits over it would overflow (below 1e-6), is greedy. ``top_p`` in (0, 1];
    ``top_k`` 0 means all. ``max_new_tokens`` caps one turn, the end-of-turn token included: without a cap one straggler
    holds the batch. ``stop`` are tokens that end a turn beside the engine's own end.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_new_tokens: int = 512
    stop: tuple[int, ...] = ()

    @property
    def greedy(self) -> bool:
        return self.temperature < 1e-6


@dataclass(frozen=True, slots=True)
class Completion:
    """One finished turn: the tokens generated, the token that ended it included when ``stopped``.

    ``logprobs`` are of the sampled tokens under the (temperature-scaled) distribution, one a token.
    ``stopped`` is False when the turn was cut at its token cap. ``error`` says that there is no turn: what went wrong
    with this row alone.
    """

    key: Hashable
    ids: list[int]
    logprobs: list[float]
    stopped: bool
    error: Exception | None = None


class Engine(Protocol):
    """A decoding engine; see the module's docstring."""

    tokenizer: Any
    capacity: int  # rows that may be open at a time
    max_length: int  # tokens a row may hold

    def add(self, key: Hashable, ids: Sequence[int], sampling: Sampling, seed: int) -> None:
        """Append ``ids`` to the row (a new one if the key is new) and let it decode one turn.

        ``seed`` starts the row's own random stream; it is read when the row is new.
        """
        ...

    def step(self) -> list[Completion]: ...

    def release(self, key: Hashable) -> None: ...

    def finish(self) -> None:
        """Called after the last row: take part in the passes of other processes, where a pass needs them all."""
        ...


@runtime_checkable
class BranchingEngine(Engine, Protocol):
    """An engine whose rows can start from a common past that is read once. vLLM's prefix cache needs no telling."""

    def park(self, key: Hashable) -> None:
        """Release a row whose turn is over, but keep what was read of it for as long as there is room."""
        ...

    def branch(
        self, parent: Hashable, keys: Sequence[Hashable], ids: Sequence[int], sampling: Sampling, seeds: Sequence[int]
    ) -> None:
        """Start a row for each key as ``add`` would, all with the same ``ids`` and each with a seed of its own.

        ``ids`` go on from what the row ``parent`` held when it was parked, if it was; what is still kept of that is
        not read again, and ``parent`` is gone.
        """
        ...
