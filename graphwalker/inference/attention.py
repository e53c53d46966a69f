"""Attention for decoding: a mask for every row, and grouped queries without copying the cache.

transformers repeats keys and values for every query head of a group before it attends, which copies the
whole cache at every step. The heads of a group share their keys, so they can stand as further queries of
one head instead: same numbers, no copy. Whatever a model is trained with (flash attention takes no mask
per row, and the eager one would add ours), it decodes with this.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from transformers import AttentionInterface

NAME = "graphwalker_grouped"


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


@contextmanager
def grouped(model) -> Iterator[None]:
    """Let a model attend as above inside the block."""
    config = model.config.get_text_config()
    before = config._attn_implementation
    AttentionInterface.register(NAME, grouped_attention)
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before
