"""The scores of ArG's paths: Eq. 4 to 6 of its appendix E, and the ablations of Table 3."""

import math
from collections.abc import Mapping, Sequence

from graphwalker.protocol.reflection import RATIONALITY, RELEVANCE, UTILITY
from graphwalker.search.arg_settings import ArgSettings

Logprobs = Mapping[str, float]
"""A label -> its log-probability; those of all labels of its type."""
_GRADED = (1.0, 0.5, 0.0)  # full, partial, none
_WEIGHTS = (-1.0, -0.5, 0.0, 0.5, 1.0)  # of utilities 1 to 5, as Self-RAG weights them


def confidences(logprobs: Logprobs) -> dict[str, float]:
    """Eq. 4: the labels' probabilities among themselves.

    >>> {label: round(p, 3) for label, p in confidences({"a": math.log(0.3), "b": math.log(0.1)}).items()}
    {'a': 0.75, 'b': 0.25}
    """
    highest = max(logprobs.values())
    odds = {label: math.exp(value - highest) for label, value in logprobs.items()}
    return {label: value / sum(odds.values()) for label, value in odds.items()}


def relevance(logprobs: Logprobs) -> float:
    """S_rel of Eq. 6, in [0, 1]."""
    return _graded(logprobs, RELEVANCE, _GRADED)


def rationality(logprobs: Logprobs) -> float:
    """S_rat of Eq. 6, in [0, 1]."""
    return _graded(logprobs, RATIONALITY, _GRADED)


def utility(logprobs: Logprobs, kind: str = "weighted") -> float:
    """S_uti, in [-1, 1]. As Eq. 6 prints it (``kind`` "printed") it sums all five probabilities, which is 1."""
    return 1.0 if kind == "printed" else _graded(logprobs, UTILITY, _WEIGHTS)


def sequence(logprob: float, tokens: int) -> float:
    """S_seq, in [0, 1]: the probability of the hop's relation and entity as the model would write them itself.

    The paper's "cumulative probability", which alone would rank by length; so per token, as Self-RAG does it.

    >>> round(sequence(math.log(0.25), 2), 3), sequence(0.0, 0)
    (0.5, 1.0)
    """
    return math.exp(logprob / tokens) if tokens else 1.0


def hop_score(seq: float, rel: float, rat: float, settings: ArgSettings) -> float:
    """Eq. 5 without the utility, which only a path's end has: ``S_seq + k1 S_rel S_rat``.

    A score that does not count (``arg_scores``) is a factor of 1; where neither factor counts, there is no product.
    """
    counts = settings.arg_scores
    product = 0.0
    if "relevance" in counts or "rationality" in counts:
        product = (rel if "relevance" in counts else 1.0) * (rat if "rationality" in counts else 1.0)
    return ("sequence" in counts) * seq + settings.arg_k1 * product


def end_score(uti: float, settings: ArgSettings) -> float:
    """The last term of Eq. 5, ``k2 S_uti``, or 0 where it does not count."""
    return settings.arg_k2 * uti if "utility" in settings.arg_scores else 0.0


def hop_relevance(relation: Logprobs, entity: Logprobs) -> float:
    """S_rel of a hop, which has two judgements: their mean (ours; two halves make a half, not a quarter)."""
    return (relevance(relation) + relevance(entity)) / 2


def chosen(logprobs: Logprobs) -> str:
    """The label that the model gives: the likeliest, of equals the first."""
    return max(logprobs, key=logprobs.__getitem__)


def _graded(logprobs: Logprobs, labels: Sequence[str], weights: Sequence[float]) -> float:
    found = confidences({label: logprobs[label] for label in labels})
    return sum(weight * found[label] for label, weight in zip(labels, weights, strict=True))
