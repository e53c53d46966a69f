"""The engine on transformers: one ragged batch that rows enter and leave at any step.

Open rows lie in front (rows 0 … n-1 of the cache), so a decoding pass reads views and copies nothing.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from graphwalker.inference.cache import RaggedCache
from graphwalker.inference.engine import Completion, Sampling
from graphwalker.inference.sampling import draw

PREFILL_TOKENS = 4096  # per forward pass, padding included: bounds the activations of a prefill


@dataclass(slots=True)
class _Row:
    key: Hashable
    sampling: Sampling
    random: np.random.Generator
    pending: list[int]  # tokens that are not in the cache yet
    ids: list[int] = field(default_factory=list)  # generated in this turn
    logprobs: list[float] = field(default_factory=list)
    decoding: bool = True  # False: waits for ``add`` or ``release``


class TransformersEngine:
    """Decodes with a causal language model from transformers.

    ``model`` may be on any device, in any floating-point type. ``capacity`` rows are open at a time.
    ``stop_ids`` end a turn (default: the tokenizer's end-of-sequence token). Raises ``ValueError`` for a
    model whose layers the ragged cache does not know.
    """

    def __init__(
        self,
        model,
        tokenizer,
        *,
        capacity: int = 64,
        max_length: int | None = None,
        stop_ids: Sequence[int] | None = None,
    ):
        self.model, self.tokenizer, self.capacity = model, tokenizer, capacity
        config = model.config.get_text_config()
        limit = getattr(config, "max_position_embeddings", None) or 2**31
        self.max_length = min(limit, max_length or limit)
        self.stop_ids = frozenset(stop_ids or [tokenizer.eos_token_id])
        self.cache = RaggedCache(config, capacity)
        self.mask_by_kind = bool(getattr(config, "layer_types", None))
        self.rows: list[_Row] = []  # row i of the cache
        self.position: dict[Hashable, int] = {}

    def add(self, key: Hashable, ids: Sequence[int], sampling: Sampling, seed: int) -> None:
        if key in self.position:
            row = self.rows[self.position[key]]
            row.pending.extend(ids)
            row.ids, row.logprobs, row.sampling, row.decoding = [], [], sampling, True
            return
        if len(self.rows) >= self.capacity:
            raise RuntimeError(f"all {self.capacity} rows are open; release one first")
        if not ids:
            raise ValueError("a new row needs at least one token")
        self.cache.clear(len(self.rows))
        self.position[key] = len(self.rows)
        self.rows.append(_Row(key, sampling, np.random.default_rng(seed), list(ids)))

    def release(self, key: Hashable) -> None:
        hole = self.position.pop(key)
        last = self.rows.pop()
        if last.key != key:  # keep the open rows in front
            self.cache.move(len(self.rows), hole)
            self.rows[hole] = last
            self.position[last.key] = hole

    @torch.inference_mode()
    def step(self) -> list[Completion]:
        """Advance every decoding row by one token: rows with new text in groups, then all others at once."""
        decoding = [i for i, row in enumerate(self.rows) if row.decoding]
        chunks = [i for i in decoding if len(self.rows[i].pending) > 1]
        single = [i for i in decoding if len(self.rows[i].pending) == 1]
        finished = [done for group in self._groups(chunks) for done in self._forward(group)]
        if single:
            finished += self._forward(None if len(single) == len(self.rows) else single)
        return finished

    def _groups(self, chunks: list[int]) -> list[list[int]]:
        """Rows to prefill together: of like lengths, so that little is padding."""
        groups: list[list[int]] = []
        for i in sorted(chunks, key=lambda i: len(self.rows[i].pending)):
            size = len(self.rows[i].pending)
            shortest = len(self.rows[groups[-1][0]].pending) if groups else 0
            if groups and size <= 1.5 * shortest + 16 and size * (len(groups[-1]) + 1) <= PREFILL_TOKENS:
                groups[-1].append(i)
            else:
                groups.append([i])
        return groups

    def _forward(self, index: list[int] | None) -> list[Completion]:
        rows = self.rows if index is None else [self.rows[i] for i in index]
        new = [len(row.pending) for row in rows]
        width, device = max(new), self.model.device
        padded = [row.pending + [0] * (width - len(row.pending)) for row in rows]
        positions, mask = self.cache.begin(index, new, device)
        hidden = self.model.get_decoder()(
            input_ids=torch.tensor(padded, device=device),  # (B, T)
            attention_mask={kind: mask if kind == "full_attention" else None for kind in self.cache.kinds}
            if self.mask_by_kind
            else mask,
            position_ids=positions,
            past_key_values=self.cache,
            use_cache=True,
        ).last_hidden_state  # (B, T, C)
        last = torch.tensor(new, device=device) - 1
        # the output head runs on one position a row only
        logits = self.model.get_output_embeddings()(hidden[torch.arange(len(rows), device=device), last])  # (B, V)
        uniforms = [0.0 if row.sampling.greedy else row.random.random() for row in rows]
        tokens, logprobs = draw(logits, [row.sampling for row in rows], uniforms)
        return [
            done for row, *drawn in zip(rows, tokens, logprobs, strict=True) if (done := self._take(row, *drawn))
        ]

    def _take(self, row: _Row, token: int, logprob: float) -> Completion | None:
        """Append a drawn token to its row; the turn, if that ended it."""
        row.pending = [token]
        row.ids.append(token)
        row.logprobs.append(logprob)
        stopped = token in self.stop_ids
        full = self.cache.lengths[self.position[row.key]] + 1 >= self.max_length
        if not (stopped or full or len(row.ids) >= row.sampling.max_new_tokens):
            return None
        row.decoding = False
        return Completion(row.key, row.ids, row.logprobs, stopped)
