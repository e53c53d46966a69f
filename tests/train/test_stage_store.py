"""Stages named by content: what differs is trained apart, what is the same once; a run's folder looks as ever."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from graphwalker.errors import UserError
from graphwalker.files import write_json, write_jsonl
from graphwalker.metrics.run_folder import evaluations, rescore
from graphwalker.metrics.run_folder import stages as stages_of
from graphwalker.train import stage_store
from graphwalker.train.curriculum import CurriculumConfig, stages
from graphwalker.train.processes import Processes
from graphwalker.train.stage_store import StageStore


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text("a")
    Path("b.jsonl").write_text("b")
    given = [{"name": n, "recipe": "sft", "trajectories": f"{n}.jsonl", "report_to": "none"} for n in ("a", "b")]
    return CurriculumConfig(run="r", stages=given)


def _train(config, run="r", cache="cache", model="tiny") -> list[Path]:
    """Walk through a curriculum as the recipe does; training makes a model of the stage's folder's name."""
    store = StageStore(Path(run), model, cache)
    folders = []
    for stage in stages(config):
        placed = store.place(stage)
        write_json(placed.folder / "train_results.json", {})
        (placed.folder / "model.safetensors").write_text(str(placed.folder))
        store.take(placed)
        folders.append(placed.folder)
    return folders


def test_without_a_cache_stages_lie_in_the_run(config):
    assert _train(config, cache=None) == [Path("r/stages/1-a"), Path("r/stages/2-b")]
    assert not any(path.is_symlink() for path in Path("r").rglob("*"))
    store = StageStore(Path("r"), "tiny")
    one, two = stages(config)
    assert store.place(one).config["model_name_or_path"] == "tiny"
    store.take(replace(one, folder=Path("r/stages/1-a")))
    assert store.place(two).config == {
        "seed": 0,
        "model_name_or_path": "r/stages/1-a",
        "output_dir": "r/stages/2-b",
        "trajectories": "b.jsonl",
        "report_to": "none",
    }


def test_runs_share_what_is_the_same_and_no_more(config):
    a, ab = _train(config, "r1")
    assert [path for _, _, path in stages_of(Path("r1"))] == [Path("r1/stages/1-a"), Path("r1/stages/2-b")]
    assert Path("r1/stages/1-a").resolve() == a.resolve() and a.parent == Path("cache")
    assert _train(config, "r1") == [a, ab]  # the same run again
    assert _train(replace(config, curriculum_order="a"), "r2") == [a]
    b, ba = _train(replace(config, curriculum_order="b,a"), "r3")
    assert len({a, ab, b, ba}) == 4  # b after a is not b from the start
    assert _train(replace(config, seed=1), "r4")[0] != a
    assert _train(replace(config, common={"max_steps": 7}), "r5")[0] != a
    assert _train(replace(config, common={"report_to": "wandb"}, stages=[{**config.stages[0]}]), "r6") == [a]
    Path("moved.jsonl").write_text("a")
    assert _train(replace(config, stages=[{**config.stages[0], "trajectories": "moved.jsonl"}]), "r7") == [a]


def test_the_model_in_a_folder_counts_by_its_content(config):
    for name, text in (("m1", "w"), ("m2", "w"), ("m3", "v")):
        Path(name).mkdir()
        Path(name, "config.json").write_text("{}")
        Path(name, "model.safetensors").write_text(text)
        Path(name, "training_args.bin").write_text(name)  # no part of the model
    first, same, other = (_train(config, run, model=model)[0] for run, model in (("1", "m1"), ("2", "m2"), ("3", "m3")))
    assert first == same != other


def test_changed_data_is_refused_where_a_stage_was_begun(config):
    folders = _train(config)
    Path("b.jsonl").write_text("other")
    with pytest.raises(UserError, match="r/stages/2-b: this stage was begun with another trajectories, by name or by"):
        _train(config)
    assert _train(config, "r2")[0] == folders[0] and _train(config, "r3")[1] != folders[1]


def test_a_cache_that_is_gone_is_trained_again(config):
    a, _ = _train(config)
    for path in a.iterdir():
        path.unlink()
    a.rmdir()
    assert _train(config)[0] == a and (a / "made_of.json").is_file()


def test_killed_between_the_link_and_what_it_leads_to(config):
    a, _ = _train(config)
    (a / "made_of.json").unlink()
    assert _train(config)[0] == a and (a / "made_of.json").is_file()


def test_evaluations_are_shared_and_each_run_has_its_own_copy(config, toy_trajectories):
    store = StageStore(Path("r1"), "tiny", "cache")
    placed = store.place(stages(config)[0])
    made_of = {"questions": "a.jsonl", "seed": 0}
    shared = store.shared(placed.folder, made_of)
    first, second = (Path(run, "eval", "a-dev-greedy") for run in ("r1", "r2"))
    assert not stage_store.reuse_evaluation(shared, first, 0)
    write_jsonl(first / "trajectories.jsonl", toy_trajectories)
    stage_store.share_evaluation(shared, first)
    assert stage_store.reuse_evaluation(shared, second, 0)
    (found,) = evaluations(Path("r2"))
    assert list(found.trajectories()) == toy_trajectories and found.metrics()["seed"] == 0
    rescore(Path("r2"), seed=5)
    assert not (shared / "metrics.json").exists() and found.metrics()["seed"] == 5
    Path("a.jsonl").write_text("other questions")
    assert store.shared(placed.folder, made_of) != shared
    assert StageStore(Path("r1"), "tiny").shared(placed.folder, made_of) is None


def test_launch(config, monkeypatch):
    placed = StageStore(Path("r"), "tiny").place(stages(config)[0])
    commands = []

    def call(command, pass_fds, env):
        commands.append((command, pass_fds))
        return 1

    monkeypatch.setattr("graphwalker.train.processes.call", call)
    with pytest.raises(UserError, match="stage a failed .exit status 1"):
        stage_store.launch(placed, Path("recipes"), Processes(["--num_processes", "2"]), [7])
    written = placed.folder / "config.yaml"
    assert yaml.safe_load(written.read_text()) == placed.config
    ((command, inherited),) = commands
    assert command[-5:] == ["--num_processes", "2", "recipes/sft.py", "--config", str(written)] and inherited == [7]
    assert not placed.done
    (placed.folder / "train_results.json").touch()
    assert placed.done
