"""Labels after many texts in one batch are as likely as after each text alone."""

import math
import random

import numpy as np
import pytest
import torch

from graphwalker.inference.labels import Ask, among
from graphwalker.inference.transformers_labels import TransformersLabeller

GROUPS = ((10, 11, 12), (13, 14, 15), (20, 21, 22, 23, 24))


class Numbers:
    bos_token_id, eos_token_id, pad_token_id = 1, 2, 0


@torch.no_grad()
def alone(model, ask):
    """By the model's own forward pass over the whole text, one label set after another."""
    ids, labels = list(ask.ids), []
    logprobs = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    start = len(ids) - len(ask.text)
    text = sum(float(logprobs[i - 1, ids[i]]) for i in range(start, len(ids))) if ask.sequence else 0.0
    for group in ask.groups:
        logits = model(torch.tensor([ids])).logits[0, -1].double()
        labels.append(among(logits[list(group)].numpy()))
        ids.append(group[int(np.argmax(labels[-1]))])
        if ids[-1] in ask.last:
            break
    return text, labels


def tree(seed=0, states=4, candidates=5):
    """Candidates of several states of two prompts, as a search asks for them; one state has nothing after it."""
    rng = random.Random(seed)

    def some(least, most):
        return tuple(rng.randrange(25, 64) for _ in range(rng.randrange(least, most)))

    prompts, asks = [some(10, 30), some(10, 30)], []
    for state in range(states):
        parts = (prompts[state % 2], some(1, 9), (), some(1, 9))
        asks += [Ask(parts, some(1, 9), GROUPS[:2], frozenset({12, 15})) for _ in range(candidates)]
        asks.append(Ask(parts[:2], some(2, 4), GROUPS))
    asks += [Ask(prompts[:1], (), GROUPS[2:]), asks[0], Ask((prompts[1],), some(2, 3), GROUPS[:1], sequence=False)]
    return [Ask(tuple(ask.parts), ask.text, ask.groups, ask.last, ask.sequence) for ask in asks]


@pytest.mark.parametrize("cached", [64, 30_000])
def test_equals_each_text_alone(random_model, cached):
    labeller = TransformersLabeller(random_model, Numbers(), cached_tokens=cached, head_bytes=2000)
    asks = tree()
    assert labeller.shares
    for ask, told in zip(asks, labeller.tell(asks), strict=True):
        text, labels = alone(random_model, ask)
        assert told.logprob == pytest.approx(text, abs=1e-4)
        assert len(told.labels) == len(labels)
        for found, expected in zip(told.labels, labels, strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-4)
            assert math.fsum(map(math.exp, found)) == pytest.approx(1)


def test_a_model_that_the_cache_does_not_know(random_model, monkeypatch):
    labeller = TransformersLabeller(random_model, Numbers())
    shared = labeller.tell(tree(1))
    labeller.shares = False
    for one, other in zip(labeller.tell(tree(1)), shared, strict=True):
        assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
        for found, expected in zip(one.labels, other.labels, strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-4)


def test_what_texts_share_is_read_once(random_model):
    labeller = TransformersLabeller(random_model, Numbers())
    read, hidden = [], labeller._hidden
    labeller._hidden = lambda rows, cache: [read.extend(row.new for row in rows), hidden(rows, cache)][1]
    prompt = tuple(range(25, 60))
    labeller.tell([Ask((prompt, (30, 31), (40 + i,)), (50, 51), GROUPS[:1]) for i in range(6)])
    assert sum(map(len, read)) == len(prompt) + 2 + 6 * 3
