"""An initialisation that starts a convolution-and-attention model off with heads that copy.

A copying (induction) head looks for an earlier place where its own token stood and repeats what came
next. Training finds such heads only after a long plateau, most of a small model's budget. Each pair of
a short convolution and the attention layer after it starts as one here: the convolution adds each
token's predecessor, turned into a subspace of its own, to the residual stream; keys read that subspace
as queries read the token itself; values and output pass a token's own vector on. All other weights
stay random, and everything is trained. In the manner of mimetic initialisation (Trockman and Kolter,
2023, arXiv:2305.09828), which sets attention weights to the products that training would reach.
"""

import torch
from torch import nn


@torch.no_grad()
def start_with_copying_heads(model: nn.Module, *, sharpness: float = 1.5, embedding_scale: float = 0.1) -> None:
    """Set the weights of every (convolution, attention) pair of an LFM2 model with ``conv_bias``, in place.

    ``sharpness`` is the weight of the query and key norms (1 is the library's; attention logits grow
    with its square), ``embedding_scale`` the standard deviation of the token embeddings.
    """
    width = model.config.hidden_size
    nn.init.normal_(model.get_input_embeddings().weight, std=embedding_scale)
    layers = model.model.layers
    for before, after in zip(layers, layers[1:], strict=False):
        if not before.is_attention_layer and after.is_attention_layer:
            turn = nn.init.orthogonal_(torch.empty(width, width))
            _pass_predecessor(before.conv, embedding_scale * turn)
            _match_and_copy(after.self_attn, turn, sharpness, 4.0 * embedding_scale)


def _pass_predecessor(conv: nn.Module, turn: torch.Tensor) -> None:
    """Make the gated convolution add ``turn @ x[t - 1]`` at position t: open gates, a shift by one, a rotation."""
    width = turn.shape[0]
    basis = nn.init.orthogonal_(torch.empty(width, width))
    gates, values = conv.in_proj.weight[: 2 * width], conv.in_proj.weight[2 * width :]
    nn.init.normal_(gates, std=0.02)
    values.copy_(basis)
    conv.in_proj.bias.copy_(torch.cat([torch.ones(2 * width), torch.zeros(width)]))
    nn.init.normal_(conv.conv.weight, std=0.05)
    conv.conv.weight[:, 0, -2] += 1.0
    conv.out_proj.weight.copy_(turn @ basis.T)
    nn.init.zeros_(conv.conv.bias)
    nn.init.zeros_(conv.out_proj.bias)


def _match_and_copy(attention: nn.Module, turn: torch.Tensor, sharpness: float, strength: float) -> None:
    """Make the first query head match its token with predecessors and copy what follows; the others stay random."""
    size = attention.head_dim
    nn.init.constant_(attention.q_layernorm.weight, sharpness)
    nn.init.constant_(attention.k_layernorm.weight, sharpness)
    # rotary position embedding turns the first components of each half too fast to compare far-off tokens
    slow = torch.arange(size) % (size // 2) >= size // 4
    read = nn.init.orthogonal_(torch.empty(size, turn.shape[0])) * slow[:, None]
    value = nn.init.orthogonal_(torch.empty(size, turn.shape[0]))
    attention.q_proj.weight[:size] = read
    attention.k_proj.weight[:size] = read @ turn.T
    attention.v_proj.weight[:size] = value
    attention.out_proj.weight[:, :size] = strength * value.T
