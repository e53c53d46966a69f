"""The importance ratio of a turn, for GRPO whose actions are turns.

In the paper's notation (GraphWalker, section 2.3) the ratio is that of an action, rho_ij = pi(a_ij | s_ij) /
pi_old(a_ij | s_ij), and an action is a turn. As TRL does for sequences (GSPO), it is taken as the geometric mean over
the turn's tokens: their bare product leaves any clip range after a few tokens.
"""

from typing import Any

import torch

from graphwalker.train.loss_rows import trained_tokens


def turn_means(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Each turn's mean in the place of its tokens' values (B, T), 0 elsewhere.

    A turn is a run of ones in ``mask`` (B, T), the tokens that the model generated.
    """
    made = mask.bool()
    before = torch.nn.functional.pad(made[:, :-1], (1, 0))
    turn = (made & ~before).cumsum(dim=1) * made  # (B, T) from 1 on; 0 is what no turn holds
    shape = (len(mask), int(turn.max()) + 1 if turn.numel() else 1)
    held = values * made
    sums = torch.zeros(shape, dtype=values.dtype, device=values.device).scatter_add(1, turn, held)
    sizes = torch.zeros(shape, dtype=values.dtype, device=values.device).scatter_add(1, turn, made.to(values.dtype))
    return (sums / sizes.clamp(min=1)).gather(1, turn) * made


def with_turn_ratio(logps: torch.Tensor, inputs: dict[str, Any]) -> torch.Tensor:
    """Log-probabilities (B, T) whose ratio to the old ones is that of the turn, for TRL's loss on ``inputs``.

    The reference's log-probabilities in ``inputs`` move along, so that the KL term stays what it was.
    """
    old = inputs.get("old_per_token_logps", logps.detach())
    turned = old + turn_means(logps - old, trained_tokens(inputs))
    if "ref_per_token_logps" in inputs:
        inputs["ref_per_token_logps"] = inputs["ref_per_token_logps"] + turned - logps
    return turned
