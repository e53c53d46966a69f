"""The engine on transformers: one ragged batch that rows enter and leave at any step.

Open rows lie in front (rows 0 … n-1 of the cache), so a decoding pass reads views and copies nothing.
"""

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MethodType

import numpy as np
import torch
from torch.distributed.fsdp import FSDPModule, register_fsdp_forward_method

from graphwalker.inference.attention import grouped
from graphwalker.inference.batching import like_lengths
from graphwalker.inference.cache import RaggedCache
from graphwalker.inference.engine import Completion, Sampling
from graphwalker.inference.in_step import Alone
from graphwalker.inference.parking import Parking
from graphwalker.inference.sampling import draw

PREFILL_TOKENS = 4096  # per forward pass, padding included: bounds the activations
WAITING_SHARE = 8  # rows with new text are read once they are one in so many of the rows at work


@dataclass(slots=True, eq=False)
class _Row:
    key: Hashable
    sampling: Sampling
    random: np.random.Generator
    pending: list[int]  # tokens that are not in the cache yet
    ids: list[int] = field(default_factory=list)  # generated in this turn
    logprobs: list[float] = field(default_factory=list)
    decoding: bool = True  # False: waits for ``add`` or ``release``, or for the row that reads for it
    twins: "list[_Row]" = field(default_factory=list)  # new rows with the same tokens, which it reads for them


class TransformersEngine:
    """Decodes with a causal language model from transformers.

    ``model`` may be on any device, in any floating-point type. ``capacity`` rows are open at a time,
    and what is ``parked`` keeps so many more rows' worth of memory, besides those that are not open.
    ``stop_ids`` end a turn (default: the tokenizer's end-of-sequence token). ``in_step`` is for a model whose
    forward pass needs every process: each then calls ``finish`` after its last episode. Raises ``ValueError`` for
    a model whose layers the ragged cache does not know, or whose logits are not its output head's alone.
    """

    def __init__(
        self,
        model,
        tokenizer,
        *,
        capacity: int = 64,
        parked: int = 0,
        max_length: int | None = None,
        stop_ids: Sequence[int] | None = None,
        in_step: Alone | None = None,
    ):
        self.model, self.tokenizer, self.capacity = model, tokenizer, capacity
        config = model.config.get_text_config()
        _check_head(config)
        # within one window, sliding attention (Mistral) is full attention
        limits = [max_length, *(getattr(config, name, None) for name in ("max_position_embeddings", "sliding_window"))]
        self.max_length = min((limit for limit in limits if limit), default=2**31)
        self.stop_ids = frozenset(stop_ids or [tokenizer.eos_token_id])
        self.cache = RaggedCache(config, capacity + parked)
        self.parking = Parking(self.cache, capacity + parked)
        self.mask_by_kind = bool(getattr(config, "layer_types", None))
        self.in_step = in_step or Alone()
        self.next_logits = _entry(model)
        self.rows: list[_Row] = []  # row i of the cache
        self.position: dict[Hashable, int] = {}

    def add(self, key: Hashable, ids: Sequence[int], sampling: Sampling, seed: int) -> None:
        if key in self.position:
            row = self.rows[self.position[key]]
            row.pending.extend(ids)
            row.ids, row.logprobs, row.sampling, row.decoding = [], [], sampling, True
            return
        self._open(None, key, list(ids), sampling, seed)

    def branch(
        self, parent: Hashable, keys: Sequence[Hashable], ids: Sequence[int], sampling: Sampling, seeds: Sequence[int]
    ) -> None:
        lead = self._open(parent, keys[0], list(ids), sampling, seeds[0])
        for key, seed in zip(keys[1:], seeds[1:], strict=True):
            twin = self._open(None, key, list(ids), sampling, seed)
            twin.pending, twin.decoding = [], False
            lead.twins.append(twin)

    def _open(self, parent: Hashable, key: Hashable, ids: list[int], sampling: Sampling, seed: int) -> _Row:
        """A new row, which goes on from the parked row ``parent`` if that is kept."""
        place = len(self.rows)
        if place >= self.capacity:
            raise RuntimeError(f"all {self.capacity} rows are open; release one first")
        if not ids:
            raise ValueError("a new row needs at least one token")
        known = self.parking.take(parent, place)
        row = _Row(key, sampling, np.random.default_rng(seed), ids[known:])
        self.position[key] = place
        self.rows.append(row)
        return row

    def park(self, key: Hashable) -> None:
        self.parking.park(key, self.position[key], len(self.rows))
        self.release(key)

    def release(self, key: Hashable) -> None:
        hole = self.position.pop(key)
        self._pass_on(self.rows[hole], hole)
        last = self.rows.pop()
        if last.key != key:  # keep the open rows in front
            self.cache.move(len(self.rows), hole)
            self.rows[hole] = last
            self.position[last.key] = hole

    def _pass_on(self, row: _Row, place: int) -> None:
        """Let another read for the twins of a row that goes before it has; forget a twin that goes."""
        if row.twins:
            heir, *heir_twins = row.twins
            self.cache.move(place, self.position[heir.key])
            heir.pending, heir.decoding, heir.twins = row.pending, True, heir_twins
        elif not row.pending:  # a twin for which nothing was read yet
            for other in self.rows:
                other.twins = [twin for twin in other.twins if twin is not row]

    def finish(self) -> None:
        """Take part in the passes of other processes, until none has an episode left."""
        with self._no_gradients():
            self.in_step.finish(lambda most: self._idle())

    def step(self) -> list[Completion]:
        """Advance the rows: by one token, and those with new text through it once enough of them wait.

        A pass over a few new tokens costs as much as one over many, so rows with new text wait for others;
        meanwhile they stand in the decoding pass as idle rows, which keeps it a pass over views.
        """
        waiting = [i for i, row in enumerate(self.rows) if row.decoding and len(row.pending) > 1]
        finished = []
        with self._no_gradients():
            if len(waiting) * WAITING_SHARE >= sum(row.decoding for row in self.rows):
                finished = [done for group in self._groups(waiting) for done in self._forward(group)]
            if any(row.decoding and len(row.pending) == 1 for row in self.rows):
                finished += self._forward(None)
        return finished

    def _no_gradients(self) -> AbstractContextManager:
        # weights that a pass gathers in inference mode could not be trained afterwards
        return torch.inference_mode() if type(self.in_step) is Alone else torch.no_grad()

    def _groups(self, waiting: list[int]) -> list[list[int]]:
        """Rows to read together."""
        lengths = [len(self.rows[i].pending) for i in waiting]
        return [[waiting[i] for i in group] for group in like_lengths(lengths, PREFILL_TOKENS)]

    def _forward(self, index: list[int] | None) -> list[Completion]:
        """Read the pending tokens of the rows ``index``; ``None``: one token of every row that has just one."""
        rows = list(self.rows) if index is None else [self.rows[i] for i in index]
        busy = [row.decoding and (index is not None or len(row.pending) == 1) for row in rows]
        new = [len(row.pending) if at_work else 0 for row, at_work in zip(rows, busy, strict=True)]
        width, device = max(new), self.model.device
        padded = [row.pending[:n] + [0] * (width - n) for row, n in zip(rows, new, strict=True)]
        positions, mask = self.cache.begin(index, new, device)
        by_kind = {kind: mask if kind == "full_attention" else None for kind in self.cache.kinds}
        self.in_step.agree(1)
        with grouped(self.model):
            logits = self.next_logits(
                torch.tensor(new, device=device) - 1,
                input_ids=torch.tensor(padded, device=device),  # (B, T)
                attention_mask=by_kind if self.mask_by_kind else mask,
                position_ids=positions,
                past_key_values=self.cache,
                use_cache=True,
            )  # (B, V)
        source = self._join_twins(rows, busy)
        logits = logits[source] if len(source) > len(logits) else logits
        drawing = [at_work and not row.sampling.greedy for row, at_work in zip(rows, busy, strict=True)]
        uniforms = [row.random.random() if draws else 0.0 for row, draws in zip(rows, drawing, strict=True)]
        tokens, logprobs = draw(logits, [row.sampling for row in rows], uniforms)
        drawn = zip(rows, tokens, logprobs, busy, strict=True)
        taken = [self._take(row, token, logprob) for row, token, logprob, at_work in drawn if at_work]
        return [done for done in taken if done]

    def _join_twins(self, rows: list[_Row], busy: list[bool]) -> list[int]:
        """Add to the rows of a pass the twins of those that it read for; the row of the logits that each draws from."""
        source = list(range(len(rows)))
        for i, row in enumerate(list(rows)):
            if busy[i]:
                for twin in row.twins:
                    self.cache.move(self.position[row.key], self.position[twin.key])
                    twin.decoding = True
                    rows.append(twin)
                    busy.append(True)
                    source.append(i)
                row.twins = []
        return source

    def _idle(self) -> None:
        """A pass over one token that nobody reads."""
        token = torch.zeros(1, 1, dtype=torch.long, device=self.model.device)
        self.next_logits(token[0], input_ids=token, use_cache=False)

    def _take(self, row: _Row, token: int, logprob: float) -> Completion | None:
        """Append a drawn token to its row; the turn, if that ended it."""
        row.pending = [token]
        row.ids.append(token)
        row.logprobs.append(logprob)
        stopped = token in self.stop_ids or token in row.sampling.stop
        full = self.cache.lengths[self.position[row.key]] + 1 >= self.max_length
        if not (stopped or full or len(row.ids) >= row.sampling.max_new_tokens):
            return None
        row.decoding = False
        return Completion(row.key, row.ids, row.logprobs, stopped)


def _next_logits(model, last: torch.Tensor, **inputs) -> torch.Tensor:
    """Logits (B, V) after the positions ``last`` (B,); the output head runs on one position a row only."""
    hidden = model.get_decoder()(**inputs).last_hidden_state  # (B, T, C)
    return model.get_output_embeddings()(hidden[torch.arange(len(last), device=last.device), last])


def _entry(model) -> Callable[..., torch.Tensor]:
    """`_next_logits` of a model; a sharded one (FSDP2) is entered at its root, which gathers what no layer owns."""
    if not isinstance(model, FSDPModule):
        return MethodType(_next_logits, model)
    if not hasattr(model, "next_logits"):
        model.next_logits = MethodType(_next_logits, model)
        register_fsdp_forward_method(model, "next_logits")
    return model.next_logits


def _check_head(config) -> None:
    """Some families rescale their logits in ``forward``, which a pass on one position a row leaves out."""
    for name in ("final_logit_softcapping", "logit_scale", "logits_scaling"):
        if getattr(config, name, None) not in (None, 1, 1.0):
            raise ValueError(f"models with {name} are not supported")
