"""The formulas of the information gain, on log-probabilities that any backend gave."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scored:
    """What one pass over ``(H', Q)`` tells: the tokens of either part and the sum of their log-probabilities (<= 0)."""

    history_tokens: int
    history_logprob: float
    question_tokens: int
    question_logprob: float

    def log_perplexities(self) -> tuple[float, float]:
        """``log PPL(H')`` and ``log PPL(H', Q)``."""
        both = log_perplexity(self.history_logprob + self.question_logprob, self.history_tokens + self.question_tokens)
        return log_perplexity(self.history_logprob, self.history_tokens), both


def log_perplexity(logprob: float, tokens: int) -> float:
    """The logarithm of Eq. 6, from 0 on; 0 for a text without tokens.

    >>> log_perplexity(-6.0, 4)
    1.5
    """
    return -logprob / tokens if tokens else 0.0


def ig_reward(scored: Scored, alpha: float = 2.0, beta: float = 10.0) -> float:
    """Eq. 5, ``alpha * sigmoid(beta * log(PPL(H') / PPL(H', Q)))``, in [0, alpha].

    >>> ig_reward(Scored(2, -4.0, 2, -4.0))
    1.0
    """
    history, both = scored.log_perplexities()
    return alpha * _sigmoid(beta * (history - both))


def ig_proxy(scored: Scored) -> float:
    """Eq. 10, the length-aware proxy ``-(|H'| + |Q|) log PPL(H', Q) + |H'| log PPL(H')``: it is ``log p(Q | H')``.

    >>> ig_proxy(Scored(2, -4.0, 2, -3.0))
    -3.0
    """
    history, both = scored.log_perplexities()
    tokens = scored.history_tokens
    return -(tokens + scored.question_tokens) * both + tokens * history


def _sigmoid(x: float) -> float:
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    small = math.exp(max(x, -700.0))  # further down it would underflow to the same 0
    return small / (1.0 + small)
