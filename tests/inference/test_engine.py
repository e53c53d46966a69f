"""One ragged batch gives exactly what a forward pass over each row alone gives."""

import random

import pytest
import torch
from transformers import AutoModelForCausalLM as Auto
from transformers import MistralConfig, Qwen2Config

from graphwalker.inference.engine import Sampling
from graphwalker.inference.transformers_engine import TransformersEngine

GREEDY = Sampling(temperature=0, max_new_tokens=9)
SAMPLED = Sampling(temperature=0.7, max_new_tokens=9)


def _texts(seed: int, rows: int, turns: int = 3) -> dict[int, list[list[int]]]:
    """For each row its prompt and the observations that follow its turns, of many lengths."""
    rng = random.Random(seed)
    sizes = [[rng.randrange(1, 40), *(rng.randrange(1, 25) for _ in range(turns - 1))] for _ in range(rows)]
    return {row: [[rng.randrange(3, 64) for _ in range(n)] for n in of] for row, of in enumerate(sizes)}


def _run(engine, texts, sampling, order=None):
    """Decode every row's turns; for each row its tokens, and for each turn where it begins and its completion."""
    waiting = list(order or texts)
    ids, turns = {}, {row: [] for row in texts}
    while waiting or engine.rows:
        while waiting and len(engine.rows) < engine.capacity:
            row = waiting.pop(0)
            ids[row] = list(texts[row][0])
            engine.add(row, texts[row][0], sampling, seed=row)
        for done in engine.step():
            row = done.key
            turns[row].append((len(ids[row]), done))
            ids[row] += done.ids
            if len(turns[row]) == len(texts[row]):
                engine.release(row)
            else:
                observation = texts[row][len(turns[row])]
                ids[row] += observation
                engine.add(row, observation, sampling, seed=0)
    return ids, turns


@torch.no_grad()
def _logprobs(model, ids, temperature=1.0):
    return (model(torch.tensor([ids])).logits[0] / temperature).log_softmax(-1)


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_ragged_batch_equals_full_passes(random_model, numbers, sampling):
    engine = TransformersEngine(random_model, numbers, capacity=4)
    ids, turns = _run(engine, _texts(1, rows=7), sampling)
    for row, tokens in ids.items():
        logprobs = _logprobs(random_model, tokens, sampling.temperature or 1.0)
        for start, done in turns[row]:
            for place, (token, logprob) in enumerate(zip(done.ids, done.logprobs, strict=True), start):
                assert logprob == pytest.approx(logprobs[place - 1, token].item(), abs=2e-5)
                assert not sampling.greedy or token == int(logprobs[place - 1].argmax())
            assert done.stopped == (done.ids[-1] == numbers.eos_token_id)


def test_a_model_that_trains_with_another_attention_decodes_the_same(random_model, numbers):
    texts, before = _texts(5, rows=3, turns=2), random_model.config._attn_implementation
    expected, _ = _run(TransformersEngine(random_model, numbers, capacity=3), texts, SAMPLED)
    random_model.set_attn_implementation("eager")
    try:
        assert _run(TransformersEngine(random_model, numbers, capacity=3), texts, SAMPLED)[0] == expected
        assert random_model.config._attn_implementation == "eager"
    finally:
        random_model.set_attn_implementation(before)


def test_rows_do_not_depend_on_neighbours_nor_on_order(random_model, numbers):
    texts = _texts(2, rows=4, turns=2)
    together, _ = _run(TransformersEngine(random_model, numbers, capacity=3), texts, SAMPLED)
    reversed_, _ = _run(TransformersEngine(random_model, numbers, capacity=4), texts, SAMPLED, order=reversed(texts))
    assert together == reversed_
    alone, _ = _run(TransformersEngine(random_model, numbers, capacity=1), {2: texts[2]}, SAMPLED)
    assert alone[2] == together[2]


def test_a_reused_row_holds_no_trace_of_the_one_before(random_model, numbers):
    texts = _texts(3, rows=2, turns=2)
    fresh = _run(TransformersEngine(random_model, numbers, capacity=1), {1: texts[1]}, SAMPLED)
    both = _run(TransformersEngine(random_model, numbers, capacity=1), texts, SAMPLED)
    assert both[0][1] == fresh[0][1]
    assert [done.logprobs for _, done in both[1][1]] == [done.logprobs for _, done in fresh[1][1]]


def test_a_row_released_in_the_middle_leaves_the_others_as_they_are(random_model, numbers):
    texts = _texts(4, rows=3, turns=1)
    alone, _ = _run(TransformersEngine(random_model, numbers, capacity=1), {2: texts[2]}, GREEDY)
    engine = TransformersEngine(random_model, numbers, capacity=3)
    for row in texts:
        engine.add(row, texts[row][0], GREEDY, seed=row)
    finished = engine.step()
    engine.release(0)  # row 2 takes its place
    while 2 not in [done.key for done in finished]:
        finished += engine.step()
    assert next(done for done in finished if done.key == 2).ids == alone[2][len(texts[2][0]) :]


def test_turn_cap_and_row_length(random_model, numbers):
    numbers_only = [3, 4, 5, 6]
    engine = TransformersEngine(random_model, numbers, capacity=1, max_length=10, stop_ids=[64])  # a token that is none
    engine.add("a", numbers_only, Sampling(temperature=0, max_new_tokens=3), seed=0)
    cut = _until_done(engine)
    assert len(cut.ids) == 3 and not cut.stopped
    engine.add("a", [7], Sampling(temperature=0, max_new_tokens=100), seed=0)
    full = _until_done(engine)
    assert len(numbers_only) + 3 + 1 + len(full.ids) == 10 and not full.stopped


def _until_done(engine):
    while True:
        if finished := engine.step():
            return finished[0]


def test_the_model_bounds_the_row(random_model, numbers):
    assert TransformersEngine(random_model, numbers).max_length == 256
    assert TransformersEngine(random_model, numbers, max_length=4096).max_length == 256
    assert TransformersEngine(random_model, numbers, max_length=100).max_length == 100


def test_misuse(random_model, numbers):
    engine = TransformersEngine(random_model, numbers, capacity=1)
    with pytest.raises(ValueError, match="at least one token"):
        engine.add("a", [], GREEDY, seed=0)
    engine.add("a", [3], GREEDY, seed=0)
    with pytest.raises(RuntimeError, match="rows are open"):
        engine.add("b", [3], GREEDY, seed=0)


SMALL = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2, "vocab_size": 16, "num_hidden_layers": 2}


def test_sliding_attention_is_kept_within_its_window(numbers):
    model = Auto.from_config(MistralConfig(**SMALL, num_key_value_heads=1, sliding_window=32))
    assert TransformersEngine(model, numbers, max_length=100).max_length == 32


def test_layers_that_the_cache_does_not_know_are_refused(numbers):
    config = Qwen2Config(**SMALL, num_key_value_heads=1, use_sliding_window=True, sliding_window=4, max_window_layers=1)
    with pytest.raises(ValueError, match="sliding_attention"):
        TransformersEngine(Auto.from_config(config), numbers)


def test_rescaled_logits_are_refused(numbers):
    model = Auto.from_config(Qwen2Config(**SMALL, num_key_value_heads=1))
    model.config.final_logit_softcapping = 30.0
    with pytest.raises(ValueError, match="final_logit_softcapping"):
        TransformersEngine(model, numbers)
