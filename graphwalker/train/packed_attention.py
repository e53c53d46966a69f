"""Attention over packed episodes where flash attention is missing: each episode by itself.

transformers otherwise lets every token of a packed row meet every other and masks those of other episodes. With four
episodes in a row that is four times the work, which on a CPU takes longer than the padding that packing saves.
"""

from typing import Any

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import repeat_kv

NAME = "graphwalker_packed"


def packed_attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, position_ids=None, **kwargs):
    """Causal attention of query (1, H, T, D) over key and value (1, K, T, D), H a multiple of K, episode by episode.

    An episode begins where ``position_ids`` (1, T) are 0. Returns (1, T, H, D), as transformers expects.
    """
    starts = (position_ids[0] == 0).nonzero()[:, 0].tolist()
    lengths = torch.tensor([*starts, query.shape[2]]).diff().tolist()
    groups = query.shape[1] // key.shape[1]
    heads = (query, repeat_kv(key, groups), repeat_kv(value, groups))
    episodes = zip(*(states.split(lengths, dim=2) for states in heads), strict=True)
    attend = torch.nn.functional.scaled_dot_product_attention
    out = [attend(q, k, v, is_causal=True, dropout_p=dropout, scale=scaling) for q, k, v in episodes]
    return torch.cat(out, dim=2).transpose(1, 2), None


def attend_apart(model: Any) -> None:
    """Let a model that is trained on packed rows attend as above, unless it has an accelerator or a sliding window."""
    config = model.config.get_text_config()
    if torch.accelerator.is_available() or getattr(config, "sliding_window", None):
        return
    AttentionInterface.register(NAME, packed_attention)
    config._attn_implementation = NAME
