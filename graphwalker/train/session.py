"""What every training recipe does around its trainer: parse, train, resume, save."""

import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import set_seed
from transformers.trainer_utils import get_last_checkpoint
from trl import TrlParser

from graphwalker.errors import UserError


def parse(dataclasses: Sequence[type], default_config: str | Path, args: Sequence[str] | None = None) -> tuple[Any, ...]:
    """Parse ``--config FILE`` and ``--field value`` into the dataclasses (TRL's and our own).

    With no ``--config`` the recipe's ``default_config`` is read, so that a bare launch runs. Without an
    accelerator the run uses the CPU in float32 unless told otherwise (bfloat16 is emulated, and many
    times slower, on most CPUs). Raises ``UserError`` for an unknown key, naming the nearest known one.
    """
    args = list(sys.argv[1:] if args is None else args)
    if "--config" not in args and not any(flag in args for flag in ("-h", "--help")):
        args = ["--config", str(default_config), *args]
    parser = TrlParser(list(dataclasses))
    if not torch.accelerator.is_available():
        parser.set_defaults(use_cpu=True, bf16=False)
    if "--config" in args:
        _check_keys(parser, Path(args[args.index("--config") + 1]))
    values = parser.parse_args_and_config(args)
    for value in values:
        if hasattr(value, "seed") and hasattr(value, "output_dir"):
            set_seed(value.seed)
    return values


def _check_keys(parser: TrlParser, config: Path) -> None:
    import yaml

    if not config.is_file():
        raise UserError(f"{config}: no such config file")
    try:
        values = yaml.safe_load(config.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{config}: not valid YAML: {error}") from error
    if not isinstance(values, dict):
        raise UserError(f"{config}: expected a mapping of field names to values")
    known = {action.dest for action in parser._actions}
    for key in values:
        if key not in known and key != "env":
            near = difflib.get_close_matches(key, known, n=1)
            raise UserError(f"{config}: unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def train_and_save(trainer: Any) -> None:
    """Train (from the last checkpoint in the output folder, if there is one), then save model, state and metrics.

    A run that was interrupted goes on where its last checkpoint stands; one that was finished ends at once.
    """
    out = trainer.args.output_dir
    checkpoint = trainer.args.resume_from_checkpoint
    if checkpoint is None and Path(out).is_dir():
        checkpoint = get_last_checkpoint(out)
    if checkpoint:
        trainer.accelerator.print(f"Going on from {checkpoint}")
    result = trainer.train(resume_from_checkpoint=checkpoint)
    trainer.save_model(out)
    trainer.log_metrics("train", result.metrics)
    trainer.save_metrics("train", result.metrics)
    trainer.save_state()
    trainer.accelerator.print(f"Saved to {out}")
    trainer.accelerator.end_training()


def run(main) -> None:
    """Call a recipe's ``main``; a ``UserError`` ends the program with its message alone and exit status 2."""
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted; run the same command to go on from the last checkpoint", file=sys.stderr)
        sys.exit(130)
