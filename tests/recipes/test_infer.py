"""recipes/infer.py as a user runs it, with an untrained model: what it writes, going on, and bad input."""

import copy
import json
from contextlib import ExitStack

import pytest
import yaml
from transformers import set_seed

from graphwalker.files import read_jsonl
from graphwalker.protocol.reflection import ALL
from graphwalker.train import tiny
from graphwalker.train.reflection_vocab import add_tokens
from graphwalker.types import Trajectory
from tests.inference.real_vllm import serving, write_model

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


ARG = {"protocol": "reflection", "searcher": "arg_beam", "arg_depth": 1, "value": "constant"}


@pytest.fixture
def arg(workspace, toy_tokenizer, run_here, capsys):
    """recipes/infer.py with an untrained generator of ArG."""
    tokenizer = copy.deepcopy(toy_tokenizer)
    set_seed(0)
    model = tiny.make_model(tokenizer, width=32, layers=2, heads=1)
    add_tokens(model, tokenizer)
    tokenizer.save_pretrained(workspace / "model")
    model.save_pretrained(workspace / "model")
    workspace.config("infer.yaml", {**INFER, **ARG})
    capsys.readouterr()
    return lambda *flags: run_here("infer", "--config", "infer.yaml", *flags)


def grown(folder):
    """The trees of a run without numbers, and all numbers that the model gave."""
    texts, numbers = [], []
    for file in sorted((folder / "trees").iterdir()):
        for node in json.loads(file.read_text())["nodes"]:
            texts.append([node.get(key) for key in ("kind", "text", "limit", "hypothesis", "answer")])
            numbers += [p for labels in node.get("labels", ()) for p in labels.values()] + [node.get("logprob", 0.0)]
    return texts, numbers


@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["vllm", "server"])
def test_vllm_grows_the_trees_of_transformers(backend, workspace, toy_tokenizer, monkeypatch):
    """As programs of their own, which end by themselves; rows are under way while other searches' claims are judged."""
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    tokenizer = copy.deepcopy(toy_tokenizer)
    tokenizer.add_special_tokens({"extra_special_tokens": list(ALL)}, replace_extra_special_tokens=False)
    write_model(tokenizer, workspace / "model", seed=3)  # which goes two hops far
    config = {**INFER, **ARG, "arg_depth": 2, "episode_tokens": 400, "max_questions": 4}
    workspace.config("infer.yaml", config)
    flags = ["--config", "infer.yaml", "--backend", backend, "--out", backend]
    with ExitStack() as up:
        if backend == "server":
            server = up.enter_context(serving(workspace / "model", workspace / "serve.log"))
            flags += ["--url", server.url]
        done = workspace.recipe("infer", *flags)
    assert done.returncode == 0, done.stderr
    assert workspace.recipe("infer", "--config", "infer.yaml", "--backend", "transformers").returncode == 0
    (texts, numbers), (expected, exact) = grown(workspace / backend), grown(workspace / "out")
    assert texts == expected and len(texts) > 20
    assert numbers == pytest.approx(exact, abs=1e-4)


def test_a_generator_of_arg(arg, workspace):
    assert arg()[0] == 0
    done = list(read_jsonl(workspace / "out" / "trajectories.jsonl", Trajectory))
    assert [t.extra["searcher"] for t in done] == ["arg_beam"] * 2
    assert [[row["answer"] for row in t.extra["answers"]] for t in done] == [list(t.answer or ()) for t in done]
    tree = json.loads(next((workspace / "out" / "trees").iterdir()).read_text())
    assert {node.get("kind") for node in tree["nodes"]} >= {"topic", "relation"}
    assert json.loads((workspace / "out" / "costs.json").read_text())["mean"]["value_tokens"] > 0
    assert arg("--searcher", "linear", "--search_temperature", "0", "--out", "line")[0] == 0
    assert (workspace / "line" / "metrics.json").is_file()


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--protocol", "graphwalker"), "searcher arg_beam: needs protocol: reflection"),
        (("--searcher", "fast_mcts"), "protocol reflection: searcher must be one of arg_beam"),
        (("--arg_scores", "beauty"), "arg_scores: expected some of relevance"),
        (("--arg_hypothesis", "false", "--arg_query", "false"), "at least one of them must be true"),
        (("--arg_utility", "alpha"), "arg_utility: expected one of weighted, printed"),
        (("--retriever", "alpha"), "retriever: expected one of bm25, embeddings"),
        (("--retriever", "embeddings", "--retriever_model", "./nowhere"), "no such folder"),
        (("--model", "plain"), "16 of the 16 reflection tokens are missing"),
    ],
)
def test_bad_input_for_arg(arg, workspace, toy_tokenizer, flags, problem):
    if "plain" in flags:
        toy_tokenizer.save_pretrained(workspace / "plain")
        tiny.make_model(toy_tokenizer, width=32, layers=2, heads=1).save_pretrained(workspace / "plain")
    status, error = arg(*flags)
    (line,) = [line for line in error.splitlines() if line.startswith("error: ")]
    assert status == 2 and problem in line and "Traceback" not in error
    assert not (workspace / "out").exists()


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
