"""What would fail later, or train the wrong thing in silence, met before the first step with one message."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer
from trl.chat_template_utils import has_generation_markers

from graphwalker.errors import UserError
from graphwalker.inference.chat_tokens import ChatTokens


def check_template(training: Any) -> None:
    """Raise ``UserError`` where an ``SFTConfig`` names a chat template that does not mark what is trained."""
    path = training.chat_template_path
    if path is None:
        return
    try:
        file = Path(path)
        template = file.read_text("utf-8") if file.is_file() else AutoTokenizer.from_pretrained(path).chat_template
    except (OSError, ValueError) as error:
        raise UserError(f"chat_template_path: {path}: cannot be read ({str(error).splitlines()[0]})") from error
    if not template or not has_generation_markers(template):
        raise UserError(
            f"chat_template_path: {path}: marks no text as generated, so nothing would be trained; put "
            "{% generation %} and {% endgeneration %} around the assistant's text and its end-of-turn token, "
            "or leave chat_template_path out"
        )


def check_reference(model: Any, training: Any, adapted: bool) -> None:
    """Raise ``UserError`` where GRPO's reference model cannot be what the policy is.

    With ``beta`` above 0 TRL reads the reference from where the policy came from, unless adapters are trained (the
    reference is then the policy with them switched off, or as they were).
    """
    if not training.beta or adapted:
        return
    source = str(getattr(model.config, "_name_or_path", "") or "")
    ways = "train LoRA adapters (use_peft: true), or set beta: 0"
    if (Path(source) / "adapter_config.json").is_file() and not (Path(source) / "config.json").is_file():
        raise UserError(
            f"beta: {training.beta} needs a reference model on disk, and {source} holds an adapter: merge it first "
            f"(graphwalker merge {source} OUT) and start from OUT, {ways}"
        )
    if not source or not (Path(source).is_dir() or _is_hub_name(source)):
        raise UserError(
            f"beta: {training.beta} needs a reference model, which is read from where the policy lies on disk, and "
            f"this policy is only in memory: save it and load it from there, {ways}"
        )
    config = Path(source) / "config.json"
    if config.is_file():
        rows = json.loads(config.read_text("utf-8")).get("vocab_size")
        if rows and rows != model.config.get_text_config().vocab_size:
            raise UserError(
                f"beta: {training.beta} needs a reference model with the policy's vocabulary, and {source} has {rows} "
                f"tokens beside {model.config.get_text_config().vocab_size}: save the resized model and start from it"
            )


def check_checkpoint(checkpoint: str | None, model: Any, learning_rate: float) -> None:
    """Raise ``UserError`` for a checkpoint to go on from whose weights have other shapes than the model's.

    Also for one with another learning rate: it is a part of the schedule's state, and a new one would do nothing.
    """
    if not checkpoint:
        return
    if not Path(checkpoint).is_dir():
        raise UserError(
            f"resume_from_checkpoint: {checkpoint}: no such folder; leave it out, and a run goes on from its last"
        )
    config = Path(checkpoint) / "config.json"
    before, now = json.loads(config.read_text("utf-8")) if config.is_file() else {}, model.config.get_text_config()
    for key in ("model_type", "vocab_size", "hidden_size", "num_hidden_layers"):
        if key in before and before[key] != getattr(now, key, before[key]):
            raise UserError(
                f"{checkpoint}: cannot go on from this checkpoint: its {key} is {before[key]}, the model's "
                f"{getattr(now, key)}; choose another output_dir, or remove the folder"
            )
    schedule = Path(checkpoint) / "scheduler.pt"
    rates = torch.load(schedule, weights_only=True).get("base_lrs", []) if schedule.is_file() else []
    if any(rate != learning_rate for rate in rates):
        raise UserError(
            f"{checkpoint}: cannot go on from this checkpoint: its learning_rate is {rates[0]:g}, the config's "
            f"{learning_rate:g}; choose another output_dir, with this checkpoint as model_name_or_path"
        )


def check_prompts(prompts: Iterable[list[dict]], tokenizer: Any, model: Any, limit: int | None, key: str) -> None:
    """Raise ``UserError`` for the first prompt that fills an episode of ``limit`` tokens, or the model's context.

    ``key`` names the setting that the limit comes from.
    """
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    most = min((tokens for tokens in (limit, context) if tokens), default=None)
    if not most:
        return
    tokens = ChatTokens(tokenizer)
    for number, prompt in enumerate(prompts, 1):
        # a token stands for at least one byte, so a short text needs no tokens to be counted
        if sum(len(message["content"].encode()) for message in prompt) < most // 2:
            continue
        length = len(tokens.prompt(prompt))
        if length >= most:
            raise UserError(
                f"the prompt of row {number} takes {length} tokens, and an episode may take {most} "
                f"({key if most == limit else 'the context of the model'}): allow more tokens an episode, or choose a "
                "shorter prompt (prompt: compact)"
            )


def _is_hub_name(name: str) -> bool:
    """``owner/name``, or a bare name of an old model; a path that does not exist is neither."""
    return not name.startswith((".", "/", "~")) and name.count("/") <= 1
