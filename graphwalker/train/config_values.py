"""Values of a recipe's config against its dataclasses: argparse converts strings and lets anything else through."""

import math
import types
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from graphwalker.errors import UserError, at_least

# What TRL's and transformers' settings must be at least; they divide by some of these, and train to NaN with others.
LOWEST = {
    "per_device_train_batch_size": 1,
    "per_device_eval_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "num_train_epochs": 1e-6,
    "max_steps": -1,
    "learning_rate": 0,
    "weight_decay": 0,
    "max_grad_norm": 0,
    "adam_beta1": 0,
    "adam_beta2": 0,
    "adam_epsilon": 0,
    "warmup_steps": 0,
    "save_steps": 1e-6,
    "logging_steps": 0,
    "seed": 0,
    "max_length": 1,
    "lora_r": 1,
    "num_generations": 1,
    "num_iterations": 1,
    "max_completion_length": 1,
    "temperature": 1e-6,
    "top_p": 1e-6,
    "beta": 0,
    "epsilon": 0,
    "epsilon_high": 0,
}
# setting -> the package that it needs, and how to get it
PACKAGES = {
    "deepspeed": ("deepspeed", "'graphwalker-kgqa[deepspeed]'"),
    "load_in_4bit": ("bitsandbytes", "'graphwalker-kgqa[qlora]'"),
    "load_in_8bit": ("bitsandbytes", "'graphwalker-kgqa[qlora]'"),
    "use_liger_kernel": ("liger_kernel", "liger-kernel (it needs a GPU)"),
}
DECAYS = ("adam_beta1", "adam_beta2")
SEEDS = 2**32  # numpy takes no more
# the words that GRPO's settings may be; TRL finds out at its first step, after the episodes
GRPO_WORDS = {
    "importance_sampling_level": ("token", "turn", "sequence"),
    "loss_type": ("bnpo", "cispo", "dapo", "dr_grpo", "grpo", "luspo", "sapo", "vespo"),
    "scale_rewards": ("batch", "group", "none"),
    "multi_objective_aggregation": ("normalize_then_sum", "sum_then_normalize"),
    "vllm_mode": ("colocate", "server"),
}

_NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "a mapping",
    types.NoneType: "null",
}


def check_types(where: str | Path, values: Mapping[str, Any], dataclasses: Sequence[type]) -> None:
    """Raise ``UserError`` for the first value of a config that its field cannot hold, naming the key.

    Strings are left to argparse, which converts them, except for a list of ours (TRL takes some lists as a string) and
    for one of several words, which argparse checks on the command line alone.
    """
    if not isinstance(values.get("env", {}), dict):
        raise UserError(f"{where}: env: expected a mapping, got {values['env']!r}")
    for part in dataclasses:
        for key, hint in get_type_hints(part).items():
            if key not in values:
                continue
            value = values[key]
            ours = not part.__module__.startswith("trl.")
            words = any(get_origin(each) in (list, Literal) for each in (hint, *get_args(hint)))
            converted = isinstance(value, str) and not (ours and words)
            if not converted and not _fits(value, hint):
                raise UserError(f"{where}: {key}: expected {_name(hint)}, got {repr(value)[:80]}")


def check_choices(where: str | Path, values: Mapping[str, Any], parser: ArgumentParser) -> None:
    """Raise ``UserError`` for a value of a config that is none of its flag's words.

    argparse checks them on the command line alone, and transformers takes an unknown sampling strategy for its default.
    """
    for flag in parser._actions:
        value = values.get(flag.dest)
        if value is False and "no" in (flag.choices or ()):
            raise UserError(f'{where}: {flag.dest}: write "no" in quotes; YAML reads a bare no as false')
        if flag.choices and isinstance(value, str) and value not in flag.choices:
            raise UserError(f"{where}: {flag.dest}: {value!r} is not one of {', '.join(map(str, flag.choices))}")


def check_limits(values: Namespace) -> None:
    """Raise ``UserError`` for a parsed setting of TRL's that is out of range or needs what is missing."""
    at_least(values, **{key: low for key, low in LOWEST.items() if hasattr(values, key)})
    if getattr(values, "max_steps", -1) == 0:  # transformers takes it for none given, and trains whole epochs
        raise UserError("max_steps: 0 would train nothing; give at least 1, or leave it out for num_train_epochs")
    if getattr(values, "output_dir", None) == "":
        raise UserError("output_dir: name a folder")
    seed = getattr(values, "seed", 0)
    if seed >= SEEDS:
        raise UserError(f"seed: must be below {SEEDS}, got {seed}")
    for key in DECAYS:
        if getattr(values, key, 0) >= 1:
            raise UserError(f"{key}: must be below 1, got {getattr(values, key)}")
    for key, words in GRPO_WORDS.items() if hasattr(values, "importance_sampling_level") else ():
        if getattr(values, key, words[0]) not in words:
            raise UserError(f"{key}: {getattr(values, key)!r} is not one of {', '.join(words)}")
    rewards, weights = getattr(values, "rewards", None), getattr(values, "reward_weights", None)
    if rewards and weights is not None and len(weights) != len(rewards):
        raise UserError(f"reward_weights: {len(weights)} weights for {len(rewards)} rewards ({', '.join(rewards)})")
    if not all(map(math.isfinite, weights or ())):
        raise UserError(f"reward_weights: expected numbers, got {weights}")
    for key, (package, install) in PACKAGES.items():
        if getattr(values, key, None) and find_spec(package) is None:
            raise UserError(f"{key}: the package {package} is not installed: pip install {install}")


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is Literal:
        return value in inner
    if origin is list:
        return isinstance(value, list) and all(_fits(each, inner[0]) for each in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items())
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float) if hint is float else hint)


def _name(hint: Any) -> str:
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_name(each) for each in get_args(hint)))
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    kind = get_origin(hint) or hint
    return _NAMES.get(kind, getattr(kind, "__name__", str(kind)))
