"""What the commands that write data share: checked options, whole files, and counts beside them."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from graphwalker.errors import UserError
from graphwalker.files import atomic_files, dump_json, dump_jsonl

T = TypeVar("T")


def write_counted(args: argparse.Namespace, made: Iterator[T], counts: Any, what: str, source: dict[str, str]) -> None:
    """Write what is made, at most `--limit`, to `--out`, and beside it where it came from and what was dropped."""
    with atomic_files(args.out, counts_path(args.out)) as (out, beside):
        written = dump_jsonl(out, limited(made, args.limit, counts))
        dump_json(beside, {**source, **counts.to_json()})
    print("\n".join(counts.lines()))
    print(f"{args.out}: {written:,} {what}")


def limited(questions: Iterator[T], limit: int | None, counts: Any) -> Iterator[T]:
    """The questions (or trajectories) with a progress bar; none is an error, so that no empty file is left behind."""
    from tqdm import tqdm

    empty = True
    for number, question in enumerate(tqdm(questions, unit=" questions", leave=False, disable=None), 1):
        empty = False
        yield question
        if number == limit:
            break
    if empty:
        raise UserError("no question is left\n" + "\n".join(counts.lines()))


def counts_path(out: Path) -> Path:
    """Where the counts of an import stand: ``questions.jsonl`` has them in ``questions.counts.json``."""
    return out.with_suffix(".counts.json")


def check(option: str, value: float | None, least: float, most: float | None = None) -> None:
    """Raise ``UserError`` when an option is given and out of its range."""
    if value is not None and not least <= value <= (value if most is None else most):
        wanted = f"at least {least}" if most is None else f"from {least} to {most}"
        raise UserError(f"{option} must be {wanted}, got {value}")


def keep_input(source: Path, *outputs: Path) -> None:
    """Raise ``UserError`` when a file would be written onto the one it is made from, or two onto each other."""
    paths = [path.resolve() for path in outputs]
    if source.resolve() in paths:
        raise UserError(f"{source}: the output would be written onto the input")
    if len(set(paths)) < len(paths):
        raise UserError(f"{outputs[0]}: both parts would be written to this file")
