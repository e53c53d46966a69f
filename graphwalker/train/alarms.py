"""Alarms of a training run: one clear line, once for each kind, when its log says that something is wrong.

They read what TRL and ``EpisodeGRPOTrainer`` log, so they come with the first log entry that shows the fault.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from transformers import TrainerCallback

from graphwalker.errors import UserError

logger = logging.getLogger(__name__)

FIRST_STEPS = 3  # a run that has learned nothing for so many steps says so
Logs = Mapping[str, Any]

# kind -> (whether it is met, what to say); shares are of turns, queries or episodes
ALARMS: dict[str, tuple[Callable[[Logs], bool], str]] = {
    "truncation": (
        lambda log: _value(log, "episode/cut_turns") > 0.2,
        "more than a fifth of the turns are cut at max_turn_tokens: raise it, or train the model to think less",
    ),
    "missing answers": (
        lambda log: _value(log, "episode/answered", 1.0) < 0.5,
        "more than half of the episodes end without an answer: train SFT longer, or raise max_turns or "
        "max_episode_tokens",
    ),
    "errors": (
        lambda log: _value(log, "episode/errors") > 0.5 * _value(log, "episode/turns", math.inf),
        "more than half of the turns are answered with an error: train SFT longer, or set max_errors: 1",
    ),
    "repeated queries": (
        lambda log: _value(log, "episode/repeated_queries") > 0.3,
        "more than three in ten queries repeat an earlier one of their episode: the reward turn_query counts those as "
        "bad ones",
    ),
    "outages": (
        lambda log: _value(log, "episode/outage") > 0.05,
        "more than one in twenty episodes end by an outage of the graph: they take no part in the training, and the "
        "log counts them by kind under outage/; see to the graph's server",
    ),
    "KL": (
        lambda log: _value(log, "kl") > 10,
        "the policy is far from its reference (KL above 10 a token): raise beta or lower learning_rate",
    ),
}
CAUSES = {
    "group/all_wrong": "nearly no answer is right: train SFT longer, begin with easier questions, or sample hotter "
    "(temperature) and more often (num_generations)",
    "group/all_right": "nearly every answer is right: take harder questions, or sample hotter (temperature)",
    "group/outage": "the graph does not answer: see to its server",
}


class HealthCallback(TrainerCallback):
    """Warns when a log entry shows an alarm of `ALARMS`, a collapse of entropy, or a run that learns nothing.

    ``warn`` takes the line (default: this module's logger); each kind comes once.
    """

    def __init__(self, warn: Callable[[str], None] = logger.warning):
        self.warn, self.warned = warn, set[str]()
        self.first_entropy: float | None = None
        self.alive = self.moved = False

    def on_log(self, args, state, control, logs=None, **kwargs):
        if not state.is_world_process_zero or not logs or "loss" not in logs:
            return  # an evaluation's entry, or the summary at the end
        for kind, text in [*_met(logs), *self._entropy(logs), *self._nothing_learned(logs, state.global_step)]:
            if kind not in self.warned:
                self.warned.add(kind)
                self.warn(f"step {state.global_step}: {kind}: {text}")

    def _entropy(self, logs: Logs) -> Iterator[tuple[str, str]]:
        entropy = _value(logs, "entropy", math.nan)
        if math.isnan(entropy):
            return
        self.first_entropy = entropy if self.first_entropy is None else self.first_entropy
        if entropy < 0.1 * self.first_entropy:
            yield (
                "entropy collapse",
                f"entropy fell from {self.first_entropy:.3g} to {entropy:.3g}: the episodes of a question will all be "
                "alike; lower learning_rate, raise beta or temperature, or set entropy_coef",
            )

    def _nothing_learned(self, logs: Logs, step: int) -> Iterator[tuple[str, str]]:
        self.alive |= _value(logs, "group/alive", 1.0) > 0
        self.moved |= _value(logs, "grad_norm", 1.0) > 0
        if step < FIRST_STEPS:
            return
        if not self.alive:
            cause = max(CAUSES, key=lambda name: _value(logs, name))
            yield "nothing is learned", f"no question's episodes differed in reward so far; {CAUSES[cause]}"
        elif not self.moved:
            yield (
                "nothing is learned",
                "the gradient was zero in every step so far: are there trained tokens and trainable weights, and do "
                "rewards differ within a question?",
            )


def stop_on_nan(trainer: Any) -> None:
    """Let a trainer raise ``UserError`` at the step whose loss is no finite number, before weights are changed."""
    train = trainer.training_step

    def checked(*args: Any, **kwargs: Any) -> torch.Tensor:
        loss = train(*args, **kwargs)
        if not torch.isfinite(loss).all():
            raise UserError(
                f"the loss is {loss.item()} at step {trainer.state.global_step + 1}; the weights are still those of "
                "the step before. Lower learning_rate or max_grad_norm, prefer bf16 to fp16, and start again in "
                "another folder, if you like from the last checkpoint (model_name_or_path)"
            )
        return loss

    trainer.training_step = checked


def _met(logs: Logs) -> list[tuple[str, str]]:
    return [(kind, text) for kind, (met, text) in ALARMS.items() if met(logs)]


def _value(logs: Logs, name: str, default: float = 0.0) -> float:
    """A logged number; what was not logged, or had no episode to be measured on, is ``default``."""
    value = logs.get(name)
    return default if value is None else float(value)
