"""What the two engines on vLLM ask for: a turn is one request, and its prompt the episode's token ids so far.

So the ids that come back continue exactly what was generated before (token in, token out), and the prefix cache holds
the episode's past.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from graphwalker.errors import UserError
from graphwalker.inference.engine import Sampling
from graphwalker.protocol.guide import turn_regex


@dataclass(slots=True)
class Row:
    """A row of an engine: its token ids, the seed of its random stream, and the request that is under way."""

    ids: list[int]
    seed: int
    turns: int = 0
    request: Any = None
    ends: frozenset[int] = frozenset()

    def stopped(self, ids: Sequence[int]) -> bool:
        """Whether a turn of these tokens came to an end by itself."""
        return bool(ids) and ids[-1] in self.ends

    def ask(self, ids: Sequence[int], sampling: Sampling, *, end: int, max_length: int, guided: bool) -> dict[str, Any]:
        """Append ``ids`` and give vLLM's sampling parameters for the next turn, under the names of its HTTP interface.

        ``end`` is the token that ends a turn. It alone does, with ``sampling.stop``: not what else a model's own
        configuration lists. Every turn has a seed of its own, so what a row draws depends neither on its neighbours
        nor on when it is asked for. ``guided`` holds the turn to `turn_regex`.
        """
        self.ids += ids
        self.turns += 1
        self.ends = frozenset((end, *sampling.stop))
        parameters = {
            "temperature": 0.0 if sampling.greedy else sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": max(sampling.top_k, 0),
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "max_tokens": min(sampling.max_new_tokens, max_length - len(self.ids)),
            "seed": (self.seed + self.turns - 1) % 2**63,
            "logprobs": 0,  # of the sampled token alone
            "ignore_eos": True,
            "stop_token_ids": [end, *sampling.stop],
            "skip_special_tokens": False,
        }
        if guided:
            parameters["structured_outputs"] = {"regex": turn_regex()}
        return parameters


def check_servable(path: str, config: Any, vocabulary: int) -> None:
    """Raise ``UserError`` for a model that vLLM cannot run, or would serve wrongly.

    ``config`` is what transformers reads in ``path``; ``vocabulary`` is its tokenizer's size.
    """
    text = config.get_text_config()
    if text.model_type == "lfm2" and not torch.accelerator.is_available():
        raise UserError(
            f"{path}: vLLM's build for CPUs cannot run LFM2's convolutions: use the backend transformers, or train "
            "from tiny-qwen2"
        )
    size = getattr(text, "head_dim", None)
    if text.model_type == "qwen2" and size not in (None, text.hidden_size // text.num_attention_heads):
        raise UserError(
            f"{path}: vLLM cannot run a Qwen2 whose heads are not of size hidden_size / num_attention_heads "
            f"(head_dim is {size}); use the backend transformers, or make the model anew"
        )
    if text.vocab_size < vocabulary:
        raise UserError(
            f"{path}: the tokenizer has {vocabulary} tokens, those of the protocol included, and the model embeds "
            f"{text.vocab_size}: vLLM needs them saved in it, as recipes/sft.py does"
        )
