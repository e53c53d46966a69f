"""Drawing tokens: inverse transform sampling, one uniform number a token.

The number comes from the row's own random stream, so what a row draws does not depend on its neighbours.
"""

import torch

from graphwalker.inference.engine import Sampling


def draw(logits: torch.Tensor, samplings: list[Sampling], uniforms: list[float]) -> tuple[list[int], list[float]]:
    """One token a row from logits (B, V), and its log-probability under the temperature-scaled distribution.

    ``uniforms`` are B numbers in [0, 1), unused by greedy rows.
    """
    scale = torch.tensor([1.0 if s.greedy else s.temperature for s in samplings], device=logits.device)
    logprobs = torch.log_softmax(logits.float() / scale[:, None], dim=-1)  # (B, V)
    chosen = logprobs.argmax(dim=-1)  # (B,)
    if not all(s.greedy for s in samplings):
        drawn = inverse_cdf(restrict(logprobs, samplings), uniforms)
        chosen = torch.where(torch.tensor([s.greedy for s in samplings], device=logits.device), chosen, drawn)
    return chosen.tolist(), logprobs.gather(1, chosen[:, None])[:, 0].tolist()


def restrict(logprobs: torch.Tensor, samplings: list[Sampling]) -> torch.Tensor:
    """Probabilities (B, V), those outside each row's top-k and top-p set to 0 (not renormalised)."""
    probabilities = logprobs.double().exp()
    if all(s.top_p >= 1 and s.top_k <= 0 for s in samplings):
        return probabilities
    ordered, order = probabilities.sort(dim=-1, descending=True)
    size = ordered.shape[1]
    top_k = torch.tensor([s.top_k if s.top_k > 0 else size for s in samplings], device=ordered.device)
    top_p = torch.tensor([s.top_p for s in samplings], device=ordered.device, dtype=ordered.dtype)
    keep = torch.arange(size, device=ordered.device) < top_k[:, None]
    keep &= ordered.cumsum(-1) - ordered < top_p[:, None]
    keep[:, 0] = True
    return torch.zeros_like(probabilities).scatter(1, order, ordered * keep)


def inverse_cdf(weights: torch.Tensor, uniforms: list[float]) -> torch.Tensor:
    """The token (B,) that each uniform number falls on; weights (B, V) >= 0 need not sum to 1."""
    cumulative = weights.cumsum(dim=-1)
    total = cumulative[:, -1:].contiguous()
    target = torch.tensor(uniforms, device=weights.device, dtype=weights.dtype)[:, None] * total
    # right=True: a draw of 0 never falls on a token of weight 0; nor does one that rounding lifts to the total
    last = torch.searchsorted(cumulative, total)
    return torch.minimum(torch.searchsorted(cumulative, target, right=True), last)[:, 0]
