"""Attention for reading and decoding: masks of our own, and grouped queries without copying the cache.

transformers repeats keys and values for every query head of a group before it attends, which copies the
whole cache at every step. The heads of a group share their keys, so they can stand as further queries of
one head instead: same numbers, no copy. Whatever a model is trained with (flash attention takes no mask
per row, and the eager one would add ours), it decodes with this.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from transformers import AttentionInterface

NAME = "graphwalker"


def grouped_attention(module, query, key, value, attention_mask, scaling=None, **kwargs):
    """``scaled_dot_product_attention`` of query (B, H, T, D) over key and value (B, K, L, D), H a multiple of K.

    ``attention_mask`` (B, 1, T, L) is True where a query may look. Returns (B, T, H, D), as transformers expects.
    """
    batch, heads, length, size = query.shape
    groups = heads // key.shape[1]
    mask = attention_mask.expand(batch, groups, length, -1).reshape(batch, 1, groups * length, -1)
    queries = query.reshape(batch, key.shape[1], groups * length, size)
    out = torch.nn.functional.scaled_dot_product_attention(queries, key, value, attn_mask=mask, scale=scaling)
    return out.reshape(batch, heads, length, size).transpose(1, 2), None


def grouped(model) -> AbstractContextManager[None]:
    """Let a model attend by `grouped_attention` inside the block."""
    return _attending(model, grouped_attention)


def packed(model, spans: Sequence[Sequence[tuple[int, int]]]) -> AbstractContextManager[None]:
    """Let a model attend inside the block over one row (1, H, T, D) in which many sequences are packed.

    Each of ``spans`` is a sequence as [begin, end) of the row, in order; the last is what is its own, and its queries
    look at all of the sequence up to themselves. The own spans follow upon each other and make up the row. Whatever
    mask the model has is left aside.
    """
    device = model.device
    masks = []
    for of_one in spans:
        length, own = sum(end - begin for begin, end in of_one), of_one[-1][1] - of_one[-1][0]
        masks.append(torch.ones(own, length, dtype=torch.bool, device=device).tril(length - own)[None, None])

    def attend(module, query, key, value, attention_mask, **kwargs):
        found = []
        for of_one, mask in zip(spans, masks, strict=True):
            begin, end = of_one[-1]
            keys, values = (torch.cat([x[:, :, a:b] for a, b in of_one], dim=2) for x in (key, value))
            found.append(grouped_attention(module, query[:, :, begin:end], keys, values, mask, **kwargs)[0])
        return torch.cat(found, dim=1), None

    return _attending(model, attend)


@contextmanager
def _attending(model, how: Callable[..., Any]) -> Iterator[None]:
    config = model.config.get_text_config()
    before = config._attn_implementation
    AttentionInterface.register(NAME, how)
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before
