"""An initialisation that starts a convolution-and-attention model off with heads that copy.

A copying (induction) head looks for an earlier place where its own token stood and repeats what came
next. Training finds such heads only after a long plateau, most of a small model's budget. Each pair of
a short convolution and the attention layer after it starts as one here: the convolution writes each
token's two predecessors, each into a half of the residual stream of its own; keys read both halves;
queries read the token itself and its own predecessor, so that a match of two tokens in a row counts
for more than one; values and output pass a token's own vector on. All other weights stay random, and
everything is trained. In the manner of mimetic initialisation (Trockman and Kolter, 2023,
arXiv:2305.09828), which sets attention weights to the products that training would reach.

Shapes: C the hidden size, D the size of a head.
"""

import torch
from torch import nn


@torch.no_grad()
def start_with_copying_heads(
    model: nn.Module,
    *,
    sharpness: float = 1.5,
    context: float = 0.7,
    strength: float = 8.0,
    embedding_scale: float = 0.1,
) -> None:
    """Set the weights of every (convolution, attention) pair of an LFM2 model with ``conv_bias``, in place.

    ``sharpness`` is the weight of the query and key norms (1 is the library's; attention logits grow
    with its square), ``context`` that of the second predecessor in a match beside 1 of the first,
    ``strength`` how loudly a copied token is written, in standard deviations ``embedding_scale`` of the
    token embeddings.
    """
    width = model.config.hidden_size
    nn.init.normal_(model.get_input_embeddings().weight, std=embedding_scale)
    layers = model.model.layers
    for before, after in zip(layers, layers[1:], strict=False):
        if not before.is_attention_layer and after.is_attention_layer:
            read = nn.init.orthogonal_(torch.empty(width // 2, width))  # (C/2, C)
            write = nn.init.orthogonal_(torch.empty(width, width))  # (C, C): a half for each predecessor
            _write_predecessors(before.conv, read, embedding_scale * 2**0.5 * write)
            _match_and_copy(after.self_attn, read, write, sharpness, context, strength * embedding_scale)


def _write_predecessors(conv: nn.Module, read: torch.Tensor, write: torch.Tensor) -> None:
    """Open the gates; shift half of the channels by one token and half by two."""
    width = write.shape[0]
    nn.init.normal_(conv.in_proj.weight[: 2 * width], std=0.02)
    conv.in_proj.weight[2 * width :] = torch.cat([read, read])
    conv.in_proj.bias.copy_(torch.cat([torch.ones(2 * width), torch.zeros(width)]))
    nn.init.normal_(conv.conv.weight, std=0.05)
    conv.conv.weight[: width // 2, 0, -2] += 1.0
    conv.conv.weight[width // 2 :, 0, -3] += 1.0
    conv.out_proj.weight.copy_(write)
    nn.init.zeros_(conv.conv.bias)
    nn.init.zeros_(conv.out_proj.bias)


def _match_and_copy(
    attention: nn.Module, read: torch.Tensor, write: torch.Tensor, sharpness: float, context: float, strength: float
) -> None:
    """Make the first query head match tokens with predecessors and copy what follows; the others stay random."""
    size, half = attention.head_dim, read.shape[0]
    nn.init.constant_(attention.q_layernorm.weight, sharpness)
    nn.init.constant_(attention.k_layernorm.weight, sharpness)
    # rotary position embedding turns the first components of each half too fast to compare far-off tokens
    slow = (torch.arange(size) % (size // 2) >= size // 4)[:, None]  # (D, 1)
    first, second = (nn.init.orthogonal_(torch.empty(size, half)) * slow for _ in range(2))  # (D, C/2)
    value = nn.init.orthogonal_(torch.empty(size, write.shape[0]))  # (D, C)
    attention.q_proj.weight[:size] = first @ read + context * second @ write[:, :half].T
    attention.k_proj.weight[:size] = first @ write[:, :half].T + context * second @ write[:, half:].T
    attention.v_proj.weight[:size] = value
    attention.out_proj.weight[:, :size] = strength * value.T
