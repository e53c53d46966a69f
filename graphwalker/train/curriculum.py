"""A curriculum: stages in the order of one YAML, each starting from the checkpoint of the one before.

A run's folder holds the config it was started with; running the same config again goes on where it
stopped, another config in the same folder is refused. Each stage is the launch of a recipe in a process
of its own, with a config file that is kept and can be launched by hand.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from graphwalker.errors import UserError
from graphwalker.files import atomic_write, locked
from graphwalker.train.gates import Gate, read_gate
from graphwalker.train.mixture import FILTERS
from graphwalker.yaml_file import parse_yaml, read_yaml

# for each recipe the keys of its data file and of how much of it is used
DATA = {"sft": ("trajectories", "max_trajectories"), "grpo": ("questions", "max_questions")}
START = "start"  # the name under which the model before the first stage is evaluated


@dataclass
class CurriculumConfig:
    """A run: where it goes, what it starts from, and its stages."""

    run: str = field(
        metadata={"help": "Folder of the run; {seed}, {curriculum_order} or {STAGE.KEY} in it stand for their values."}
    )
    stages: list[dict] = field(
        metadata={"help": "name, recipe (sft or grpo), evaluate (default true), gate, and any key of the recipe."}
    )
    curriculum_order: str | None = field(
        default=None,
        metadata={
            "help": "Names of stages in the order to train them, such as roll,synth,grpo (default: all, as listed); "
            "synth+roll is one stage on the data of both."
        },
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
    stage_cache: str | None = field(
        default=None,
        metadata={
            "help": "Folder of trained stages that runs share: one that was trained before from the same model, data "
            "and settings is not trained again."
        },
    )
    launch: list[str] = field(
        default_factory=list, metadata={"help": "Arguments for `accelerate launch`, such as --config_file FILE."}
    )

    def __post_init__(self) -> None:
        if not self.run:
            raise UserError("run: name a folder")


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: its recipe and the recipe's config; its folder is known once the stages before it are."""

    name: str
    recipe: str
    evaluate: bool
    config: Mapping[str, Any]
    gate: Gate | None = None
    folder: Path = Path()

    @property
    def done(self) -> bool:
        return (self.folder / "train_results.json").is_file()

    def round(self, number: int) -> "Stage":
        """The stage as it is trained the first, second, ... time: a later one has another name and seed."""
        if number == 1:
            return self
        seed = self.config.get("seed", 0) + number - 1
        return replace(self, name=f"{self.name}.{number}", config={**self.config, "seed": seed})


def stages(config: CurriculumConfig) -> list[Stage]:
    """The stages in the order to train them, as ``curriculum_order`` says.

    Raises ``UserError`` where there are none, for a stage without a name, with a name used twice or with an unknown
    recipe, and for an order that names what is not there.
    """
    if not config.stages:
        raise UserError("stages: none are given")
    listed: dict[str, dict[str, Any]] = {}
    for number, given in enumerate(config.stages, 1):
        if not isinstance(given, dict):
            raise UserError(f"stage {number}: expected a mapping with a name and a recipe, got {given!r}")
        name, taken = given.get("name"), {*listed, *([START] if config.evaluate_start else [])}
        if not isinstance(name, str) or not re.fullmatch(r"[\w.]+", name) or name in taken:
            raise UserError(f"stage {number}: needs a name of its own of letters, digits, _ and . only, got {name!r}")
        listed[name] = given
    for given in listed.values():
        _stage(config, given)
    return [_stage(config, given) for given in _ordered(config.curriculum_order, listed)]


def _stage(config: CurriculumConfig, given: Mapping[str, Any]) -> Stage:
    own = {"recipe": None, "evaluate": True, "gate": None, **given}
    name, recipe, evaluate, gate = (own.pop(key) for key in ("name", "recipe", "evaluate", "gate"))
    if recipe not in DATA:
        raise UserError(f"stage {name}: unknown recipe {recipe!r}; one of {', '.join(DATA)}")
    if not isinstance(evaluate, bool):
        raise UserError(f"stage {name}: evaluate: expected true or false, got {evaluate!r}")
    if "output_dir" in {**config.common, **own}:
        raise UserError(f"stage {name}: output_dir is not yours to set; stages are saved below {config.run}")
    values = {"seed": config.seed, **config.common, **own}
    return Stage(name, recipe, evaluate, values, None if gate is None else read_gate(name, gate))


def _ordered(order: str | None, listed: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    if order is None:
        return list(listed.values())
    words = [word.strip() for word in order.split(",")]
    names = [name.strip() for word in words for name in word.split("+")]
    for name in names:
        if name not in listed or names.count(name) > 1:
            what = "named twice" if name in listed else f"no stage; the stages are {', '.join(listed)}"
            raise UserError(f"curriculum_order: {name!r} is {what}")
    parts = ([listed[name.strip()] for name in word.split("+")] for word in words)
    return [_mixed(of) if len(of) > 1 else of[0] for of in parts]


def _mixed(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One stage on the data of several: the settings of the first, and the steps of all where each has its own."""
    name = "+".join(part["name"] for part in parts)
    recipes = {part.get("recipe") for part in parts}
    if len(recipes) > 1:
        raise UserError(
            f"curriculum_order: {name}: stages of one recipe can be mixed, these are {sorted(map(str, recipes))}"
        )
    file, limit = DATA[parts[0]["recipe"]]
    mixed = {key: value for key, value in parts[0].items() if key not in (file, limit, *FILTERS)}
    mixed |= {"name": name, "mixture": [source for part in parts for source in _sources(name, part, file, limit)]}
    if all(isinstance(part.get("max_steps"), int) for part in parts):
        mixed["max_steps"] = sum(part["max_steps"] for part in parts)
    return mixed


def _sources(name: str, part: Mapping[str, Any], file: str, limit: str) -> list[dict[str, Any]]:
    own = {key: part[key] for key in FILTERS if key in part}
    if "mixture" not in part:
        return [{"file": part.get(file), **({"limit": part[limit]} if part.get(limit) else {}), **own}]
    if part.get(limit) or any(not isinstance(source, dict) or "weight" in source for source in part["mixture"]):
        raise UserError(
            f"curriculum_order: {name}: {part['name']} has weights or a {limit}; write the mixture as a stage"
        )
    return [{**own, **source} for source in part["mixture"]]


def stage_flags(args: Sequence[str]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Split off what is meant for one stage: ``--grpo.beta=0.01`` or ``--grpo.beta 0.01``; values are YAML.

    Returns the other arguments, and each stage's keys (``common`` is every stage's). `set_keys` puts them in.
    """
    rest: list[str] = []
    found: dict[str, dict[str, Any]] = {}
    words = iter(args)
    for word in words:
        match = re.fullmatch(r"--([\w.]+)\.(\w+)(?:=(.*))?", word, flags=re.DOTALL)
        if match is None:
            rest.append(word)
            continue
        text = next(words, None) if match[3] is None else match[3]
        flag = f"--{match[1]}.{match[2]}"
        if text is None:
            raise UserError(f"argument {flag}: expected one argument")
        found.setdefault(match[1], {})[match[2]] = parse_yaml(f"value: {text}", flag)["value"]
    return rest, found


def set_keys(config: CurriculumConfig, given: Mapping[str, Mapping[str, Any]]) -> None:
    """Put the keys of `stage_flags` into their stages, then fill in the name of the run's folder."""
    listed = {
        stage["name"]: stage
        for stage in config.stages
        if isinstance(stage, dict) and isinstance(stage.get("name"), str)
    }
    for name, keys in given.items():
        if name == "common":
            config.common = {**config.common, **keys}
        elif name in listed:
            listed[name] = {**listed[name], **keys}
        else:
            raise UserError(f"command line: {name} is no stage; the stages are {', '.join(map(str, listed))}")
    if len(listed) == len(config.stages):  # else `stages` says what is wrong with them
        config.stages = list(listed.values())
    config.run = re.sub(r"\{([\w.]+)\}", lambda match: _value(match[1], config, listed), config.run)


def _value(key: str, config: CurriculumConfig, listed: Mapping[str, Mapping[str, Any]]) -> str:
    stage, _, name = key.rpartition(".")
    values: Mapping[str, Any] = {**config.common, **listed.get(stage, {})} if stage else asdict(config)
    if name not in values or isinstance(values[name], dict) or name in ("run", "stages"):
        raise UserError(f"run: {{{key}}} is not set")
    if values[name] is None and name == "curriculum_order":
        return ",".join(listed)
    value = values[name]
    return re.sub(r"[^\w.,+-]", "_", "+".join(map(str, value)) if isinstance(value, list) else str(value))


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


@contextmanager
def claim(config: CurriculumConfig, *others: Any) -> Iterator[int]:
    """Write the run's ``config.yaml`` and hold the run; raises ``UserError`` if the folder is another config's.

    Where another process holds it (a stage whose launcher was killed may still be training), it waits for its end.
    Yields the lock's descriptor, for the processes that train stages to inherit.
    """
    check_unchanged(config, *others)
    busy = f"{config.run} is in use by another process, or by a stage that outlived one: waiting for its end"
    with locked(Path(config.run) / ".lock", busy) as lock:
        check_unchanged(config, *others)
        with atomic_write(Path(config.run) / "config.yaml") as handle:
            handle.write(_dump(config, *others))
        yield lock


def _dump(*configs: Any) -> str:
    values = {key: value for config in configs for key, value in asdict(config).items()}
    return yaml.safe_dump(values, sort_keys=True, allow_unicode=True)
