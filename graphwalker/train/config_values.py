"""Values of a recipe's config against its dataclasses: argparse converts strings and lets anything else through."""

import types
from argparse import Namespace
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
    "num_train_epochs": 0,
    "max_steps": -1,
    "learning_rate": 0,
    "weight_decay": 0,
    "max_grad_norm": 0,
    "warmup_steps": 0,
    "save_steps": 1e-6,
    "logging_steps": 0,
    "seed": 0,
    "max_length": 1,
    "num_generations": 1,
    "num_iterations": 1,
    "max_completion_length": 1,
    "temperature": 0,
    "beta": 0,
    "epsilon": 0,
}
# setting -> the package that it needs, and how to get it
PACKAGES = {
    "deepspeed": ("deepspeed", "'graphwalker-kgqa[deepspeed]'"),
    "load_in_4bit": ("bitsandbytes", "'graphwalker-kgqa[qlora]'"),
    "load_in_8bit": ("bitsandbytes", "'graphwalker-kgqa[qlora]'"),
    "use_liger_kernel": ("liger_kernel", "liger-kernel (it needs a GPU)"),
}
SEEDS = 2**32  # numpy takes no more
RATIOS = ("token", "turn", "sequence")

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
            converted = isinstance(value, str) and not (ours and get_origin(hint) in (list, Literal))
            if not converted and not _fits(value, hint):
                raise UserError(f"{where}: {key}: expected {_name(hint)}, got {repr(value)[:80]}")


def check_limits(values: Namespace) -> None:
    """Raise ``UserError`` for a parsed setting of TRL's that is out of range or needs what is missing."""
    at_least(values, **{key: low for key, low in LOWEST.items() if hasattr(values, key)})
    seed = getattr(values, "seed", 0)
    if seed >= SEEDS:
        raise UserError(f"seed: must be below {SEEDS}, got {seed}")
    level = getattr(values, "importance_sampling_level", "token")
    if level not in RATIOS:
        raise UserError(f"importance_sampling_level: expected one of {', '.join(RATIOS)}, got {level!r}")
    rewards, weights = getattr(values, "rewards", None), getattr(values, "reward_weights", None)
    if rewards and weights is not None and len(weights) != len(rewards):
        raise UserError(f"reward_weights: {len(weights)} weights for {len(rewards)} rewards ({', '.join(rewards)})")
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
