"""The recipes as a user runs them: in processes of their own, interrupted, resumed, on a full disk."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from graphwalker.files import read_jsonl, write_jsonl
from graphwalker.types import Trajectory

pytestmark = pytest.mark.slow
RECIPES = Path(__file__).resolve().parents[2] / "recipes"
KILLED = Path(__file__).parent / "killed.py"
DEATHS = (2, 6, 17, 31, 44, 9, 25, 38)  # the writes of one process after another, of about 80 in all


def test_sft_then_grpo_by_accelerate(workspace, sft, grpo):
    done = workspace.accelerate("sft", "--config", workspace.config("sft.yaml", sft))
    assert done.returncode == 0, done.stderr
    assert "output in out/sft" in done.stdout and "Saved to out/sft" in done.stdout
    assert {"config.json", "model.safetensors", "tokenizer.json", "trainer_state.json"} <= _names(workspace / "out/sft")
    done = workspace.accelerate("grpo", "--config", workspace.config("grpo.yaml", grpo))
    assert done.returncode == 0, done.stderr
    state = json.loads((workspace / "out/grpo/trainer_state.json").read_text())
    rewards = [entry["reward"] for entry in state["log_history"] if "reward" in entry]
    assert len(rewards) == 2 and all(0 <= reward <= 1 for reward in rewards)
    again = workspace.accelerate("grpo", "--config", "grpo.yaml")
    assert again.returncode == 0 and "Going on from" in again.stdout


def test_two_processes(workspace, sft, grpo):
    """Ranks whose episodes differ in number of turns and in rows to train on stay in step."""
    made = workspace.recipe("sft", "--config", workspace.config("sft.yaml", {**sft, "max_steps": 1}))
    assert made.returncode == 0, made.stderr
    config = workspace.config("grpo.yaml", {**grpo, "max_steps": 3, "max_turn_tokens": 12, "temperature": 1.5})
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    done = workspace.run(*launcher, RECIPES / "grpo.py", "--config", config)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Saved to out/grpo") == 1
    state = json.loads((workspace / "out/grpo/trainer_state.json").read_text())
    assert state["global_step"] == 3


def test_packing(workspace, sft):
    packed = {**sft, "packing": True, "max_length": 400}
    refused = workspace.recipe("sft", "--config", workspace.config("lfm2.yaml", packed))
    assert refused.returncode == 2
    (error,) = _errors(refused)
    assert error.startswith("error: packing: a lfm2 model cannot keep packed episodes apart")
    assert not (workspace / "out").exists()
    config = workspace.config("qwen2.yaml", {**packed, "model_name_or_path": "tiny-qwen2"})
    done = workspace.recipe("sft", "--config", config, "--max_steps", "1")
    assert done.returncode == 0, done.stderr


def test_a_full_disk(workspace, sft):
    made = workspace.recipe("sft", "--config", workspace.config("sft.yaml", {**sft, "max_steps": 1}))
    assert made.returncode == 0, made.stderr
    for name, options in (("checkpoint", {}), ("last", {"save_strategy": "no"})):
        out = f"out/{name}"
        config = workspace.config("full.yaml", {**sft, **options, "output_dir": out})
        done = workspace.recipe("sft", "--config", config, file_limit=60_000)
        assert done.returncode == 1
        assert [error.startswith("error: the disk is full") for error in _errors(done)] == [True], done.stderr
        assert "Traceback" not in done.stderr
        assert not _names(workspace / out) & {"model.safetensors", "config.json", ".saving", "train_results.json"}
        assert not list((workspace / out).glob("checkpoint-*"))


def _errors(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("error:")]


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _table(done) -> list[str]:
    return [line for line in done.stdout.splitlines() if line.startswith(("stage", "synth", "rl"))]


def _evaluations(run: Path) -> dict[str, list]:
    """The episodes of every evaluation."""
    return {path.parent.name: list(read_jsonl(path, Trajectory)) for path in run.glob("eval/*/trajectories.jsonl")}


def test_curriculum_killed_and_resumed(workspace, curriculum, run_here):
    config = workspace.config("c.yaml", curriculum)
    _kill_after_the_first_stage(workspace, config)
    assert not (workspace / "run/report.html").exists()
    first_stage = (workspace / "run/stages/1-synth/model.safetensors").stat().st_mtime_ns

    resumed = workspace.recipe("curriculum", "--config", config)
    assert resumed.returncode == 0, resumed.stderr
    assert (workspace / "run/stages/1-synth/model.safetensors").stat().st_mtime_ns == first_stage
    assert "Stage synth" not in resumed.stdout and "Stage rl" in resumed.stdout
    assert (workspace / "run/report.html").is_file()
    names = {f"{stage}-dev-{decoding}" for stage in ("synth", "rl") for decoding in ("greedy", "sampled")}
    assert _names(workspace / "run/eval") == names

    status, error = run_here("curriculum", "--config", config, "--seed", "1")
    assert status == 2 and "begun with another config (seed changed)" in error


def test_killed_at_any_write_it_ends_as_if_it_had_not_been(workspace, curriculum, toy_trajectories):
    """Stages, checkpoints and evaluations cut anywhere; two files in one stage, and stages that runs share."""
    write_jsonl(workspace / "more.jsonl", toy_trajectories[:2])
    synth, rl = curriculum["stages"]
    mixture = [{"file": "trajectories.jsonl", "weight": 2}, {"file": "more.jsonl", "weight": 1}]
    synth |= {"trajectories": None, "mixture": mixture, "tokenizer_texts": "trajectories.jsonl", "save_steps": 1}
    short = {"max_turns": 2, "eval_samples": 0}
    values = {**curriculum, **short, "common": {**curriculum["common"], "max_turns": 2}}
    config = workspace.config("c.yaml", values)
    whole = workspace.run(sys.executable, KILLED, config, "whole")
    assert whole.returncode == 0, whole.stderr
    killed = workspace.run(sys.executable, KILLED, config, "killed", *map(str, DEATHS))
    assert killed.returncode == 0, killed.stdout + killed.stderr
    assert killed.stdout.count(": -9") >= len(DEATHS) - 2, killed.stdout
    for stage in ("1-synth", "2-rl"):
        weights = [(workspace / f"{run}/stages/{stage}/model.safetensors").read_bytes() for run in ("whole", "killed")]
        assert weights[0] == weights[1], stage
    assert _evaluations(workspace / "whole") == _evaluations(workspace / "killed")
    assert len(_table(whole)) >= 5 and _table(whole) == _table(killed)[-len(_table(whole)) :]


def _kill_after_the_first_stage(workspace, config) -> None:
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    process = workspace.start(sys.executable, RECIPES / "curriculum.py", "--config", config, **silent)
    try:
        while not (workspace / "run/stages/1-synth/train_results.json").is_file():
            assert process.poll() is None, "ended before its first stage was done"
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_stage_that_fails_ends_the_run(workspace, curriculum):
    curriculum["stages"][0]["prompt"] = "no.jinja"
    done = workspace.recipe("curriculum", "--config", workspace.config("c.yaml", curriculum))
    assert done.returncode == 2
    said, last = _errors(done)
    assert "no.jinja" in said and last == "error: stage synth failed (exit status 1); see its output above"
    assert "Traceback" not in done.stderr
