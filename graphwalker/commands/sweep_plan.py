"""A sweep's YAML in W&B's format, and the runs that it asks for, without a server.

https://docs.wandb.ai/guides/sweeps/sweep-config-keys. W&B's own engine, the package `sweeps` 0.3.0, asks for numpy
below 2 and so cannot be installed beside this project; a grid needs no engine, and Optuna samples the rest.
"""

import itertools
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from graphwalker.errors import UserError
from graphwalker.metrics.trajectory import METRICS
from graphwalker.yaml_file import read_yaml

METHODS = ("grid", "random", "bayes")
KEYS = ("command", "method", "metric", "parameters", "program", "run_cap")
PARAMETER_KEYS = ("distribution", "max", "min", "probabilities", "q", "value", "values")
METRIC_KEYS = ("goal", "name", "target")  # a target is W&B's alone
ONLY_WANDB = ("description", "early_terminate", "entity", "name", "project")  # read by W&B alone
DEFAULT_COMMAND = ("${env}", "${interpreter}", "${program}", "${args}")
SEED = "seed"


@dataclass(frozen=True)
class Metric:
    """``final/SPLIT/DECODING/NAME``: a metric of a run's last stage."""

    split: str
    decoding: str
    name: str
    maximise: bool


@dataclass(frozen=True)
class Sweep:
    """What a sweep's file says; ``seeds`` are run for every combination of the other ``parameters``."""

    file: Path
    program: str
    method: str
    metric: Metric | None
    parameters: Mapping[str, Mapping[str, Any]]
    seeds: Sequence[Any]
    command: Sequence[str]
    run_cap: int | None

    @property
    def total(self) -> int:
        """How many runs there are at most."""
        combinations = 1
        for parameter in self.parameters.values():
            combinations *= len(parameter.get("values", [0]))
        if self.method != "grid":
            combinations = self.run_cap or 0
        return min(combinations, self.run_cap or combinations) * max(1, len(self.seeds))


def read_sweep(file: Path) -> Sweep:
    """Read a sweep; raises ``UserError`` for a mistake in it."""
    given = read_yaml(file)
    _check_known(str(file), given, (*KEYS, *ONLY_WANDB))
    method, program, cap = given.get("method"), given.get("program"), given.get("run_cap")
    if method not in METHODS:
        raise UserError(f"{file}: method: {method!r} is not one of {', '.join(METHODS)}")
    if not isinstance(program, str) or not Path(program).is_file():
        raise UserError(f"{file}: program: {program}: no such file (paths are from the folder that you are in)")
    if cap is not None and (not isinstance(cap, int) or isinstance(cap, bool) or cap < 1):
        raise UserError(f"{file}: run_cap: expected a whole number above 0, got {cap!r}")
    if method != "grid" and cap is None:
        raise UserError(f"{file}: run_cap: say how many combinations the method {method} is to try")
    parameters = given.get("parameters")
    if not isinstance(parameters, dict) or not parameters:
        raise UserError(f"{file}: parameters: expected a mapping of names to values")
    checked = {str(name): _parameter(f"{file}: parameters: {name}", spec, method) for name, spec in parameters.items()}
    seeds = checked.pop(SEED, {"values": ()}).get("values")
    if seeds is None:
        raise UserError(f"{file}: parameters: {SEED}: expected value or values; each combination is run with all")
    command = given.get("command", list(DEFAULT_COMMAND))
    if not isinstance(command, list) or not any(str(word).startswith("${args") for word in command):
        raise UserError(f"{file}: command: expected a list with ${{args}} in it")
    metric = _metric(file, given.get("metric"))
    if method == "bayes" and metric is None:
        raise UserError(f"{file}: metric: the method bayes needs one")
    return Sweep(file, program, method, metric, checked, seeds, list(map(str, command)), cap)


def _check_known(where: str, given: Mapping[Any, Any], known: Sequence[str]) -> None:
    unknown = sorted(map(str, given.keys() - set(known)))
    if unknown:
        raise UserError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(known)}")


def _metric(file: Path, given: Any) -> Metric | None:
    if given is None:
        return None
    if isinstance(given, dict):
        _check_known(f"{file}: metric", given, METRIC_KEYS)
    name, goal = (given.get(key) for key in ("name", "goal")) if isinstance(given, dict) else (None, None)
    match = re.fullmatch(r"final/([^/]+)/([^/]+)/([^/]+)", str(name))
    if match is not None and match[3] not in METRICS:
        raise UserError(f"{file}: metric: {match[3]!r} is not one of {', '.join(METRICS)}")
    if match is None or goal not in ("maximize", "minimize"):
        raise UserError(f"{file}: metric: expected a name final/SPLIT/DECODING/METRIC and a goal, maximize or minimize")
    return Metric(match[1], match[2], match[3], goal == "maximize")


def _parameter(where: str, given: Any, method: str) -> dict[str, Any]:
    """A parameter as ``values``, or as the bounds of a distribution."""
    if not isinstance(given, dict):
        raise UserError(f"{where}: expected a mapping with value, values, or min and max, got {given!r}")
    _check_known(where, given, PARAMETER_KEYS)
    if sum(kind in given for kind in ("value", "values", "min")) > 1:
        raise UserError(f"{where}: give one of value, values, and min with max, not several")
    if "value" in given:
        return {"values": [given["value"]]}
    if "values" in given:
        if not isinstance(given["values"], list) or not given["values"] or "probabilities" in given:
            raise UserError(f"{where}: values: expected a list, without probabilities")
        return {"values": given["values"]}
    low, high = (given.get(end) for end in ("min", "max"))
    whole = isinstance(low, int) and isinstance(high, int)
    kind = given.get("distribution", "int_uniform" if whole else "uniform")
    if method == "grid" or kind not in ("uniform", "int_uniform", "log_uniform_values", "q_uniform"):
        raise UserError(f"{where}: {'a grid' if method == 'grid' else kind} needs value or values here")
    step = given.get("q", 1 if kind == "q_uniform" else None)
    if step is not None and not (_is_number(step) and step > 0):
        raise UserError(f"{where}: q: expected a number above 0, got {step!r}")
    numbers = [x for x in (low, high) if _is_number(x)]
    if len(numbers) < 2 or not numbers[0] < numbers[1] or (kind == "log_uniform_values" and numbers[0] <= 0):
        raise UserError(f"{where}: expected numbers min < max" + (" above 0" if kind.startswith("log") else ""))
    return {"distribution": kind, "min": low, "max": high, "q": step}


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def combinations(sweep: Sweep, outcome: Callable[[dict[str, Any]], float | None]) -> Iterator[dict[str, Any]]:
    """The values of the parameters, one combination after another; ``outcome`` is asked of each when it has run.

    The same outcomes give the same combinations, so that a sweep can go on where it stopped.
    """
    if sweep.method == "grid":
        choices = [[(name, value) for value in spec["values"]] for name, spec in sweep.parameters.items()]
        yield from itertools.islice(map(dict, itertools.product(*choices)), sweep.run_cap)
        return
    import optuna  # seconds, and most commands need none of it

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    samplers = {"random": optuna.samplers.RandomSampler, "bayes": optuna.samplers.TPESampler}
    best = optuna.study.StudyDirection
    direction = best.MAXIMIZE if sweep.metric is None or sweep.metric.maximise else best.MINIMIZE
    study = optuna.create_study(sampler=samplers[sweep.method](seed=0), direction=direction)
    distributions = {name: _distribution(optuna.distributions, spec) for name, spec in sweep.parameters.items()}
    for _ in range(sweep.run_cap or 0):
        trial = study.ask(distributions)
        # of values, which may be lists, Optuna sees their places alone
        values = {
            name: spec["values"][trial.params[name]] if "values" in spec else trial.params[name]
            for name, spec in sweep.parameters.items()
        }
        yield values
        value = outcome(values)
        study.tell(trial, value, state=optuna.trial.TrialState.FAIL if value is None else None)


def _distribution(of: Any, spec: Mapping[str, Any]) -> Any:
    if "values" in spec:
        return of.CategoricalDistribution(list(range(len(spec["values"]))))
    low, high, kind = spec["min"], spec["max"], spec["distribution"]
    if kind == "int_uniform":
        return of.IntDistribution(low, high)
    return of.FloatDistribution(low, high, log=kind == "log_uniform_values", step=spec["q"])


def command_line(sweep: Sweep, values: Mapping[str, Any]) -> list[str]:
    """The command of one run, W&B's macros filled in as its agent fills them in."""
    flags = [f"--{name}={value}" for name, value in values.items()]
    macros: dict[str, list[str]] = {
        "${env}": ["/usr/bin/env"],
        "${interpreter}": [sys.executable],
        "${program}": [sweep.program],
        "${args}": flags,
        "${args_no_hyphens}": [flag[2:] for flag in flags],
        "${args_no_boolean_flags}": [
            f"--{name}" if value is True else f"--{name}={value}"
            for name, value in values.items()
            if value is not False
        ],
        "${args_json}": [json.dumps(dict(values))],
    }
    words = [macros.get(word, [_from_environment(word)]) for word in sweep.command]
    return [word for part in words for word in part]


def _from_environment(word: str) -> str:
    return re.sub(r"\$\{envvar:(\w+)\}", lambda match: os.environ.get(match[1], match[1]), word)


def run_name(values: Mapping[str, Any]) -> str:
    """The folder of a run: its values, readable and of a length that every file system takes."""
    text = ",".join(f"{name}={value}" for name, value in values.items())
    name = re.sub(r"[^\w.,=+-]+", "_", text)
    if len(name) <= 120 and name == text:
        return name
    from hashlib import sha256

    return f"{name[:100]}-{sha256(text.encode()).hexdigest()[:12]}"
