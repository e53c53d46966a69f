"""On a CPU TRL's head scores what is trained and nothing else, to the same loss and gradients."""

import pytest
import torch
from trl.trainer import utils

from graphwalker.train.cpu_head import KNOBS, fit_fused_head

pytestmark = pytest.mark.skipif(torch.accelerator.is_available(), reason="the head of an accelerator is left alone")


@pytest.fixture(autouse=True)
def as_trl_has_them(monkeypatch):
    """Whatever a test before this one has fitted."""
    for knob, value in zip(KNOBS, (32768, lambda device: False), strict=True):
        monkeypatch.setattr(utils, knob, value)


@pytest.fixture
def scored(monkeypatch):
    """How many positions each call of the head scored, and in tiles of how many tokens."""
    calls, head = [], utils._ChunkedLogProbFunction

    class Counting:
        @staticmethod
        def apply(hidden, *args):
            calls.append((len(hidden), args[4]))
            return head.apply(hidden, *args)

    monkeypatch.setattr(utils, "_ChunkedLogProbFunction", Counting)
    return calls


def pass_of(model, labels):
    ids = torch.arange(labels.numel()).view_as(labels) % 50 + 1
    model.zero_grad()
    out = model(input_ids=ids, labels=labels, fused_lm_head=True)
    (-out.log_probs.sum() / 7).backward()
    return out, torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.mark.parametrize("trained", [slice(4, 9), slice(0, 0)], ids=["some", "none"])
def test_only_trained_positions_are_scored(make_model, scored, trained):
    model = make_model()
    utils.add_fused_lm_head(model, temperature=1.2, outputs=("log_probs", "entropy", "is_top1"))
    labels = torch.full((2, 12), -100)
    labels[0, trained] = 3
    before, gradients_before = pass_of(model, labels)
    fit_fused_head(model)
    after, gradients = pass_of(model, labels)
    assert scored == [(22, 32768), ((labels != -100).sum(), model.config.vocab_size)]
    assert torch.allclose(gradients, gradients_before, atol=1e-6)
    for field in ("log_probs", "entropy", "is_top1"):
        assert torch.allclose(after[field].float(), before[field].float(), atol=1e-6), field


def test_a_trl_without_these_knobs_is_left_alone(make_model, monkeypatch):
    monkeypatch.delattr(utils, "_use_triton")
    fit_fused_head(make_model())
    assert not hasattr(utils, "_use_triton")
