"""ZeRO-3 for real: two CPU processes through the three stages, against the same curriculum in one process."""

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file

from graphwalker import cli
from graphwalker.metrics.run_folder import evaluations
from graphwalker.train.processes import Processes

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = ROOT / "launch" / "accelerate" / "zero3_cpu.yaml"
pytestmark = [pytest.mark.slow, pytest.mark.deepspeed]


@pytest.fixture
def zero3(curriculum, sft) -> dict:
    """SFT, SFT and GRPO with a KL reference, of a tiny Qwen2."""
    synth, rl = curriculum["stages"]
    quick = {"gradient_checkpointing": False, "lr_scheduler_type": "constant"}
    synth |= {
        **quick,
        "tiny_width": 64,
        "max_steps": 45,
        "save_steps": 45,
        "learning_rate": 1e-2,
    }  # learns the toy tasks
    roll = {**synth, "name": "roll", "max_steps": 3, "save_steps": 3, "learning_rate": 1e-3}
    rl |= {**quick, "per_device_train_batch_size": 2, "beta": 0.05, "max_turn_tokens": 40, "max_turns": 4}
    rl |= {"max_episode_tokens": 400, "max_completion_length": 400}
    changes = {"model_name_or_path": "tiny-qwen2", "eval_samples": 0, "eval_turn_tokens": 40, "max_turns": 4}
    changes |= {"eval_episode_tokens": 400, "common": {**curriculum["common"], "max_turns": 4}}
    return {**curriculum, **changes, "stages": [synth, roll, rl]}


def _results(folder: Path) -> dict:
    return json.loads((folder / "train_results.json").read_text())


def _losses(folder: Path, key: str = "loss") -> list[float]:
    return [
        entry[key] for entry in json.loads((folder / "trainer_state.json").read_text())["log_history"] if key in entry
    ]


def _distance(one: Path, other: Path) -> float:
    """The largest difference between the weights of two folders."""
    a, b = (load_file(folder / "model.safetensors") for folder in (one, other))
    assert a.keys() == b.keys()
    return max(float((a[name].float() - b[name].float()).abs().max()) for name in a)


def test_zero3_trains_as_one_process_does(workspace, zero3, run_here, monkeypatch, capsys):
    config = workspace.config("zero3.yaml", {**zero3, "launch": ["--config_file", str(LAUNCH)]})
    done = workspace.recipe("curriculum", "--config", config)
    assert done.returncode == 0, done.stderr
    split = workspace / "run"
    folders = sorted((split / "stages").iterdir())
    assert [folder.name for folder in folders] == ["1-synth", "2-roll", "3-rl"]
    for folder in folders:
        results = _results(folder)
        assert results["zero_stage"] == 3 and 0.4 < results["zero_weights_here"] < 0.6
        assert all(value.numel() for value in load_file(folder / "model.safetensors").values())  # whole again

    # one process, here: the same number of rows a step
    single = {**zero3, "run": "single", "stages": [_one_process(stage) for stage in zero3["stages"]]}
    monkeypatch.setattr(Processes, "run", _launch_here(run_here))
    status, error = run_here("curriculum", "--config", workspace.config("single.yaml", single))
    assert status == 0, error
    for stage in ("1-synth", "2-roll"):
        pair = _losses(split / "stages" / stage), _losses(workspace / "single" / "stages" / stage)
        assert pair[0] == pytest.approx(pair[1], rel=0.02)
    learned = []
    for one, other in zip(evaluations(split), evaluations(workspace / "single"), strict=True):
        value, interval = (e.metrics()["overall"]["metrics"]["em"] for e in (one, other))
        assert interval["low"] <= value["value"] <= interval["high"]
        learned.append(value["value"])
    assert max(learned) > 0

    # the consolidated model is one that every other program loads
    model, questions = str(folders[-1]), str(workspace / "questions.jsonl")
    arguments = ["--kg", str(workspace / "kg"), "--prompt", "compact", "--max-turns", "4", "--turn-tokens", "40"]
    assert (
        cli.main(["eval", model, questions, *arguments, "--episode-tokens", "400", "--out", str(split / "again")]) == 0
    )

    # gone on with from a checkpoint, the last stage ends where it ended before
    whole = shutil.copytree(folders[-1], workspace / "whole")
    for name in ("train_results.json", "model.safetensors", "config.json"):
        (folders[-1] / name).unlink()
    shutil.rmtree(folders[-1] / "checkpoint-2")
    done = workspace.recipe("curriculum", "--config", config)
    assert done.returncode == 0, done.stderr
    assert "Going on from" in done.stdout and done.stdout.count("accelerate launch") == 1
    assert _distance(folders[-1], whole) < 1e-6 < _distance(folders[-1], folders[-2])


def _one_process(stage: dict) -> dict:
    return {**stage, "gradient_accumulation_steps": 2 * stage.get("gradient_accumulation_steps", 1)}


def _launch_here(run_here):
    """Instead of `accelerate launch`: the stage's recipe in this process, where the libraries are loaded."""

    def run(processes, script, config, locks, env):
        status, error = run_here(script.stem, "--config", str(config))
        assert status == 0, error
        return status

    return run
