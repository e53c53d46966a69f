"""TRL's fused LM head on a CPU, where it would compute more than is trained.

On CUDA the head scores the trained positions alone. Elsewhere TRL has it score all of them, prompt, observations and
padding too, for compilers that want fixed shapes, and writes logits to a buffer of 32,768 columns, however few tokens
there are. PyTorch on a CPU compiles nothing, and for a tiny model the head is a third of a step.
"""

from typing import Any

import torch
from trl.trainer import utils

KNOBS = ("_CHUNKED_LOGPROB_CHUNK_SIZE", "_use_triton")  # of TRL, read when a loss is computed


def fit_fused_head(model: Any) -> None:
    """Let TRL's trainers of this process score trained positions alone, in tiles no wider than ``model``'s vocabulary.

    Does nothing where there is an accelerator, nor under a TRL without these two knobs. Losses and gradients are the
    same up to rounding.
    """
    if torch.accelerator.is_available() or not all(hasattr(utils, knob) for knob in KNOBS):
        return
    vocabulary = model.config.get_text_config().vocab_size
    utils._CHUNKED_LOGPROB_CHUNK_SIZE = min(utils._CHUNKED_LOGPROB_CHUNK_SIZE, vocabulary)
    utils._use_triton = _compacts  # TRL asks it whether to leave out positions; its kernels ask their own


def _compacts(device: Any) -> bool:
    return device.type in ("cpu", "cuda", "xpu")
