"""recipes/infer.py as a user runs it, with an untrained model: what it writes, going on, and bad input."""

import json

import pytest
import yaml
from transformers import set_seed

from graphwalker.files import read_jsonl
from graphwalker.train import tiny
from graphwalker.types import Trajectory

INFER = {"model": "model", "questions": "questions.jsonl", "kg": "kg", "prompt": "compact", "out": "out"}
INFER |= {"turn_tokens": 8, "episode_tokens": 600, "max_turns": 3, "width": 2, "selections": 2, "rows": 8}
INFER |= {"value": "ig", "value_model": "model", "value_length": 600, "max_questions": 2}


@pytest.fixture
def infer(workspace, toy_tokenizer, run_here, capsys):
    set_seed(0)
    toy_tokenizer.save_pretrained(workspace / "model")
    tiny.make_model(toy_tokenizer, width=32, layers=2, heads=1).save_pretrained(workspace / "model")
    workspace.config("infer.yaml", INFER)
    capsys.readouterr()  # a progress bar of saving
    return lambda *flags: run_here("infer", "--config", "infer.yaml", *flags)


def test_a_run_and_the_same_again(infer, workspace):
    assert infer()[0] == 0
    done = list(read_jsonl(workspace / "out" / "trajectories.jsonl", Trajectory))
    assert [t.question.id for t in done] == ["toy-1", "toy-2"]
    assert all(t.extra["searcher"] == "fast_mcts" and t.extra["cost"]["value_calls"] == 4 for t in done)
    assert len(list((workspace / "out" / "trees").iterdir())) == 2
    assert json.loads((workspace / "out" / "costs.json").read_text())["mean"]["actor_calls"] == 4
    assert yaml.safe_load((workspace / "out" / "config.yaml").read_text())["searcher"] == "fast_mcts"
    before = (workspace / "out" / "trajectories.jsonl").stat().st_mtime_ns
    assert infer("--rows", "3")[0] == 0  # finished: nothing is run again
    assert (workspace / "out" / "trajectories.jsonl").stat().st_mtime_ns == before
    status, error = infer("--searcher", "linear")
    assert status == 2 and "searcher changed" in error


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--searcher", "alpha"), "searcher: expected one of linear"),
        (("--value", "alpha"), "value: expected one of"),
        (("--width", "0"), "width: must be at least 1"),
        (("--max_depth", "nine"), "invalid int value"),
        (("--searcherr", "linear"), "did you mean 'searcher'"),
        (("--questions", "none.jsonl"), "none.jsonl: no such file"),
        (("--protocol", "interactive", "--guided_turns", "true"), "guided_turns: only for the protocol graphwalker"),
    ],
)
def test_bad_input(infer, workspace, flags, problem):
    status, error = infer(*flags)
    (line,) = [line for line in error.splitlines() if line.startswith("error: ")]
    assert status == 2 and problem in line and "Traceback" not in error
    assert not (workspace / "out").exists()
