"""Rows that start from a common past: the same turns as from the whole past, which is read only once."""

import random

import pytest
import torch

from graphwalker.inference.engine import BranchingEngine, Sampling
from graphwalker.inference.transformers_engine import TransformersEngine

SAMPLED = Sampling(temperature=0.9, max_new_tokens=7)


def grow(model, tokenizer, *, capacity, branching, parked=0, depth=3, width=3, seed=0):
    """A random tree of turns: each state the tokens so far, each child a turn and an observation."""
    engine = TransformersEngine(model, tokenizer, capacity=capacity, parked=parked)
    rng = random.Random(seed)
    observations = {n: [rng.randrange(3, 64) for _ in range(rng.randrange(1, 20))] for n in range(1000)}
    states = {0: [rng.randrange(3, 64) for _ in range(20)]}
    turns, todo, number, read = {}, [(0, 0)], 0, 0
    begin = engine.cache.begin

    def counting(index, new, device):
        nonlocal read
        read += sum(new)
        return begin(index, new, device)

    engine.cache.begin = counting
    while todo:
        state, level = todo.pop(0)
        keys = list(range(number + 1, number + 1 + width))
        number += width
        for part in (keys[i : i + capacity] for i in range(0, width, capacity)):
            if branching:
                engine.branch(state, part, states[state], SAMPLED, part)
            else:
                for key in part:
                    engine.add(key, states[state], SAMPLED, key)
            while engine.rows:
                for done in engine.step():
                    turns[done.key] = done
                    states[done.key] = states[state] + done.ids + observations[done.key]
                    if branching and done.key % 5:
                        engine.park(done.key)
                    else:
                        engine.release(done.key)
        if level + 1 < depth:
            todo += [(key, level + 1) for key in keys[:2]]
    return turns, read


@pytest.mark.parametrize(("capacity", "parked"), [(1, 0), (3, 0), (3, 4), (5, 1), (40, 0)])
def test_branches_are_what_whole_rows_are(random_model, numbers, capacity, parked):
    plain, all_read = grow(random_model, numbers, capacity=capacity, branching=False)
    branched, read = grow(random_model, numbers, capacity=capacity, parked=parked, branching=True)
    assert {key: done.ids for key, done in branched.items()} == {key: done.ids for key, done in plain.items()}
    for key, done in plain.items():
        assert branched[key].logprobs == pytest.approx(done.logprobs, abs=2e-5)
    assert read < all_read if capacity > 1 else read <= all_read
    if capacity == 40:
        assert read < all_read / 2


def test_a_row_that_goes_before_it_has_read_for_others(random_model, numbers):
    ids = [5, 9, 11, 7]
    alone = TransformersEngine(random_model, numbers, capacity=4)
    alone.add("b", ids, SAMPLED, 2)
    while not (expected := alone.step()):
        pass
    for leaving in (["a"], ["a", "c"], ["c"], ["c", "a"]):
        engine = TransformersEngine(random_model, numbers, capacity=4)
        engine.branch(None, ["a", "b", "c"], ids, SAMPLED, [1, 2, 3])
        for key in leaving:
            engine.release(key)
        done = []
        while engine.rows:
            for turn in engine.step():
                done.append(turn)
                engine.release(turn.key)
        (found,) = [turn for turn in done if turn.key == "b"]
        assert found.ids == expected[0].ids
        assert {turn.key for turn in done} == {"a", "b", "c"} - set(leaving)


def test_parked_rows_make_room(random_model, numbers):
    """Open rows come first: what is parked goes, the oldest before the others, and nothing else is lost."""
    engine = TransformersEngine(random_model, numbers, capacity=3, parked=1)
    assert isinstance(engine, BranchingEngine)
    texts = {key: [5 + key, 9, 11, 30 + key] for key in range(3)}
    states = {}
    for key, ids in texts.items():
        engine.add(key, ids, SAMPLED, key)
    while engine.rows:
        for done in engine.step():
            states[done.key] = texts[done.key] + done.ids + [40]
            engine.park(done.key)
    oldest, *others = engine.parking.row_of
    assert sorted([oldest, *others]) == [0, 1, 2]
    for key in ("x", "y"):  # two open rows leave room for two others
        engine.add(key, [8, 8], SAMPLED, 0)
    assert list(engine.parking.row_of) == others
    done = {}
    for key in (*others, oldest):
        engine.branch(key, [("of", key)], states[key], SAMPLED, [9])
        while engine.rows:
            for turn in engine.step():
                done[turn.key] = turn
                engine.release(turn.key)
    for key in texts:
        fresh = TransformersEngine(random_model, numbers, capacity=1)
        fresh.add(0, states[key], SAMPLED, 9)
        while not (expected := fresh.step()):
            pass
        assert done["of", key].ids == expected[0].ids


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
