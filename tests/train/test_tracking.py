"""What a run shows elsewhere: offline without a key, a run's metrics, episodes and page as one W&B run."""

import json

import pytest

from graphwalker.errors import UserError
from graphwalker.files import write_json, write_jsonl
from graphwalker.metrics.aggregate import score_run
from graphwalker.report.page import write_report
from graphwalker.train import tracking


@pytest.fixture(autouse=True)
def no_key(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    names = ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE", "WANDB_MODE", "WANDB_RUN_ID", "WANDB_SWEEP_ID", "NETRC")
    for name in (*names, "WANDB_PROJECT"):
        monkeypatch.setenv(name, "")  # so that what is set below is taken back
        monkeypatch.delenv(name)


@pytest.fixture
def run(tmp_path, toy_trajectories):
    for number, stage in enumerate(("synth", "grpo"), 1):
        (tmp_path / "runs" / "r" / "stages" / f"{number}-{stage}").mkdir(parents=True)
        out = tmp_path / "runs" / "r" / "eval" / f"{stage}-dev-greedy"
        write_jsonl(out / "trajectories.jsonl", toy_trajectories[:number])
        write_json(out / "metrics.json", score_run(toy_trajectories[:number], resamples=10))
    write_report(tmp_path / "runs" / "r")
    return tmp_path / "runs" / "r"


def test_offline_without_a_key_and_said_once(monkeypatch, capsys):
    pytest.importorskip("wandb")
    tracking.prepare(["wandb"])
    tracking.prepare("wandb")
    assert capsys.readouterr().out.count("W&B: no key, so runs stay in wandb/") == 1
    import os

    assert (os.environ["WANDB_MODE"], os.environ["WANDB_PROJECT"]) == ("offline", "graphwalker")
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
    tracking.prepare(["wandb"])
    assert "WANDB_MODE" not in os.environ


@pytest.mark.parametrize("name", ["wandb", "tensorboard"])
def test_without_the_package(name, monkeypatch):
    monkeypatch.setattr(tracking, "find_spec", lambda package: None)
    with pytest.raises(UserError, match=rf"report_to: {name}: not installed: pip install 'graphwalker-kgqa\[{name}\]'"):
        tracking.prepare([name])
    tracking.prepare(["none"])


def test_a_run_in_wandb(run, monkeypatch):
    wandb = pytest.importorskip("wandb")
    logged, artifacts, settings = {}, [], {}

    class Run:
        id = "x"
        __enter__, __exit__ = lambda self: self, lambda self, *of: None
        define_metric = lambda self, *of, **options: None  # noqa: E731
        log = lambda self, values: logged.update(values)  # noqa: E731
        log_artifact = lambda self, artifact: artifacts.append(artifact)  # noqa: E731

    monkeypatch.setattr(wandb, "init", lambda **options: settings.update(options) or Run())
    tracking.log_run(run, ["wandb"], {"seed": 3})
    assert settings["config"] == {"seed": 3} and settings["group"] == settings["name"] == "r"
    assert logged["final/dev/greedy/em"] == logged["dev/greedy/em"] == 1.0 and logged["stage"] == 2
    rows = logged["episodes"].data
    assert [row[0] for row in rows] == ["synth", "grpo", "grpo"] and "get_relations" in rows[0][-1]
    assert list(artifacts[0].manifest.entries) == ["report.html"]
    again = dict(settings)
    tracking.log_run(run, ["wandb"], {"seed": 3})
    assert again["id"] == settings["id"]  # the same run, gone on
    monkeypatch.setenv("WANDB_SWEEP_ID", "s")
    settings.clear()
    tracking.log_run(run, ["wandb"], {})
    assert "id" not in settings  # the agent's


def test_a_stage_has_a_wandb_run_of_its_own(run, monkeypatch):
    monkeypatch.setenv("WANDB_SWEEP_ID", "s")
    monkeypatch.setenv("WANDB_RUN_ID", "agents")
    folder = run / "stages" / "1-synth"
    env = tracking.stage_environment(run, "synth", "sft", folder)
    assert env["WANDB_RUN_GROUP"] == "r" and env["WANDB_JOB_TYPE"] == "sft" and env["WANDB_RESUME"] == "allow"
    assert "WANDB_SWEEP_ID" not in env and env["WANDB_RUN_ID"] != "agents"
    assert tracking.stage_environment(run, "synth", "sft", folder)["WANDB_RUN_ID"] == env["WANDB_RUN_ID"]


def test_a_run_in_tensorboard(run):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tracking.log_run(run, ["tensorboard"], {})
    events = EventAccumulator(str(run / "tensorboard")).Reload()
    assert [(e.step, e.value) for e in events.Scalars("dev/greedy/em")] == [(1, 1.0), (2, 1.0)]
    assert any(tag.startswith("episodes/grpo/dev/greedy") for tag in events.Tags()["tensors"])


@pytest.mark.slow
def test_offline_for_real(run, make_model, sft_config, conversations, toy_tokenizer, tmp_path, capsys):
    """W&B's own client, without a server: a stage's curve and config, and the curriculum's run, lie in wandb/."""
    pytest.importorskip("wandb")
    from trl import SFTTrainer

    from graphwalker.train import session
    from graphwalker.train.configs import TrajectoryData

    tracking.prepare(["wandb"])
    args = sft_config(report_to="wandb", logging_steps=1)
    trainer = SFTTrainer(model=make_model(), args=args, train_dataset=conversations, processing_class=toy_tokenizer)
    session.train_and_save(trainer, TrajectoryData(trajectories="t.jsonl"))
    import wandb

    assert wandb.run.config["trajectories"] == "t.jsonl" and wandb.run.config["max_steps"] == 1
    assert "train/loss" in dict(wandb.run.summary)
    wandb.finish()
    tracking.log_run(run, ["wandb"], {"seed": 3})
    assert len(list((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))) == 2
    assert json.loads((tmp_path / "sft" / "train_results.json").read_text())["train_loss"] > 0
