"""Where stages are trained: in the run's folder, or in a folder that runs share, named by what the stage is made of.

A stage is made of its recipe and config, the content of its data files, the model it starts from (the stages before it)
and how it is launched. ``made_of.json`` in its folder says so: a stage that is resumed with other data is refused, and
runs that share a first part of their curricula train it once. A run's ``stages/N-NAME`` is then a link.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from graphwalker.errors import UserError
from graphwalker.files import atomic_folder, atomic_write, locked, parse_json, read_jsonl, write_json, write_jsonl
from graphwalker.metrics.aggregate import score_run
from graphwalker.metrics.run_folder import METRICS_FILE, TRAJECTORIES
from graphwalker.train import tracking
from graphwalker.train.curriculum import Stage
from graphwalker.train.identity import digest, identity, model_identity, versions
from graphwalker.train.processes import Processes
from graphwalker.types import Trajectory

MADE_OF = "made_of.json"
KEY_LENGTH = 20  # digits of a hash that name a folder
# what changes nothing in the weights, and what `model` and the data files' hashes say better
LEFT_OUT = ("demo_data", "disable_tqdm", "logging_dir", "model_cache", "model_name_or_path", "report_to", "run_name")


class StageStore:
    """The stages of one run, placed one after another."""

    def __init__(self, run: Path, model: str, cache: str | None = None, processes: Processes | None = None):
        self.run, self.cache = run, Path(cache) if cache else None
        self.processes = processes or Processes()
        self.model, self.made_of_model = model, model_identity(model)
        self.number = 0

    def place(self, stage: Stage) -> Stage:
        """The next stage with its folder, and the model it starts from in its config.

        Raises ``UserError`` when the folder holds a stage that was made of something else.
        """
        self.number += 1
        here = self.run / "stages" / f"{self.number}-{stage.name}"
        config = {"model_name_or_path": self.model, **stage.config}
        made_of = self._made_of(stage, config)
        if here.is_symlink() and not here.exists():
            here.unlink()  # the shared folder is gone
        if here.is_symlink():
            folder = self._linked(here)
        elif self.cache and not here.exists():
            folder = self.cache / f"{stage.name}-{digest([made_of, versions()])[:KEY_LENGTH]}"
            _link(here, folder)
        else:
            folder = here
        before = _read(folder / MADE_OF)
        if before is None:
            write_json(folder / MADE_OF, {"made_of": made_of, "versions": versions()})
        else:
            _check_same(here, before["made_of"], made_of)
        return replace(stage, folder=folder, config={**config, "output_dir": str(folder)})

    def take(self, stage: Stage) -> None:
        """Let the next stage start from this one's model."""
        self.model = str(stage.folder)
        written = _read(stage.folder / MADE_OF)
        self.made_of_model = digest(written) if written else model_identity(self.model)

    def shared(self, folder: Path, evaluation: Mapping[str, Any]) -> Path | None:
        """Where runs share an evaluation of the model in ``folder``; ``None`` where they share none."""
        if self.cache is None or not (self._is_shared(folder) or self.number == 0):
            return None
        home = folder if self.number else self.cache / f"start-{digest(self.made_of_model)[:KEY_LENGTH]}"
        return home / "evaluations" / digest([identity(evaluation), versions()])[:KEY_LENGTH]

    def train(self, stage: Stage, recipes: Path, locks: Sequence[int] = ()) -> None:
        """Train a stage that has been placed, unless that is done; raises ``UserError`` when it fails."""
        shared = self._is_shared(stage.folder)
        busy = f"{stage.folder} is being trained by another run: waiting for its end"
        with locked(stage.folder / ".lock", busy) if shared and not stage.done else nullcontext() as lock:
            if not stage.done:
                env = None
                if "wandb" in tracking.names(stage.config.get("report_to")):
                    env = tracking.stage_environment(self.run, stage.name, stage.recipe, stage.folder)
                launch(stage, recipes, self.processes, [*locks, *([] if lock is None else [lock])], env)
            elif shared:
                print(f"Stage {stage.name}: trained before, in {stage.folder}", flush=True)

    def _is_shared(self, folder: Path) -> bool:
        return self.cache is not None and folder.parent == self.cache

    def _linked(self, here: Path) -> Path:
        """The shared folder of a stage that this run began before."""
        target = here.resolve()
        if self.cache is not None and target.parent == self.cache.resolve():
            return self.cache / target.name
        return Path(os.path.relpath(target))

    def _made_of(self, stage: Stage, config: Mapping[str, Any]) -> dict[str, Any]:
        own = config["model_name_or_path"]
        return {
            "recipe": stage.recipe,
            "config": identity({key: value for key, value in config.items() if key not in LEFT_OUT}),
            "model": self.made_of_model if own == self.model else model_identity(own),
            "launch": identity(self.processes.made_of()),
        }


def launch(
    stage: Stage,
    recipes: Path,
    processes: Processes,
    locks: Sequence[int] = (),
    env: Mapping[str, str] | None = None,
) -> None:
    """Train one stage by its recipe; raises ``UserError`` when it fails.

    The processes inherit ``locks``: where this one is killed and they live on, they stay held.
    """
    config = write_config(stage)
    script = recipes / f"{stage.recipe}.py"
    shown = " ".join(["accelerate launch", *processes.launch_args, str(script), "--config", str(config)])
    print(f"Stage {stage.name}: {shown}", flush=True)
    status = processes.run(script, config, locks, env)
    if status != 0:
        raise UserError(f"stage {stage.name} failed (exit status {status}); see its output above")


def write_config(stage: Stage) -> Path:
    """The config that a stage's recipe is launched with, in the stage's folder."""
    file = stage.folder / "config.yaml"
    with atomic_write(file) as handle:
        yaml.safe_dump(dict(stage.config), handle, sort_keys=False, allow_unicode=True)
    return file


def reuse_evaluation(shared: Path | None, out: Path, seed: int) -> bool:
    """Whether a shared evaluation is there; it is copied to ``out``, and scored with this version's metrics."""
    if shared is None or not (shared / TRAJECTORIES).is_file():
        return False
    trajectories = list(read_jsonl(shared / TRAJECTORIES, Trajectory))
    write_jsonl(out / TRAJECTORIES, trajectories)
    write_json(out / METRICS_FILE, score_run(trajectories, seed=seed))
    return True


def share_evaluation(shared: Path | None, out: Path) -> None:
    """Let other runs have a finished evaluation."""
    if shared is not None and not shared.exists():
        with atomic_folder(shared) as folder:
            write_jsonl(folder / TRAJECTORIES, read_jsonl(out / TRAJECTORIES))


def _link(here: Path, folder: Path) -> None:
    here.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    here.symlink_to(os.path.relpath(folder.resolve(), here.parent.resolve()), target_is_directory=True)


def _read(file: Path) -> dict[str, Any] | None:
    try:
        value = parse_json(file.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) and "made_of" in value else None


def _check_same(here: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    old, new = ({**value, **value.get("config", {}), "config": None} for value in (before, now))
    changed = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
    if changed:
        raise UserError(
            f"{here}: this stage was begun with another {', '.join(changed)}, by name or by content; "
            "put back what was there, choose another `run`, or remove the folder"
        )
