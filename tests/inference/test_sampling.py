"""Tokens are drawn from the distribution that temperature, top-k and top-p leave."""

import pytest
import torch

from graphwalker.inference.engine import Sampling
from graphwalker.inference.sampling import draw, inverse_cdf, restrict

LOGITS = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0, -4.0])


def _expected(sampling: Sampling) -> torch.Tensor:
    """By the definitions, one token at a time."""
    probabilities = (LOGITS / sampling.temperature).softmax(-1)
    kept, mass = torch.zeros_like(probabilities), 0.0
    for rank, token in enumerate(probabilities.argsort(descending=True)):
        if (sampling.top_k and rank >= sampling.top_k) or mass >= sampling.top_p:
            break
        kept[token] = probabilities[token]
        mass += probabilities[token].item()
    return kept / kept.sum()


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=0.5),
        Sampling(temperature=1.7),
        Sampling(top_k=2),
        Sampling(top_p=0.8),
        Sampling(temperature=1.3, top_k=4, top_p=0.9),
    ],
    ids=str,
)
def test_frequencies(sampling):
    count = 20_000
    uniforms = torch.rand(count, generator=torch.Generator().manual_seed(0), dtype=torch.float64).tolist()
    tokens, logprobs = draw(LOGITS.expand(count, -1), [sampling] * count, uniforms)
    frequencies = torch.bincount(torch.tensor(tokens), minlength=len(LOGITS)) / count
    expected = _expected(sampling)
    assert frequencies[expected == 0].sum() == 0
    assert torch.allclose(frequencies, expected, atol=4 * (0.25 / count) ** 0.5)
    full = (LOGITS / sampling.temperature).log_softmax(-1)
    assert logprobs[:50] == pytest.approx([full[token].item() for token in tokens[:50]], abs=1e-5)


def test_rows_of_one_batch_keep_their_own_settings():
    samplings = [Sampling(temperature=0), Sampling(top_k=1), Sampling(top_p=0.01), Sampling()]
    tokens, _ = draw(LOGITS.expand(4, -1), samplings, [0.999] * 4)
    assert tokens[:3] == [0, 0, 0] and tokens[3] != 0


def test_greedy_reads_no_random_number():
    assert draw(LOGITS[None], [Sampling(temperature=0)], [0.0]) == draw(LOGITS[None], [Sampling(temperature=0)], [0.9])


def test_extreme_draws_fall_on_tokens_that_can_be_drawn():
    weights = torch.tensor([[0.0, 0.3, 0.0, 0.4, 0.0, 0.0]], dtype=torch.float64)
    assert inverse_cdf(weights, [0.0]).item() == 1
    assert inverse_cdf(weights, [1 - 2**-53]).item() == 3
    assert inverse_cdf(weights, [1.0]).item() == 3  # what rounding could make of the largest draw


@pytest.mark.parametrize("temperature", [0, 5e-324, 1e-300, 1e-45, 9e-7])
def test_a_temperature_too_low_to_divide_by_is_greedy(temperature):
    sampling = Sampling(temperature=temperature)
    tokens, logprobs = draw(LOGITS[None], [sampling], [0.999])
    assert sampling.greedy and tokens == [0]
    assert logprobs == pytest.approx([LOGITS.log_softmax(-1)[0].item()])


def test_top_p_of_one_token_keeps_it():
    kept = restrict(torch.tensor([[0.0, -50.0]]).log_softmax(-1), [Sampling(top_p=1e-9)])
    assert (kept[0] > 0).tolist() == [True, False]
