"""Trajectories as the conversations that TRL's ``SFTTrainer`` reads."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from datasets import Dataset

from graphwalker.errors import UserError
from graphwalker.files import read_jsonl
from graphwalker.protocol import chat
from graphwalker.protocol.prompts import Prompt
from graphwalker.train.packed_attention import attend_apart
from graphwalker.types import Question, Trajectory


def conversations(trajectories: Iterable[Trajectory], prompt: Prompt, *, train_detours: bool = False) -> Dataset:
    """A data set with one column ``messages``; the chat template marks which tokens are trained.

    The turns of an expert's trajectory that go astray (``extra["detours"]``) are read and not trained unless
    ``train_detours``: what is to be learned from them is the way back. Raises ``UserError`` for one with no turn left.
    """
    return Dataset.from_list([{"messages": _weighted(t, prompt, train_detours)} for t in trajectories])


def _weighted(trajectory: Trajectory, prompt: Prompt, train_detours: bool) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = list(chat.messages(trajectory, prompt))
    turns = [message for message in messages if message["role"] == "assistant"]
    detours = trajectory.extra.get("detours", [])
    if not isinstance(detours, list) or any(place not in range(len(turns)) for place in detours):
        raise UserError(
            f"the trajectory of question {trajectory.question.id}: detours: expected places of its {len(turns)} turns, "
            f"from 0, got {detours!r}"
        )
    for place in () if train_detours else detours:
        turns[place]["weight"] = 0
    if all(turn.get("weight") == 0 for turn in turns):
        raise UserError(f"the trajectory of question {trajectory.question.id} has no turn to train")
    return messages


def read_trajectories(path: str | Path) -> list[Trajectory]:
    """The trajectories of a JSONL file; raises ``UserError`` when there are none."""
    found = list(read_jsonl(path, Trajectory))
    if not found:
        raise UserError(f"{path}: no trajectories in this file")
    return found


def check_protocol(trajectories: Iterable[Trajectory], protocol: str) -> None:
    """Raise ``UserError`` for a trajectory of another protocol than the config's, whose prompt it would be given."""
    for trajectory in trajectories:
        own = trajectory.extra.get("protocol", "graphwalker")
        if own != protocol:
            raise UserError(
                f"the trajectory of question {trajectory.question.id} is of the protocol {own}, the config's is "
                f"{protocol}: set protocol: {own}, or name other trajectories"
            )


def settle_packing(training: Any, model: Any) -> None:
    """Refuse packing as `check_packing` does, else let the model attend to each packed episode by itself."""
    check_packing(training, model.config)
    if training.packing or training.padding_free:
        attend_apart(model)


def check_packing(training: Any, model_config: Any) -> None:
    """Raise ``UserError`` where an ``SFTConfig`` would pack episodes that the model cannot keep apart.

    Attention keeps packed episodes apart by their positions. Convolutions and recurrent layers carry
    state from one episode into the next, and the ``wrapped`` strategy cuts episodes anywhere.
    """
    if not (training.packing or training.padding_free):
        return
    if training.packing and training.packing_strategy == "wrapped":
        raise UserError("packing_strategy: wrapped cuts episodes in two and lets them see each other; use bfd")
    kinds = set(getattr(model_config.get_text_config(), "layer_types", None) or ())
    leaking = sorted(kind for kind in kinds if "attention" not in kind or "linear" in kind)
    if leaking:
        raise UserError(
            f"packing: a {model_config.model_type} model cannot keep packed episodes apart (layers of type "
            f"{', '.join(leaking)} read across them); set packing: false and train_sampling_strategy: group_by_length"
        )


def report_cut(trainer: Any) -> None:
    """Say how many episodes ``max_length`` cuts, for their last turns are not trained."""
    limit = trainer.args.max_length
    column = "seq_lengths" if trainer.args.packing else "input_ids"
    rows = trainer.train_dataset[column] if limit else []
    lengths = [n for row in rows for n in row] if trainer.args.packing else [len(row) for row in rows]
    full = sum(length >= limit for length in lengths)
    if full:
        trainer.accelerator.print(
            f"warning: {full} of {len(lengths)} episodes fill max_length ({limit} tokens): what is over is not trained"
        )


def prompts(questions: Iterable[Question], prompt: Prompt) -> Dataset:
    """A data set for GRPO: the prompt's messages, and the question as JSON for the environment's ``reset``."""
    rows = [{"prompt": prompt.messages(q), "question": json.dumps(q.to_json(), ensure_ascii=False)} for q in questions]
    if not rows:
        raise UserError("no questions to train on")
    return Dataset.from_list(rows)
