"""A sweep from its file to its table: W&B's format, each run once, intervals over questions."""

import json
import sys
from pathlib import Path

import pytest

from envs.factory import EnvConfig
from graphwalker.cli import main
from graphwalker.commands import sweep_plan
from graphwalker.errors import UserError
from graphwalker.inference.configs import EvaluationConfig
from graphwalker.train import curriculum, session
from graphwalker.train.curriculum import CurriculumConfig

ROOT = Path(__file__).resolve().parents[2]

# A program as a sweep sees it: takes flags, leaves a run with an evaluation of its last stage.
PROGRAM = """
import argparse, json, pathlib, sys
from graphwalker.files import write_json, write_jsonl
from graphwalker.metrics.aggregate import score_run
from graphwalker.types import Entity, Question, Trajectory, Turn
parser = argparse.ArgumentParser()
for name in ("run", "order", "seed", "rate"): parser.add_argument("--" + name)
args = parser.parse_args()
with open("calls", "a") as handle: handle.write(args.run + "\\n")
if args.order == pathlib.Path("broken").read_text(): sys.exit("error: out of luck")
right = {"good": 4, "poor": 1}.get(args.order, 2) - (args.seed == "1")
if args.rate: right = round(4 * float(args.rate))
gold = (Entity("Paris"),)
for stage, number in (("first", 0), ("last", right)):
    out = pathlib.Path(args.run) / "eval" / (stage + "-dev-greedy")
    pathlib.Path(args.run, "stages", ("1-" if stage == "first" else "2-") + stage).mkdir(parents=True, exist_ok=True)
    episodes = [
        Trajectory(Question(str(i), "?", answers=gold), (Turn("t"),), ("Paris" if i < number else "x",), "answered")
        for i in range(4)
    ]
    write_jsonl(out / "trajectories.jsonl", episodes)
    write_json(out / "metrics.json", score_run(episodes, resamples=10))
"""
FILE = """
program: program.py
method: grid
metric: {name: final/dev/greedy/em, goal: maximize}
parameters:
  order: {values: [good, poor]}
  seed: {values: [0, 1]}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "broken").write_text("none")
    (tmp_path / "s.yaml").write_text(FILE)
    return tmp_path


def _calls(here) -> list[str]:
    return (here / "calls").read_text().split()


def test_every_combination_runs_once_and_is_compared(here, capsys):
    assert main(["sweep", "s.yaml", "--runs", "out"]) == 0
    assert _calls(here) == [f"out/order={order},seed={seed}" for order in ("good", "poor") for seed in (0, 1)]
    good, poor = json.loads((here / "out" / "comparison.json").read_text())["rows"]
    assert (good["stage"], good["split"], good["decoding"]) == ("last", "dev", "greedy")
    assert (good["runs"], good["questions"], good["metrics"]["em"]["by_run"]) == (2, 4, [1.0, 0.75])
    assert good["metrics"]["em"]["value"] == 0.875 and good["metrics"]["em"]["low"] < 0.875 <= 1.0
    assert good["difference"] is None and poor["difference"]["difference"] == pytest.approx(-0.75)
    out = capsys.readouterr().out
    assert "| order | last stage | runs | em [95%] | each run | em_set [95%] | em against the first [95%] |" in out
    assert "| poor | last | 2 | 0.125 [" in out and (here / "out" / "comparison.md").read_text() in out
    assert main(["sweep", "s.yaml", "--runs", "out"]) == 0
    assert len(_calls(here)) == 4


def test_what_failed_is_told_and_run_again(here, capsys):
    (here / "broken").write_text("poor")
    assert main(["sweep", "s.yaml", "--runs", "out"]) == 1
    assert "order=poor,seed=0 failed (exit status 1): error: out of luck; see out/" in capsys.readouterr().err
    assert [row["name"] for row in json.loads((here / "out" / "comparison.json").read_text())["rows"]] == ["good"]
    (here / "broken").write_text("none")
    assert main(["sweep", "s.yaml", "--runs", "out"]) == 0
    assert len(_calls(here)) == 6


def test_another_config_does_not_mix_with_finished_runs(here, capsys):
    (here / "c.yaml").write_text("a: 1\n")
    text = (
        FILE.replace("[0, 1]", "[0]") + 'command: ["${interpreter}", "${program}", "${args}", "--rate=", "--order=x"]\n'
    )
    (here / "s.yaml").write_text(text.replace("--order=x", "--order=c.yaml"))
    assert main(["sweep", "s.yaml", "--runs", "out"]) == 0
    (here / "c.yaml").write_text("a: 2\n")
    assert main(["sweep", "s.yaml", "--runs", "out"]) == 2
    assert "is a run of another version of this sweep" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["random", "bayes"])
def test_sampled_sweeps_go_on_where_they_stopped(here, method):
    text = FILE.replace("grid", method).replace("order: {values: [good, poor]}", "rate: {min: 0.0, max: 1.0}")
    (here / "s.yaml").write_text(text + "run_cap: 2\n")
    assert main(["sweep", "s.yaml", "--runs", "out"]) == 0
    first = _calls(here)
    assert len(set(first)) == 4  # two rates, each with two seeds
    (here / "s.yaml").write_text(text + "run_cap: 3\n")
    assert main(["sweep", "s.yaml", "--runs", "out"]) == 0
    assert _calls(here)[:4] == first and len(_calls(here)) == 6


def test_macros_are_filled_in_as_by_wandbs_agent(here, monkeypatch):
    monkeypatch.setenv("WHERE", "there")
    sweep = sweep_plan.read_sweep(here / "s.yaml")
    values = {"order": "a,b", "rewards": ["em", "f1"], "on": True, "off": False}
    assert sweep_plan.command_line(sweep, values) == [
        *("/usr/bin/env", sys.executable, "program.py", "--order=a,b", "--rewards=['em', 'f1']", "--on=True"),
        "--off=False",
    ]
    words = ["${program}", "--out=${envvar:WHERE}", "${args_no_boolean_flags}", "${args_no_hyphens}"]
    (here / "s.yaml").write_text(FILE + f"command: {json.dumps(words)}\n")
    sweep = sweep_plan.read_sweep(here / "s.yaml")
    assert sweep_plan.command_line(sweep, {"on": True, "off": False, "x": 1}) == [
        *("program.py", "--out=there", "--on", "--x=1", "on=True", "off=False", "x=1")
    ]


def test_wandb_fills_in_the_same(here):
    """Against W&B's own code, where it is installed."""
    utils = pytest.importorskip("wandb.sdk.launch.sweeps.utils")
    values = {"order": "a,b", "rewards": ["em", "f1"], "on": True, "off": False, "rate": 1e-05}
    theirs = utils.create_sweep_command_args({"args": {name: {"value": value} for name, value in values.items()}})
    for macro in ("args", "args_no_hyphens", "args_no_boolean_flags", "args_json"):
        (here / "s.yaml").write_text(FILE + f'command: ["${{{macro}}}"]\n')
        assert sweep_plan.command_line(sweep_plan.read_sweep(here / "s.yaml"), values) == theirs[macro]


def test_long_or_odd_values_make_a_folder_of_their_own():
    names = {sweep_plan.run_name({"o": value}) for value in ("a/b", "a:b", "a" * 300, "a" * 301, ["x"], "a")}
    assert len(names) == 6 and all(len(name) < 130 and "/" not in name for name in names)


def test_a_folder_that_cannot_be_made(here, capsys):
    assert main(["sweep", "s.yaml", "--runs", "broken"]) == 2
    assert "error: cannot write broken/.lock: File exists" in capsys.readouterr().err


def test_a_command_that_is_none(here, capsys):
    (here / "s.yaml").write_text(FILE + "command: [no-such-program, '${program}', '${args}']\n")
    assert main(["sweep", "s.yaml", "--runs", "out"]) == 2
    assert "error: command: no-such-program: cannot be run" in capsys.readouterr().err


# from the file's text, the part that makes it a random search over a range, without the range's end
RANDOM = (FILE[FILE.index("method") :], "method: random\nrun_cap: 2\nparameters:\n  order: {min: 0")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("method: grid", "method: gird", "method: 'gird' is not one of grid, random, bayes"),
        ("program: program.py", "program: none.py", "program: none.py: no such file"),
        ("method: grid", "method: random", "run_cap: say how many"),
        ("method: grid", "method: grid\nruncap: 3", "unknown key 'runcap'"),
        ("{values: [good, poor]}", "[good]", "parameters: order: expected a mapping"),
        ("{values: [good, poor]}", "{values: []}", "parameters: order: values: expected a list"),
        ("{values: [good, poor]}", "{min: 0, max: 1}", "parameters: order: a grid needs value or values"),
        ("seed: {values: [0, 1]}", "seed: {min: 0, max: 1}", "parameters: seed: a grid needs value or values"),
        (RANDOM[0], f"{RANDOM[1]}, max: .inf}}", "parameters: order: expected numbers min < max"),
        (RANDOM[0], f"{RANDOM[1]}, max: 1, q: -1}}", "parameters: order: q: expected a number above 0, got -1"),
        (RANDOM[0], f"{RANDOM[1]}, max: 1}}\n  seed: {{min: 0, max: 3}}", "parameters: seed: expected value or values"),
        ("{values: [good, poor]}", "{valeus: [good, poor]}", "parameters: order: unknown key 'valeus'; known are"),
        ("{values: [good, poor]}", "{values: [good], value: good}", "parameters: order: give one of value, values"),
        (
            "{values: [good, poor]}",
            "{values: [good], values: [poor]}",
            "s.yaml:.*the key 'values' stands here a second",
        ),
        ("final/dev/greedy/em", "final/dev/greedy/em, gaol: maximize", "metric: unknown key 'gaol'"),
        ("final/dev/greedy/em", "final/dev/greedy/emm", "metric: 'emm' is not one of em"),
        ("final/dev/greedy/em", "em", "metric: expected a name final/SPLIT/DECODING/METRIC"),
        ("method: grid", "method: grid\ncommand: [python]", "command: expected a list with"),
    ],
)
def test_mistakes(here, old, new, message):
    (here / "s.yaml").write_text(FILE.replace(old, new))
    with pytest.raises(UserError, match=message.replace("[", r"\[")):
        sweep_plan.read_sweep(here / "s.yaml")


SWEEPS = sorted((ROOT / "launch" / "sweeps").glob("*.yaml"))


@pytest.mark.parametrize("file", SWEEPS, ids=lambda file: file.name)
def test_the_sweeps_that_come_along(file, monkeypatch):
    """Every run's flags make a curriculum, in a folder of its own where `wandb agent` names none."""
    monkeypatch.chdir(ROOT)
    sweep = sweep_plan.read_sweep(file)
    folders = set()
    for values in sweep_plan.combinations(sweep, lambda values: None):
        for seed in sweep.seeds:
            command = sweep_plan.command_line(sweep, {**values, "seed": seed})
            args, keys = curriculum.stage_flags(command[command.index(sweep.program) + 1 :])
            config, _, _ = session.parse((CurriculumConfig, EnvConfig, EvaluationConfig), "none.yaml", args)
            curriculum.set_keys(config, keys)
            assert curriculum.stages(config)
            folders.add(config.run)
    assert len(folders) == sweep.total >= 18


def test_wandb_takes_the_sweeps_that_come_along():
    """W&B's own check of a sweep's file, where it is installed."""
    load = pytest.importorskip("wandb.sdk.launch.sweeps.utils").load_sweep_config
    assert SWEEPS and all(load(str(file))["program"] == "recipes/curriculum.py" for file in SWEEPS)
