"""What gives the log-probabilities of given tokens, whatever runs the model."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from graphwalker.errors import UserError

Floats = NDArray[np.float64]


class Scorer(Protocol):
    """A frozen causal language model that reads.

    ``max_length`` is how many tokens a sequence may have.
    """

    tokenizer: Any
    max_length: int
    start: int  # the token that opens a sequence and is not scored itself

    def logprobs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """For each sequence of n tokens the n - 1 values ``log p(x_t | x_<t)`` from its second token on."""
        ...


def start_token(tokenizer: Any, config: Any = None) -> int:
    """The token after which a text's first token is scored.

    The tokenizer's beginning of sequence; where it has none (Qwen2.5), the one that the model's own configuration
    names, else its end of sequence or padding, which stood between the texts of its training. Raises ``UserError``
    for a tokenizer with none of these.
    """
    candidates = (
        tokenizer.bos_token_id,
        getattr(config, "bos_token_id", None),
        tokenizer.eos_token_id,
        tokenizer.pad_token_id,
    )
    found = next((token for token in candidates if isinstance(token, int)), None)
    if found is None:
        raise UserError("the value model's tokenizer has no token that begins or ends a text: name another model")
    return found
