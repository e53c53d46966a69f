"""A curriculum: stages in the order of one YAML, each starting from the checkpoint of the one before.

A run's folder holds the config it was started with; running the same config again goes on where it
stopped, another config in the same folder is refused. Each stage is the launch of a recipe in a process
of its own, with a config file that is kept and can be launched by hand.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from graphwalker.errors import UserError
from graphwalker.files import atomic_write
from graphwalker.yaml_file import parse_yaml, read_yaml

RECIPES = ("sft", "grpo")
START = "start"  # the name under which the model before the first stage is evaluated


@dataclass
class CurriculumConfig:
    """A run: where it goes, what it starts from, and its stages."""

    run: str = field(metadata={"help": "Folder of the run."})
    stages: list[dict] = field(
        metadata={"help": "name, recipe (sft or grpo), evaluate (default true), and any key of the recipe."}
    )
    common: dict = field(default_factory=dict, metadata={"help": "Keys that every stage gets; its own win."})
    model_name_or_path: str = field(default="tiny", metadata={"help": "The model that the first stage starts from."})
    evaluate_start: bool = field(
        default=False, metadata={"help": "Evaluate that model too, as `start`, before the first stage."}
    )
    seed: int = field(default=0, metadata={"help": "Seed of data, training and evaluation."})
    demo_data: str | None = field(
        default=None, metadata={"help": "Folder in which the demo data is made first, if it is not there yet."}
    )
    launch: list[str] = field(
        default_factory=list, metadata={"help": "Arguments for `accelerate launch`, such as --config_file FILE."}
    )

    def __post_init__(self) -> None:
        if not self.run:
            raise UserError("run: name a folder")


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: its folder, its recipe, and the recipe's config."""

    name: str
    recipe: str
    folder: Path
    evaluate: bool
    config: Mapping[str, Any]

    @property
    def done(self) -> bool:
        return (self.folder / "train_results.json").is_file()


def stages(config: CurriculumConfig) -> Iterator[Stage]:
    """The stages in order, each with the checkpoint of the last as its model.

    Raises ``UserError`` where there are none, and for a stage without a name, with a name used twice or with an
    unknown recipe.
    """
    if not config.stages:
        raise UserError("stages: none are given")
    model, names = config.model_name_or_path, {START} if config.evaluate_start else set()
    for number, given in enumerate(config.stages, 1):
        if not isinstance(given, dict):
            raise UserError(f"stage {number}: expected a mapping with a name and a recipe, got {given!r}")
        own = dict(given)
        name, recipe, evaluate = own.pop("name", None), own.pop("recipe", None), own.pop("evaluate", True)
        if not isinstance(name, str) or not re.fullmatch(r"[\w.]+", name) or name in names:
            raise UserError(f"stage {number}: needs a name of its own of letters, digits, _ and . only, got {name!r}")
        if recipe not in RECIPES:
            raise UserError(f"stage {name}: unknown recipe {recipe!r}; one of {', '.join(RECIPES)}")
        if not isinstance(evaluate, bool):
            raise UserError(f"stage {name}: evaluate: expected true or false, got {evaluate!r}")
        if "output_dir" in {**config.common, **own}:
            raise UserError(f"stage {name}: output_dir is not yours to set; stages are saved below {config.run}")
        names.add(name)
        folder = Path(config.run) / "stages" / f"{number}-{name}"
        values = {"seed": config.seed, "model_name_or_path": model, "output_dir": str(folder)}
        yield Stage(name, recipe, folder, evaluate, {**values, **config.common, **own})
        model = str(folder)


def check_unchanged(config: CurriculumConfig, *others: Any) -> None:
    """Raise ``UserError`` if the run's folder was begun with another config, naming the keys that differ."""
    path = Path(config.run) / "config.yaml"
    if not path.is_file():
        return
    before, after = read_yaml(path), parse_yaml(_dump(config, *others), path)
    changed = sorted(str(key) for key in {*before, *after} if before.get(key) != after.get(key))
    if changed:
        raise UserError(
            f"{path}: this run was begun with another config ({', '.join(changed)} changed); "
            "choose another `run`, or remove the folder"
        )


def claim(config: CurriculumConfig, *others: Any) -> None:
    """Write the run's ``config.yaml``; raises ``UserError`` if the folder is another config's."""
    check_unchanged(config, *others)
    with atomic_write(Path(config.run) / "config.yaml") as handle:
        handle.write(_dump(config, *others))


def _dump(*configs: Any) -> str:
    values = {key: value for config in configs for key, value in asdict(config).items()}
    return yaml.safe_dump(values, sort_keys=True, allow_unicode=True)


def launch(stage: Stage, recipes: Path, launch_args: Sequence[str]) -> None:
    """Train one stage (``accelerate launch`` of its recipe); raises ``UserError`` when it fails."""
    config = stage.folder / "config.yaml"
    with atomic_write(config) as handle:
        yaml.safe_dump(dict(stage.config), handle, sort_keys=False, allow_unicode=True)
    script = str(recipes / f"{stage.recipe}.py")
    command = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--quiet",
        *launch_args,
        script,
        "--config",
        str(config),
    ]
    print(f"Stage {stage.name}: accelerate launch {' '.join(command[4:])}", flush=True)
    status = subprocess.run(command, check=False).returncode
    if status != 0:
        raise UserError(f"stage {stage.name} failed (exit status {status}); see its output above")
