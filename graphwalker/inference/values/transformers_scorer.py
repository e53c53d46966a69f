"""Log-probabilities by a model of transformers: one causal pass, shared prefixes read once, nothing of size B x T x V.

Where all layers are full attention, many sequences are packed into one row as a tree of tokens: what they begin with
(siblings of a search share all their actions but the last) is read once, and nothing is padding. A convolution reads
its neighbours in the row, so a model with some (LFM2) reads groups: a group's prefix is read once, its state is copied
to a row for each sequence, and only what differs is read there; rows of like length make a pass. The output head runs
on few positions at a time.

Shapes: B rows of a pass, T tokens of its longest row, C hidden size, V vocabulary, N positions to score.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from graphwalker.inference.attention import grouped, packed
from graphwalker.inference.batching import like_lengths
from graphwalker.inference.cache import RaggedCache
from graphwalker.inference.values.packing import Branch, pack
from graphwalker.inference.values.prefixes import Group, batches, share_prefixes
from graphwalker.inference.values.scorer import Floats, start_token

PASS_TOKENS = 4096  # of one forward pass, padding included
SMALL_PASS_TOKENS = 256  # reading costs by the token, so padding pays in small passes alone
HEAD_BYTES = 64 << 20  # of the logits that exist at a time, in float32


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a pass: its place in the cache, the new tokens, and which token follows each."""

    place: int
    new: Sequence[int]
    following: Sequence[int]


class TransformersScorer:
    """A `Scorer` on a causal language model from transformers, on any device and in any floating-point type.

    ``pass_tokens`` bounds a forward pass (padding included), ``head_bytes`` the logits that exist at a time. A model
    whose layers the ragged cache does not know (sliding windows, soft caps on attention) reads every sequence whole.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        max_length: int | None = None,
        pass_tokens: int = PASS_TOKENS,
        head_bytes: int = HEAD_BYTES,
    ):
        self.model, self.tokenizer = model, tokenizer
        self.pass_tokens, self.head_bytes = pass_tokens, head_bytes
        self.config = model.config.get_text_config()
        self.start = start_token(tokenizer, self.config)
        limits = [max_length, getattr(self.config, "max_position_embeddings", None)]
        self.max_length = min((limit for limit in limits if limit), default=2**31)
        self.by_kind = bool(getattr(self.config, "layer_types", None))
        # within one window, sliding attention (Mistral) is full attention
        window = getattr(self.config, "sliding_window", None) or self.max_length
        self.shares = self.max_length <= window and _can_share(self.config)
        kinds = set(getattr(self.config, "layer_types", None) or ())
        self.packs = (
            self.shares and kinds <= {"full_attention"} and getattr(model, "_supports_attention_backend", False)
        )

    @torch.inference_mode()
    def logprobs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """See `Scorer.logprobs`; equal sequences are read once."""
        distinct = list(dict.fromkeys(map(tuple, sequences)))
        found = {sequence: np.empty(0) for sequence in distinct if len(sequence) < 2}
        distinct = [sequence for sequence in distinct if sequence not in found]
        if self.packs:
            for row in pack(distinct, self.pass_tokens):
                found |= self._packed(row)
            return [found[tuple(sequence)] for sequence in sequences]
        for batch in batches(share_prefixes(distinct, self.shares), self.pass_tokens):
            found |= self._batch(batch)
        return [found[tuple(sequence)] for sequence in sequences]

    def _packed(self, row: Sequence[Branch]) -> dict[tuple[int, ...], Floats]:
        """The sequences of a packed row in one pass."""
        device = self.model.device
        ids = torch.tensor([[token for branch in row for token in branch.new]])  # (1, T)
        positions = torch.tensor([[i for branch in row for i in range(branch.depth, len(branch.sequence) - 1)]])
        # transformers makes masks of its own but where it is given one with four dimensions
        mask = torch.ones(1, 1, 1, 1, dtype=torch.bool)
        with packed(self.model, [(*branch.shared, branch.own) for branch in row if branch.new]):
            hidden = self._decode(
                input_ids=ids.to(device),
                position_ids=positions.to(device),
                attention_mask={"full_attention": mask} if self.by_kind else mask,
                use_cache=False,
            )
        places = torch.tensor([place for branch in row for place in branch.predicting], device=device)
        targets = torch.tensor([token for branch in row for token in branch.targets], device=device)
        values = self._head(hidden[0, places], targets).double().cpu().numpy()
        found, before = {}, np.empty(0)
        for branch, new in zip(row, np.split(values, np.cumsum([len(b.targets) for b in row])[:-1]), strict=True):
            before = np.concatenate([before[: len(branch.sequence) - 1 - len(new)], new])
            found[branch.sequence] = before
        return found

    def _batch(self, groups: Sequence[Group]) -> dict[tuple[int, ...], Floats]:
        """The groups of a batch: first their prefixes, then the rest of every sequence."""
        cache = RaggedCache(self.config, sum(len(group.sequences) for group in groups)) if self.shares else None
        first = np.cumsum([0, *(len(group.sequences) for group in groups)]).tolist()
        heads: dict[int, Floats] = {}
        prefixed = [(place, group) for place, group in zip(first, groups, strict=False) if group.shared]
        if cache is not None and prefixed:
            rows = [_Row(place, group.prefix, group.prefix_following) for place, group in prefixed]
            for (place, group), head in zip(prefixed, self._read(rows, cache), strict=True):
                heads[place] = head
                for row in range(place + 1, place + len(group.sequences)):
                    cache.move(place, row)
        rows = []
        for place, group in zip(first, groups, strict=False):
            for i, sequence in enumerate(group.sequences):
                rest = sequence[group.shared :]
                rows.append(_Row(place + i, rest[:-1], rest[1:]))
        tails = iter(self._read(rows, cache))
        none = np.empty(0)
        return {
            sequence: np.concatenate([heads.get(place, none), next(tails)])
            for place, group in zip(first, groups, strict=False)
            for sequence in group.sequences
        }

    def _read(self, rows: Sequence[_Row], cache: RaggedCache | None) -> list[Floats]:
        """The log-probabilities of what follows, for each row; passes of at most ``pass_tokens``."""
        found: dict[int, Floats] = {}
        for taken in like_lengths([len(row.new) for row in rows], self.pass_tokens, SMALL_PASS_TOKENS):
            found.update(zip(taken, self._pass([rows[i] for i in taken], cache), strict=True))
        return [found[i] for i in range(len(rows))]

    def _pass(self, rows: Sequence[_Row], cache: RaggedCache | None) -> list[Floats]:
        hidden = self._hidden(rows, cache)
        scored = [(i, t) for i, row in enumerate(rows) for t in range(len(row.following))]
        at = torch.tensor(scored, device=hidden.device)
        targets = torch.tensor([token for row in rows for token in row.following], device=hidden.device)
        values = self._head(hidden[at[:, 0], at[:, 1]], targets).double().cpu().numpy()
        return np.split(values, np.cumsum([len(row.following) for row in rows])[:-1])

    def _hidden(self, rows: Sequence[_Row], cache: RaggedCache | None) -> torch.Tensor:
        """The last hidden states of the new tokens of rows, (B, T, C), padded on the right."""
        device = self.model.device
        width = max(len(row.new) for row in rows)
        ids = torch.zeros(len(rows), width, dtype=torch.long)  # (B, T), padded on the right
        for i, row in enumerate(rows):
            ids[i, : len(row.new)] = torch.tensor(row.new)
        counts = [len(row.new) for row in rows]
        if cache is None:
            mask = torch.arange(width) < torch.tensor(counts)[:, None]
            return self._decode(input_ids=ids.to(device), attention_mask=mask.to(device), use_cache=False)
        positions, allowed = cache.begin([row.place for row in rows], counts, device)
        by_kind = {kind: allowed if kind == "full_attention" else None for kind in cache.kinds}
        with grouped(self.model):
            return self._decode(
                input_ids=ids.to(device),
                position_ids=positions,
                attention_mask=by_kind if self.by_kind else allowed,
                past_key_values=cache,
                use_cache=True,
            )

    def _decode(self, **inputs: Any) -> torch.Tensor:
        return self.model.get_decoder()(**inputs).last_hidden_state  # (B, T, C)

    def _head(self, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """``log p(target)`` in float32, (N,), from hidden states (N, C)."""
        head = self.model.get_output_embeddings()
        rows = max(1, self.head_bytes // (4 * head.weight.shape[0]))
        values = []
        for part, wanted in zip(hidden.split(rows), targets.split(rows), strict=True):
            logits = _rescaled(head(part), self.config).float()  # (rows, V)
            values.append(logits.gather(1, wanted[:, None])[:, 0] - logits.logsumexp(dim=1))
        return torch.cat(values)


def _can_share(config: Any) -> bool:
    if getattr(config, "attn_logit_softcapping", None):  # grouped attention knows no cap
        return False
    try:
        RaggedCache(config, 1)
    except ValueError:
        return False
    return True


def _rescaled(logits: torch.Tensor, config: Any) -> torch.Tensor:
    """Logits as the model's own ``forward`` gives them, where its family rescales them (Gemma 2, Cohere, Granite)."""
    if scale := getattr(config, "logit_scale", None):
        logits = logits * scale
    if scale := getattr(config, "logits_scaling", None):
        logits = logits / scale
    if cap := getattr(config, "final_logit_softcapping", None):
        logits = cap * torch.tanh(logits / cap)
    return logits
