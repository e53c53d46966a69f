"""Which rows of a batch a loss has to be computed on."""

from typing import Any

import torch


def trained_tokens(inputs: dict[str, Any]) -> torch.Tensor:
    """The mask (B, T) of the tokens in TRL's inputs of a loss that are trained."""
    return inputs["completion_mask"] * inputs.get("tool_mask", 1)


def moving_rows(inputs: dict[str, Any], advantages_decide: bool) -> torch.Tensor:
    """Whether each row (B,) has a trained token and, where only advantages make a gradient, an advantage."""
    moves = trained_tokens(inputs).any(dim=1)
    return moves & inputs["advantages"].ne(0) if advantages_decide else moves


def keep_rows(inputs: dict[str, Any], first: torch.Tensor, count: int) -> dict[str, Any]:
    """The inputs with ``count`` rows, in their order; those that ``first`` (B,) marks are kept before others."""
    rows = first.shape
    keep = first.long().argsort(descending=True, stable=True)[:count].sort().values
    return {
        key: value[keep] if isinstance(value, torch.Tensor) and value.shape[:1] == rows else value
        for key, value in inputs.items()
    }
