"""Trajectories as the conversations that TRL's ``SFTTrainer`` reads."""

import json
from collections.abc import Iterable
from pathlib import Path

from datasets import Dataset

from graphwalker.errors import UserError
from graphwalker.files import read_jsonl
from graphwalker.protocol import chat
from graphwalker.protocol.prompts import Prompt
from graphwalker.types import Question, Trajectory


def conversations(trajectories: Iterable[Trajectory], prompt: Prompt) -> Dataset:
    """A data set with one column ``messages``; the chat template marks which tokens are trained."""
    return Dataset.from_list([{"messages": chat.messages(t, prompt)} for t in trajectories])


def read_trajectories(path: str | Path, limit: int | None = None) -> list[Trajectory]:
    """The trajectories of a JSONL file; raises ``UserError`` when there are none."""
    found = [t for i, t in enumerate(read_jsonl(path, Trajectory)) if limit is None or i < limit]
    if not found:
        raise UserError(f"{path}: no trajectories in this file")
    return found


def prompts(questions: Iterable[Question], prompt: Prompt) -> Dataset:
    """A data set for GRPO: the prompt's messages, and the question as JSON for the environment's ``reset``."""
    rows = [{"prompt": prompt.messages(q), "question": json.dumps(q.to_json(), ensure_ascii=False)} for q in questions]
    if not rows:
        raise UserError("no questions to train on")
    return Dataset.from_list(rows)
