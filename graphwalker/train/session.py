"""What every training recipe does around its trainer: parse, train, resume, save."""

import difflib
import errno
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

import torch
from transformers import TrainerCallback, set_seed
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import get_last_checkpoint
from trl import TrlParser

from graphwalker import extensions
from graphwalker.errors import UserError
from graphwalker.files import end_on_sigterm, locked, write_json
from graphwalker.train import tracking
from graphwalker.train.alarms import stop_on_nan
from graphwalker.train.config_values import check_choices, check_limits, check_types
from graphwalker.train.preflight import check_checkpoint
from graphwalker.versions import check_installed
from graphwalker.yaml_file import read_yaml

LOCK = ".training"  # not a stage's .lock, which the curriculum holds meanwhile
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def parse(
    dataclasses: Sequence[type], default_config: str | Path, args: Sequence[str] | None = None, **defaults: Any
) -> tuple[Any, ...]:
    """Parse ``--config FILE`` and ``--field value`` into the dataclasses (TRL's and our own).

    With no ``--config`` the recipe's ``default_config`` is read, so that a bare launch runs. ``defaults``
    replace the dataclasses' own. Without an accelerator the run uses the CPU in float32 unless told
    otherwise (bfloat16 is emulated, and many times slower, on most CPUs). Raises ``UserError`` for an
    unknown key, naming the nearest known one, and for a value that a dataclass refuses.
    """
    args = [part for arg in (sys.argv[1:] if args is None else args) for part in _split_config(arg)]
    if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true" and os.environ.get("LOCAL_RANK", "0") == "0":
        for lock in extensions.locked_builds():  # said now: DeepSpeed starts with the arguments, and waits in silence
            print(f"DeepSpeed may wait for a build that {lock} holds up; {extensions.advice(lock)}", flush=True)
    if "--config" not in args and not any(flag in args for flag in ("-h", "--help")):
        args = ["--config", str(default_config), *args]
    parser = TrlParser(list(dataclasses), allow_abbrev=False)
    if not torch.accelerator.is_available():
        defaults = {"use_cpu": True, "bf16": False, **defaults}
        share_cores()
    known = {action.dest for action in parser._actions}
    parser.set_defaults(**{key: value for key, value in defaults.items() if key in known})
    parser.error = _refuse
    if "--config" in args:
        config = Path(_value(args, "--config"))
        given = read_yaml(config)
        check_keys(config, given, known)
        check_choices(config, given, parser)
        check_types(config, given, dataclasses)
        if "output_dir" in given and given["output_dir"] is None:
            raise UserError(f"{config}: output_dir: name a folder")
        parser.set_defaults_with_config(**given)
    check_keys("command line", (arg[2:].split("=")[0] for arg in args if arg.startswith("--")), _flags(parser))
    try:
        check_limits(parser.parse_known_args(_without_config(args))[0])
        values = parser.parse_args_and_config(args)
    except (ValueError, TypeError, ImportError, OSError) as error:
        raise UserError(" ".join(str(error).split())) from error
    for value in values:
        if hasattr(value, "seed") and hasattr(value, "output_dir"):
            set_seed(value.seed)
            tracking.prepare(value.report_to)
    return values


def check_config(where: str, dataclasses: Sequence[type], config: Mapping[str, Any]) -> None:
    """Raise ``UserError`` for what `parse` would refuse in a config, as far as one process can tell.

    TRL's own dataclasses are not made: they look at the machine and at how many processes there are.
    """
    parser = TrlParser(list(dataclasses), allow_abbrev=False)
    parser.error = _refuse
    check_keys(where, config, {action.dest for action in parser._actions})
    check_choices(where, config, parser)
    check_types(where, config, dataclasses)
    parser.set_defaults_with_config(**config)
    try:
        values = parser.parse_args([])
        check_limits(values)
        for part in dataclasses:
            if not part.__module__.startswith("trl."):
                part(**{field.name: getattr(values, field.name) for field in fields(part)})
    except (UserError, ValueError) as error:
        raise UserError(f"{where}: {' '.join(str(error).split())}") from error


def share_cores() -> None:
    """Give this process its share of the cores; `accelerate launch` leaves each process one, however many idle."""
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(max(1, cores // processes))


def check_keys(where: str | Path, keys: Iterable[Any], known: Iterable[str]) -> None:
    """Raise ``UserError`` for the first key that is not known, naming the nearest one that is."""
    known = set(known)
    for key in keys:
        if key not in known and key != "env":  # TrlParser sets the environment variables below `env`
            near = difflib.get_close_matches(str(key), sorted(known), n=1)
            raise UserError(f"{where}: unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _split_config(arg: str) -> list[str]:
    return arg.split("=", 1) if arg.startswith("--config=") else [arg]


def _without_config(args: list[str]) -> list[str]:
    place = args.index("--config") if "--config" in args else len(args)
    return args[:place] + args[place + 2 :]


def _value(args: list[str], flag: str) -> str:
    place = args.index(flag) + 1
    return args[place] if place < len(args) else _refuse(f"argument {flag}: expected one argument")


def _flags(parser: TrlParser) -> set[str]:
    return {"config", *(flag.lstrip("-") for flag in parser._option_string_actions)}


def _refuse(message: str) -> NoReturn:
    raise UserError(message)


def make_trainer(kind: Callable[..., Any], **parts: Any) -> Any:
    """A trainer; raises ``UserError`` for settings that it refuses and for an output folder that it cannot make."""
    try:
        return kind(**parts)
    except (ValueError, ImportError, NotImplementedError) as error:
        raise UserError(" ".join(str(error).split())) from error
    except OSError as error:
        raise UserError(f"output_dir: {parts['args'].output_dir!r}: {error.strerror or error}") from error


def train_and_save(trainer: Any, *configs: Any) -> None:
    """Train (from the last checkpoint in the output folder, if there is one), then save model, state and metrics.

    A run that was interrupted goes on where its last whole checkpoint stands; one that was finished ends at once. Where
    another process trains in the folder (one whose launcher was killed may), it is waited for.
    ``configs`` are the recipe's own settings, for what the run reports to. Raises ``UserError`` for GRPO that is saved
    where it cannot go on exactly.
    """
    out = Path(trainer.args.output_dir)
    check_saves(trainer.args)
    trainer.add_callback(tracking.ConfigCallback(configs))
    with ExitStack() as held:
        with trainer.args.main_process_first(desc="looking for checkpoints"):
            if trainer.is_world_process_zero():
                held.enter_context(
                    locked(out / LOCK, f"{out} is being trained by another process: waiting for its end")
                )
                drop_torn_checkpoints(out)
        _train_and_save(trainer, out)


def _train_and_save(trainer: Any, out: Path) -> None:
    checkpoint = trainer.args.resume_from_checkpoint
    if checkpoint is None and out.is_dir():
        checkpoint = get_last_checkpoint(str(out))
    if checkpoint:
        check_checkpoint(checkpoint, trainer.model, trainer.args.learning_rate)
        trainer.accelerator.print(f"Going on from {checkpoint}")
    stop_on_nan(trainer)
    try:
        metrics = {**_train(trainer, checkpoint), **_split(trainer)}
        _save_model(trainer, out)
    except BaseException:
        if trainer.is_world_process_zero():
            drop_torn_checkpoints(out)
        raise
    trainer.log_metrics("train", metrics)
    trainer.save_state()
    if trainer.is_world_process_zero():
        write_json(out / "train_results.json", metrics)  # last and whole: it says that the run is finished
    trainer.accelerator.print(f"Saved to {out}")
    trainer.accelerator.end_training()


class _Trained(Exception):
    """The checkpoint that a run goes on from is its last."""


class _EndAtOnce(TrainerCallback):
    """transformers looks at ``max_steps`` after a step only, and would take one more where an epoch is not over."""

    def on_train_begin(self, args, state, control, **kwargs):
        if state.global_step >= state.max_steps:
            raise _Trained


def _train(trainer: Any, checkpoint: str | None) -> dict[str, Any]:
    """Train and return the metrics of it; from a last checkpoint, only what that has is loaded."""
    trainer.add_callback(_EndAtOnce())
    try:
        return trainer.train(resume_from_checkpoint=checkpoint).metrics
    except _Trained:
        return {"epoch": trainer.state.epoch}


def check_saves(training: Any) -> None:
    """Raise ``UserError`` where GRPO would save a checkpoint between steps that share one generation.

    The episodes of a generation are not saved: a run that goes on from there would make others with newer weights.
    """
    if training.save_strategy != "steps" or not getattr(training, "steps_per_generation", None):
        return
    micro = training.gradient_accumulation_steps
    shared = training.steps_per_generation * training.num_iterations  # micro-steps
    if micro % shared and (training.save_steps < 1 or training.save_steps * micro % shared):
        raise UserError(
            f"save_steps: {training.save_steps}: {shared / micro:g} steps share one generation (steps_per_generation, "
            "num_iterations), and a checkpoint between them would not go on exactly: make it a multiple"
        )


def _split(trainer: Any) -> dict[str, float]:
    """How DeepSpeed spread the model, from its engine: the ZeRO stage, and the share of the weights kept here."""
    engine = getattr(trainer, "deepspeed", None)
    if engine is None:
        return {}
    sizes = [(getattr(p, "ds_tensor", p).numel(), getattr(p, "ds_numel", p.numel())) for p in engine.parameters()]
    kept, whole = map(sum, zip(*sizes, strict=True))
    return {"zero_stage": engine.zero_optimization_stage(), "zero_weights_here": kept / whole}


def drop_torn_checkpoints(out: Path) -> None:
    """Remove what a run left that died while it was saving; the trainer's state is the last file it writes."""
    shutil.rmtree(out / ".saving", ignore_errors=True)
    for folder in out.glob("checkpoint-[0-9]*"):
        try:
            json.loads((folder / TRAINER_STATE_NAME).read_bytes())
        except (OSError, ValueError):
            shutil.rmtree(folder, ignore_errors=True)


def _save_model(trainer: Any, out: Path) -> None:
    """Save beside the place first, so that a full disk leaves no half model there; ``config.json`` goes last."""
    trainer.save_model(str(out / ".saving"))
    trainer.accelerator.wait_for_everyone()
    if trainer.is_world_process_zero():
        files = sorted(
            (out / ".saving").iterdir(), key=lambda file: file.name in ("config.json", "adapter_config.json")
        )
        for file in files:
            file.replace(out / file.name)
        (out / ".saving").rmdir()
    trainer.accelerator.wait_for_everyone()


def run(main: Callable[[], None]) -> None:
    """Call a recipe's ``main``; bad input or a full disk ends the program with one line and exit status 2 or 1."""
    end_on_sigterm()
    try:
        check_installed()
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted; run the same command to go on from the last checkpoint", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        if not is_disk_full(error):
            raise
        print(f"error: the disk is full: {' '.join(str(error).split())[:200]}", file=sys.stderr)
        sys.exit(1)


def is_disk_full(error: BaseException) -> bool:
    """Whether a write failed for want of room; torch and safetensors say so in errors of their own."""
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        return True
    words = (*(f"os error {number}" for number in DISK_FULL), "No space left on device", "PytorchStreamWriter failed")
    return any(word in str(error) for word in words)
