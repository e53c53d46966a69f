"""A folder as a user would have it: a KG, data and configs small enough to train on in seconds."""

import os
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from graphwalker.files import write_jsonl

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "recipes"

COMMON = {"kg": "kg", "prompt": "compact", "report_to": "none", "logging_steps": 1, "save_strategy": "steps"}
TINY = {"model_cache": "models", "tiny_width": 32, "tiny_layers": 2, "tiny_heads": 1, "tiny_vocabulary": 350}
SFT = {"trajectories": "trajectories.jsonl", "max_steps": 4, "save_steps": 2, "learning_rate": 1e-3, **TINY}
SFT["per_device_train_batch_size"] = 2
GRPO = {"questions": "questions.jsonl", "rewards": ["em"], "max_steps": 2, "save_steps": 1, "num_generations": 2}
GRPO |= {"per_device_train_batch_size": 4, "beta": 0.0, "max_completion_length": 300}
GRPO |= {"rollout_rows": 3, "max_turn_tokens": 8, "max_episode_tokens": 300}


@dataclass
class Workspace:
    """A folder in which recipes run; configs are given as dicts and written as YAML."""

    folder: Path

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def config(self, name: str, values: dict) -> str:
        (self.folder / name).write_text(yaml.safe_dump(values, sort_keys=False))
        return name

    def start(self, *command: str | Path, file_limit: int | None = None, **options) -> subprocess.Popen:
        """Start a command; `file_limit` in bytes makes larger files fail, as a full disk does."""

        def limit():
            if file_limit:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))

        env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), env.get("PYTHONPATH"))))
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(
            list(map(str, command)), cwd=self.folder, env=env, preexec_fn=limit, **{**pipes, **options}
        )

    def run(self, *command: str | Path, **options) -> subprocess.CompletedProcess[str]:
        with self.start(*command, **options) as process:
            out, error = process.communicate()
        return subprocess.CompletedProcess(command, process.returncode, out, error)

    def recipe(self, name: str, *args: str, **options) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, RECIPES / f"{name}.py", *args, **options)

    def accelerate(self, name: str, *args: str) -> subprocess.CompletedProcess[str]:
        launcher = (sys.executable, "-m", "accelerate.commands.launch")
        return self.run(*launcher, RECIPES / f"{name}.py", *args)


@pytest.fixture
def workspace(tmp_path, toy_kg, toy_tasks, toy_trajectories) -> Workspace:
    shutil.copytree(toy_kg, tmp_path / "kg")
    write_jsonl(tmp_path / "trajectories.jsonl", toy_trajectories)
    write_jsonl(tmp_path / "questions.jsonl", [question for question, _ in toy_tasks])
    return Workspace(tmp_path)


@pytest.fixture
def sft() -> dict:
    return {**COMMON, **SFT, "model_name_or_path": "tiny", "output_dir": "out/sft", "seed": 0}


@pytest.fixture
def grpo() -> dict:
    return {**COMMON, **GRPO, "model_name_or_path": "out/sft", "output_dir": "out/grpo", "seed": 0}


@pytest.fixture
def curriculum() -> dict:
    """Two stages, the first not evaluated greedily alone but sampled too."""
    return {
        "run": "run",
        "kg": "kg",
        "prompt": "compact",
        "eval_questions": {"dev": "questions.jsonl"},
        "eval_samples": 2,
        "eval_turn_tokens": 8,
        "eval_episode_tokens": 300,
        "eval_rows": 3,
        "common": COMMON,
        "stages": [{"name": "synth", "recipe": "sft", **SFT}, {"name": "rl", "recipe": "grpo", **GRPO}],
    }


@pytest.fixture
def run_here(workspace, monkeypatch, capsys):
    """Run a recipe in this process, where the libraries are loaded: for runs that end before they train."""
    import runpy

    def run(name: str, *args: str) -> tuple[int, str]:
        monkeypatch.chdir(workspace.folder)
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *args])
        status = 0
        try:
            runpy.run_path(str(RECIPES / f"{name}.py"), run_name="__main__")
        except SystemExit as end:
            status = end.code
        return status, capsys.readouterr().err

    return run
