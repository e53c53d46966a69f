"""Stages from one config: each starts from the last one's checkpoint, a run keeps the config it was begun with."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from graphwalker.errors import UserError
from graphwalker.inference.configs import EvaluationConfig
from graphwalker.train.curriculum import CurriculumConfig, check_unchanged, claim, launch, stages

CONFIG = CurriculumConfig(
    run="runs/x",
    model_name_or_path="start",
    seed=3,
    common={"kg": "kg", "max_steps": 5},
    stages=[
        {"name": "one", "recipe": "sft", "trajectories": "a.jsonl"},
        {"name": "two", "recipe": "grpo", "evaluate": False, "max_steps": 9, "questions": "b.jsonl"},
    ],
)


def test_each_stage_starts_from_the_one_before():
    one, two = stages(CONFIG)
    assert one.folder == Path("runs/x/stages/1-one") and two.folder == Path("runs/x/stages/2-two")
    assert one.config == {
        "seed": 3,
        "model_name_or_path": "start",
        "output_dir": "runs/x/stages/1-one",
        "kg": "kg",
        "max_steps": 5,
        "trajectories": "a.jsonl",
    }
    assert two.config["model_name_or_path"] == "runs/x/stages/1-one" and two.config["max_steps"] == 9
    assert (one.evaluate, two.evaluate) == (True, False) and "evaluate" not in two.config


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"recipe": "sft"}], "stage 1: needs a name"),
        ([{"name": "a-b", "recipe": "sft"}], "letters, digits, _ and . only, got 'a-b'"),
        ([{"name": "a", "recipe": "sft"}] * 2, "stage 2: needs a name of its own"),
        ([{"name": "a", "recipe": "dpo"}], "stage a: unknown recipe 'dpo'; one of sft, grpo"),
        ([{"name": "a", "recipe": "sft", "output_dir": "x"}], "output_dir is not yours to set"),
        (["a"], "stage 1: expected a mapping"),
        ([], "stages: none are given"),
    ],
)
def test_mistakes(given, message):
    with pytest.raises(UserError, match=message):
        list(stages(replace(CONFIG, stages=given)))


def test_the_name_of_the_start_is_taken_where_it_is_evaluated():
    named = replace(CONFIG, stages=[{"name": "start", "recipe": "sft"}])
    assert [stage.name for stage in stages(named)] == ["start"]
    with pytest.raises(UserError, match="a name of its own .* got 'start'"):
        list(stages(replace(named, evaluate_start=True)))


def test_a_run_belongs_to_one_config(tmp_path):
    config = replace(CONFIG, run=str(tmp_path / "run"))
    settings = EvaluationConfig(eval_questions={"test": "q.jsonl"})
    check_unchanged(config, settings)
    assert not (tmp_path / "run").exists()
    claim(config, settings)
    text = (tmp_path / "run" / "config.yaml").read_text()
    assert yaml.safe_load(text)["eval_questions"] == {"test": "q.jsonl"}
    claim(config, settings)
    with pytest.raises(UserError, match=r"another config \(eval_samples, seed changed\)"):
        claim(replace(config, seed=4), replace(settings, eval_samples=2))
    assert (tmp_path / "run" / "config.yaml").read_text() == text


def test_launch(tmp_path, monkeypatch):
    (stage, _) = stages(replace(CONFIG, run=str(tmp_path)))
    commands = []

    def run(command, check):
        commands.append(command)
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr("subprocess.run", run)
    with pytest.raises(UserError, match="stage one failed .exit status 1"):
        launch(stage, Path("recipes"), ["--num_processes", "2"])
    config = tmp_path / "stages" / "1-one" / "config.yaml"
    assert yaml.safe_load(config.read_text()) == stage.config
    assert commands[0][-5:] == ["--num_processes", "2", "recipes/sft.py", "--config", str(config)]
    assert not stage.done
    (stage.folder / "train_results.json").touch()
    assert stage.done
