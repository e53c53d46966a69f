"""What a run says of itself, and when."""

import re
from types import SimpleNamespace

import pytest
import torch

from graphwalker.errors import UserError
from graphwalker.train import session
from graphwalker.train.alarms import FIRST_STEPS, HealthCallback

WELL = {"loss": 0.0, "entropy": 1.0, "kl": 0.1, "group/alive": 0.5, "grad_norm": 1.0}
WELL |= {"episode/cut_turns": 0.0, "episode/answered": 1.0, "episode/errors": 0.1, "episode/turns": 3.0}
WELL |= {"episode/repeated_queries": 0.0, "episode/outage": 0.0}


@pytest.fixture
def said():
    """Log entries in order, one a step; gives the lines that were said."""

    def run(*entries: dict) -> list[str]:
        lines: list[str] = []
        callback = HealthCallback(lines.append)
        for step, entry in enumerate(entries, 1):
            state = SimpleNamespace(is_world_process_zero=True, global_step=step)
            callback.on_log(None, state, None, logs=entry)
        return lines

    return run


def test_a_healthy_run_says_nothing(said):
    assert said(*[WELL] * 5, {"eval_loss": 1.0}, {"train_runtime": 5.0}) == []
    assert said({"loss": 1.0, "grad_norm": 1.0}) == []  # SFT logs none of it
    assert said({**WELL, "episode/repeated_queries": None, "kl": None}) == []


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ({"episode/cut_turns": 0.4}, "step 2: truncation: .*max_turn_tokens"),
        ({"episode/answered": 0.3}, "step 2: missing answers: "),
        ({"episode/errors": 2.0}, "step 2: errors: "),
        ({"episode/repeated_queries": 0.5}, "step 2: repeated queries: "),
        ({"episode/outage": 0.1}, "step 2: outages: "),
        ({"entropy": 0.05}, "step 2: entropy collapse: entropy fell from 1 to 0.05"),
        ({"kl": 50.0}, "step 2: KL: "),
    ],
)
def test_each_alarm_comes_once(said, fault, line):
    (one,) = said(WELL, {**WELL, **fault}, {**WELL, **fault})
    assert re.match(line, one)


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        ({"group/alive": 0.0, "group/all_wrong": 0.9, "group/all_right": 0.1}, "train SFT longer"),
        ({"group/alive": 0.0, "group/all_right": 1.0}, "harder questions"),
        ({"group/alive": 0.0, "group/outage": 1.0}, "server"),
        ({"grad_norm": 0.0}, "gradient was zero"),
    ],
)
def test_a_run_that_learns_nothing_says_so_within_the_first_steps(said, fault, advice):
    (line,) = said(*[{**WELL, **fault}] * (FIRST_STEPS + 2))
    assert line.startswith(f"step {FIRST_STEPS}: nothing is learned: ") and advice in line
    assert said(WELL, *[{**WELL, **fault}] * FIRST_STEPS) == []  # it has learned something


def test_a_loss_that_is_no_number_stops_the_run_at_its_step(make_grpo, tmp_path):
    trainer = make_grpo(max_steps=3)
    before = [p.detach().clone() for p in trainer.model.parameters()]
    losses = iter([0.5, float("nan")])
    loss_of = trainer._compute_loss
    trainer._compute_loss = lambda model, inputs: loss_of(model, inputs) * 0 + next(losses)
    with pytest.raises(UserError, match="the loss is nan at step 2; .*learning_rate"):
        session.train_and_save(trainer)
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True))
    assert not (tmp_path / "grpo" / "config.json").exists()
