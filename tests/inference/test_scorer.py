"""One pass with shared prefixes gives what a pass over each text alone gives."""

import math
import random

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM as Auto
from transformers import Gemma2Config, set_seed

from graphwalker.inference.values.formulas import Scored, ig_proxy, ig_reward, log_perplexity
from graphwalker.inference.values.prefixes import batches, share_prefixes
from graphwalker.inference.values.scorer import start_token
from graphwalker.inference.values.transformers_scorer import TransformersScorer


@torch.no_grad()
def alone(model, ids):
    """``log p`` of every token after the first, by the model's own forward pass over this text alone."""
    logits = model(torch.tensor([ids])).logits[0, :-1].double()
    return logits.log_softmax(-1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0].numpy()


def frontier(seed, parents=4, children=5):
    """Sequences of several parents: siblings share their first tokens, two are equal, one shares nothing."""
    rng = random.Random(seed)

    def some(least, most):
        return [rng.randrange(3, 64) for _ in range(rng.randrange(least, most))]

    found = [[1, *prefix, *some(2, 60)] for prefix in (some(0, 60) for _ in range(parents)) for _ in range(children)]
    return [*found, found[3], [1, 5]]


class Numbers:
    """What the scorer reads of a tokenizer."""

    bos_token_id, eos_token_id, pad_token_id = 1, 2, 0


@pytest.mark.parametrize("pass_tokens", [64, 4096])
def test_equals_a_pass_over_each_text_alone(random_model, pass_tokens):
    scorer = TransformersScorer(random_model, Numbers(), pass_tokens=pass_tokens, head_bytes=2000)
    sequences = frontier(0)
    assert scorer.shares and scorer.packs == (random_model.config.model_type != "lfm2")
    for sequence, found in zip(sequences, scorer.logprobs(sequences), strict=True):
        np.testing.assert_allclose(found, alone(random_model, sequence), atol=1e-4)


def test_a_model_that_the_cache_does_not_know_reads_each_text_whole():
    """Gemma 2: sliding windows, soft caps on attention and on logits."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "query_pre_attn_scalar": 8, "sliding_window": 16}
    caps = {"final_logit_softcapping": 0.5, "attn_logit_softcapping": 0.5}
    config = Gemma2Config(vocab_size=64, initializer_range=0.4, attn_implementation="eager", **sizes, **heads, **caps)
    set_seed(0)
    model = Auto.from_config(config).eval()
    scorer = TransformersScorer(model, Numbers())
    assert not scorer.shares
    sequences = frontier(1)
    for sequence, found in zip(sequences, scorer.logprobs(sequences), strict=True):
        np.testing.assert_allclose(found, alone(model, sequence), atol=1e-4)


def test_a_packed_row_is_read_alike_whatever_the_models_own_attention(random_model):
    if random_model.config.model_type == "lfm2":
        pytest.skip("not packed")
    sequences = frontier(3)
    before = random_model.config._attn_implementation
    random_model.set_attn_implementation("eager")
    try:
        found = TransformersScorer(random_model, Numbers()).logprobs(sequences)
        assert random_model.config._attn_implementation == "eager"
        for sequence, values in zip(sequences, found, strict=True):
            np.testing.assert_allclose(values, alone(random_model, sequence), atol=1e-4)
    finally:
        random_model.set_attn_implementation(before)


def test_shared_tokens_are_read_once(random_model, monkeypatch):
    read = []
    decode = TransformersScorer._decode

    def counted(self, **inputs):
        read.append(inputs["input_ids"].numel())
        return decode(self, **inputs)

    monkeypatch.setattr(TransformersScorer, "_decode", counted)
    prefix = list(range(3, 63))
    siblings = [[1, *prefix, 10 + i, 20 + i] for i in range(5)]
    TransformersScorer(random_model, Numbers()).logprobs([*siblings, siblings[0]])
    if random_model.config.model_type == "lfm2":
        # the prefix's 60 tokens, then for each of five the last common token and the first of its own
        assert read == [60, 10]
    else:
        assert read == [61 + 5]


def test_no_pass_is_larger_than_allowed(random_model, monkeypatch):
    read = []
    decode = TransformersScorer._decode
    monkeypatch.setattr(
        TransformersScorer, "_decode", lambda self, **i: read.append(i["input_ids"].numel()) or decode(self, **i)
    )
    TransformersScorer(random_model, Numbers(), pass_tokens=128).logprobs(frontier(2, parents=8))
    assert max(read) <= 128


def test_groups_save_as_many_tokens_as_can_be_saved():
    stem, left, right = (1,) * 30, (2,) * 30, (3,) * 30
    sequences = [stem + left + (i,) for i in range(5)] + [stem + right + (i,) for i in range(5)] + [(9, 9)]
    groups = share_prefixes(sequences)
    assert sorted((len(group.sequences), group.shared) for group in groups) == [(1, 0), (5, 59), (5, 59)]
    assert sorted(s for group in groups for s in group.sequences) == sorted(sequences)
    assert all(group.shared == 0 for group in share_prefixes(sequences, share=False))
    assert [sum(len(g.sequences) for g in batch) for batch in batches(groups, 6 * 61)] == [6, 5]


def test_a_sequence_of_one_token_has_nothing_to_score(random_model):
    first, second = TransformersScorer(random_model, Numbers()).logprobs([[1], [1, 5]])
    assert (len(first), len(second)) == (0, 1)
    assert TransformersScorer(random_model, Numbers()).logprobs([[1]])[0].size == 0


def test_a_sequence_that_begins_another_keeps_a_token_to_score(random_model):
    long = [1, *range(3, 40)]
    scorer = TransformersScorer(random_model, Numbers())
    for sequence, found in zip([long, long[:20]], scorer.logprobs([long, long[:20]]), strict=True):
        np.testing.assert_allclose(found, alone(random_model, sequence), atol=1e-4)


def test_the_start_token_of_a_tokenizer_without_one():
    class Config:
        bos_token_id = 7

    tokenizer = Numbers()
    tokenizer.bos_token_id = None
    assert start_token(tokenizer, Config()) == 7
    assert start_token(tokenizer) == tokenizer.eos_token_id


def test_formulas_against_hand_computed_values():
    """H' of 4 tokens with log p = -8 (PPL e^2), Q of 2 tokens with log p = -1: PPL(H', Q) = e^1.5."""
    scored = Scored(4, -8.0, 2, -1.0)
    assert log_perplexity(-8.0, 4) == 2.0
    assert scored.log_perplexities() == (2.0, 1.5)
    assert ig_reward(scored) == pytest.approx(2 / (1 + math.exp(-10 * 0.5)))
    assert ig_reward(scored, alpha=1.0, beta=2.0) == pytest.approx(1 / (1 + math.exp(-1.0)))
    assert ig_proxy(scored) == pytest.approx(-6 * 1.5 + 4 * 2.0) == pytest.approx(-1.0)
    assert ig_reward(Scored(1, 0.0, 1, -1e6)) == pytest.approx(0.0)  # no overflow at either end
    assert ig_reward(Scored(1, -1e6, 1, 0.0)) == pytest.approx(2.0)


def test_an_empty_history_has_told_nothing():
    assert ig_proxy(Scored(0, 0.0, 2, -6.0)) == -6.0
    assert ig_reward(Scored(0, 0.0, 2, -6.0)) < 1e-9
