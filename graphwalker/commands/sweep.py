"""``graphwalker sweep FILE``: a sweep's runs one after another, without a server, and a table that compares them."""

import argparse
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from graphwalker.children import call
from graphwalker.commands.sweep_plan import SEED, Sweep, combinations, command_line, read_sweep, run_name
from graphwalker.errors import UserError
from graphwalker.files import atomic_write, file_hash, locked, parse_json, write_json
from graphwalker.report.comparison import Group, compare, format_comparison

DONE = "sweep.json"
LOG = "sweep.log"


def add_parser(subparsers: "argparse._SubParsersAction") -> None:
    parser = subparsers.add_parser(
        "sweep",
        help="run a sweep's combinations and compare them",
        description="Runs every combination of a sweep's YAML (W&B's format) with every seed, one after another, and "
        "writes comparison.md and comparison.json. The program must take --run FOLDER, as recipes/curriculum.py does. "
        "Interrupted, the same command goes on; finished runs are not run again. `wandb sweep` takes the same file.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a sweep's YAML, such as one of launch/sweeps")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="where the runs go (default: runs/sweeps/NAME)")


def run(args: argparse.Namespace) -> int:
    sweep = read_sweep(args.file)
    runs = args.runs or Path("runs") / "sweeps" / args.file.stem
    with locked(runs / ".lock", f"{runs} is in use by another sweep: waiting for its end"):
        return _Runner(sweep, runs).run()


class _Runner:
    def __init__(self, sweep: Sweep, runs: Path):
        self.sweep, self.runs = sweep, runs
        self.done: dict[str, list[Path]] = {}  # by combination, in the order of the sweep
        self.parameters: dict[str, dict[str, Any]] = {}
        self.failed: list[str] = []

    def run(self) -> int:
        with tqdm(total=self.sweep.total, unit="run", desc=self.sweep.file.stem) as bar:
            for values in combinations(self.sweep, self._outcome):
                name = self._name(values)
                self.parameters[name], self.done[name] = values, []
                for seed in self.sweep.seeds or [None]:
                    folder = self._one(values if seed is None else {**values, SEED: seed})
                    if folder and folder not in self.done[name]:
                        self.done[name].append(folder)
                    bar.update()
        self._write()
        return 1 if self.failed else 0

    def _name(self, values: Mapping[str, Any]) -> str:
        """What tells a combination from the others: without the parameters that have one value only."""
        of = {name: spec.get("values", [0, 1]) for name, spec in self.sweep.parameters.items()}
        shown = [name for name in values if len(of[name]) > 1]
        return ", ".join(str(values[name]) if len(shown) == 1 else f"{name}={values[name]}" for name in shown) or "all"

    def _one(self, values: Mapping[str, Any]) -> Path | None:
        """Run one unless it is finished; its folder, or ``None`` where it failed."""
        folder = self.runs / run_name(values)
        command = command_line(self.sweep, values)
        made_of = {"command": command[command.index(self.sweep.program) :], "files": _files(command)}
        before = _finished(folder)
        if before:
            if before["made_of"] != made_of:
                raise UserError(
                    f"{folder} is a run of another version of this sweep: choose another --runs, or remove it"
                )
            return folder
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        status = _call([*command, f"--run={folder}"], folder / LOG)
        if status != 0:
            why = f"{folder.name} failed (exit status {status}): {_last_line(folder / LOG)}; see {folder / LOG}"
            tqdm.write(why, file=sys.stderr)
            self.failed.append(why)
            return None
        write_json(folder / DONE, {"made_of": made_of, "parameters": dict(values), "seconds": time.monotonic() - began})
        return folder

    def _outcome(self, values: Mapping[str, Any]) -> float | None:
        """The sweep's metric over the runs of a combination."""
        metric, runs = self.sweep.metric, self.done[self._name(values)]
        if metric is None or not runs:
            return None
        rows = compare([Group("", {}, runs)], [metric.name])
        found = [row for row in rows if (row["split"], row["decoding"]) == (metric.split, metric.decoding)]
        if not found:
            raise UserError(f"{self.sweep.file}: metric: no run was evaluated on {metric.split} ({metric.decoding})")
        return found[0]["metrics"][metric.name]["value"]

    def _write(self) -> None:
        groups = [Group(name, self.parameters[name], runs) for name, runs in self.done.items() if runs]
        if not groups:
            raise UserError(f"no run of {self.sweep.file} ended well; see the logs in {self.runs}")
        first = self.sweep.metric.name if self.sweep.metric else "em_set"
        rows = compare(groups, tuple(dict.fromkeys((first, "em_set", "em"))))
        several = [name for name, spec in self.sweep.parameters.items() if len(spec.get("values", [0, 1])) > 1]
        text = format_comparison(rows, several[0] if len(several) == 1 else "parameters")
        text += "\n".join(["", *self.failed, ""]) if self.failed else ""
        write_json(self.runs / "comparison.json", {"schema": 1, "rows": rows, "failed": self.failed})
        with atomic_write(self.runs / "comparison.md") as handle:
            handle.write(text)
        print(text)
        print(f"Written to {self.runs / 'comparison.md'} and comparison.json")


def _call(command: Sequence[str], log: Path) -> int:
    """Run a command with its output in a log; it ends with this process's interrupt."""
    with open(log, "ab") as handle:
        try:
            return call(command, stdout=handle, stderr=subprocess.STDOUT)
        except OSError as error:
            raise UserError(f"command: {command[0]}: cannot be run ({error.strerror or error})") from error


def _files(command: Sequence[str]) -> dict[str, str]:
    """The files that a command names, by their content: a config that changed makes another run."""
    words = [word.rpartition("=")[2] for word in command[1:]]
    return {
        word: file_hash(word) for word in words if word.endswith((".yaml", ".yml", ".json")) and Path(word).is_file()
    }


def _finished(folder: Path) -> dict[str, Any] | None:
    try:
        return parse_json((folder / DONE).read_bytes())
    except (OSError, ValueError):
        return None


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error:")]
    return (errors or lines or ["no output"])[-1][:300]
