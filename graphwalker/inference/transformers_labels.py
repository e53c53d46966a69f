"""Label probabilities on transformers: a tree of texts is read level by level, every shared part once.

Each text has a row of a ragged cache. A part that texts share is read in the row of the first of them and copied to the
others where they part; then all texts are read in one pass, and each label that follows in a pass of one token a row.

Shapes: B rows, T tokens of the longest one, C hidden size, G labels of a set.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from graphwalker.inference.batching import like_lengths
from graphwalker.inference.cache import RaggedCache
from graphwalker.inference.labels import Ask, Ids, Told, among, goes_on, likeliest
from graphwalker.inference.values.transformers_scorer import (
    SMALL_PASS_TOKENS,
    TransformersScorer,
    _rescaled,
    _Row,
)

CACHED_TOKENS = 32_768  # of the rows that are read together: bounds the cache


class TransformersLabeller(TransformersScorer):
    """A `Labeller` on a causal language model from transformers; see `TransformersScorer` for its bounds.

    ``cached_tokens`` bounds the cache of one batch.
    """

    def __init__(self, model: Any, tokenizer: Any, *, cached_tokens: int = CACHED_TOKENS, **bounds: Any):
        super().__init__(model, tokenizer, **bounds)
        self.cached_tokens = cached_tokens

    @torch.inference_mode()
    def tell(self, asks: Sequence[Ask]) -> list[Told]:
        """See `Labeller.tell`. The order of the asks changes nothing, up to rounding."""
        order = sorted(range(len(asks)), key=lambda i: asks[i].ids)  # what begins alike stands together
        told: dict[int, Told] = {}
        for batch in _batches(order, [len(ask.ids) + len(ask.groups) for ask in asks], self.cached_tokens):
            told.update(zip(batch, self._tell([asks[i] for i in batch]), strict=True))
        return [told[i] for i in range(len(asks))]

    def _tell(self, asks: Sequence[Ask]) -> list[Told]:
        cache = RaggedCache(self.config, len(asks)) if self.shares else None
        # the last token of a state is read with the text, since the text's first token is scored after it
        states = [_without_last(ask.parts) for ask in asks]
        heads = [ask.ids[sum(map(len, state)) :] for ask, state in zip(asks, states, strict=True)]
        if cache is not None:
            self._read_states(states, cache)
        rows = [
            _Row(i, head if cache is not None else ask.ids, head[1:] if ask.sequence else ())
            for i, (ask, head) in enumerate(zip(asks, heads, strict=True))
        ]
        labels: list[list[tuple[float, ...]]] = [[] for _ in asks]
        logprobs = self._labels(rows, asks, labels, cache)
        while rows := [row for row in rows if goes_on(asks[row.place], labels[row.place])]:
            given = {
                row.place: likeliest(_group(asks[row.place], labels[row.place]), labels[row.place][-1]) for row in rows
            }
            rows = [
                _Row(row.place, (given[row.place],) if cache is not None else (*row.new, given[row.place]), ())
                for row in rows
            ]
            self._labels(rows, asks, labels, cache)
        return [Told(logprob, tuple(found)) for logprob, found in zip(logprobs, labels, strict=True)]

    def _read_states(self, states: Sequence[tuple[Ids, ...]], cache: RaggedCache) -> None:
        """Bring every row to the end of its state."""
        level = _forest(range(len(states)), states, 0)
        while level:
            rows = [_Row(places[0], part, ()) for part, places, _ in level if part]
            for taken in like_lengths([len(row.new) for row in rows], self.pass_tokens, SMALL_PASS_TOKENS):
                self._hidden([rows[i] for i in taken], cache)
            copies = [(places[0], child[1][0]) for _, places, children in level for child in children]
            copies += [
                (places[0], place)
                for _, places, children in level
                for place in places
                if not any(place in child[1] for child in children)
            ]
            copies = [(source, target) for source, target in copies if source != target]
            if copies:
                cache.copy([source for source, _ in copies], [target for _, target in copies])
            level = [child for _, _, children in level for child in children]

    def _labels(
        self,
        rows: Sequence[_Row],
        asks: Sequence[Ask],
        labels: list[list[tuple[float, ...]]],
        cache: RaggedCache | None,
    ) -> list[float]:
        """Read rows and add to ``labels`` what follows each; the log-probabilities of what was to be scored in them."""
        logprobs = [0.0] * len(asks)
        for taken in like_lengths([len(row.new) for row in rows], self.pass_tokens, SMALL_PASS_TOKENS):
            some = [rows[i] for i in taken]
            hidden = self._hidden(some, cache)
            scored = [(i, len(row.new) - 1 - len(row.following) + t, token)
                      for i, row in enumerate(some) for t, token in enumerate(row.following)]  # fmt: skip
            if scored:
                at = torch.tensor(scored, device=hidden.device)
                values = self._head(hidden[at[:, 0], at[:, 1]], at[:, 2]).double().cpu().numpy()
                for (i, _, _), value in zip(scored, values, strict=True):
                    logprobs[some[i].place] += float(value)
            self._follow(some, hidden, asks, labels)
        return logprobs

    def _follow(
        self, rows: Sequence[_Row], hidden: torch.Tensor, asks: Sequence[Ask], labels: list[list[tuple[float, ...]]]
    ) -> None:
        """The next label set after the last token of each row."""
        groups = [asks[row.place].groups[len(labels[row.place])] for row in rows]
        last = torch.tensor([len(row.new) - 1 for row in rows], device=hidden.device)
        ends = hidden[torch.arange(len(rows), device=hidden.device), last]  # (B, C)
        for group in dict.fromkeys(groups):
            of = [i for i, own in enumerate(groups) if own == group]
            logits = self._label_logits(ends[torch.tensor(of, device=hidden.device)], group)
            for i, values in zip(of, logits, strict=True):
                labels[rows[i].place].append(among(values))

    def _label_logits(self, hidden: torch.Tensor, group: Ids) -> np.ndarray:
        """Logits of a label set alone, (B, G), from hidden states (B, C)."""
        head, ids = self.model.get_output_embeddings(), torch.tensor(group, device=hidden.device)
        if type(head) is torch.nn.Linear:
            bias = None if head.bias is None else head.bias[ids]
            logits = torch.nn.functional.linear(hidden, head.weight[ids], bias)
        else:
            logits = head(hidden)[:, ids]
        return _rescaled(logits, self.config).double().cpu().numpy()


Tree = list[tuple[Ids, list[int], "Tree"]]
"""Parts at a place, each with the rows that have it and what follows it in those that do not end there."""


def _forest(places: Sequence[int], states: Sequence[tuple[Ids, ...]], level: int) -> Tree:
    """The parts of states from a level on, as a tree; a part that all rows go on from alike is one with the next."""
    by_part: dict[Ids, list[int]] = {}
    for place in places:
        if level < len(states[place]):
            by_part.setdefault(states[place][level], []).append(place)
    found: Tree = []
    for part, rows in by_part.items():
        children = _forest(rows, states, level + 1)
        while len(children) == 1 and children[0][1] == rows:
            part, children = part + children[0][0], children[0][2]
        found.append((part, rows, children))
    return found


def _without_last(parts: tuple[Ids, ...]) -> tuple[Ids, ...]:
    """A state without its last token, and without empty parts."""
    parts = tuple(part for part in parts if part)
    return tuple(part for part in (*parts[:-1], parts[-1][:-1]) if part)


def _group(ask: Ask, labels: Sequence[Any]) -> Ids:
    return ask.groups[len(labels) - 1]


def _batches(order: Sequence[int], lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Consecutive asks whose rows take at most so many tokens (or one ask)."""
    found: list[list[int]] = []
    longest = 0
    for i in order:
        longest = max(longest, lengths[i])
        if found and (len(found[-1]) + 1) * longest <= tokens:
            found[-1].append(i)
        else:
            found.append([i])
            longest = lengths[i]
    return found
