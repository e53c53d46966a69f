"""An evaluation writes whole files, and one that was interrupted writes the same ones."""

import json
import resource
from dataclasses import replace

import pytest

from graphwalker.errors import UserError
from graphwalker.files import read_jsonl
from graphwalker.inference.engine import Sampling
from graphwalker.inference.evaluate import episode_seed, evaluate, run_questions
from graphwalker.protocol.render import render_turn
from graphwalker.types import Trajectory

SAMPLING = Sampling(max_new_tokens=32)


@pytest.fixture
def engine(toy_tokenizer, toy_tasks, scripted_engine):
    """Even samples answer rightly, odd ones at once and wrongly."""
    texts = {question.id: turns for question, turns in toy_tasks}
    wrong = [render_turn("A guess.", "answer", '["Atlantis"]')]
    return lambda: scripted_engine(toy_tokenizer, lambda key: wrong if key[1] % 2 else texts[key[0]], capacity=3)


@pytest.fixture
def questions(toy_tasks):
    return [question for question, _ in toy_tasks]


def _files(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_files(engine, questions, toy_env, tmp_path):
    metrics = evaluate(questions, toy_env, engine(), SAMPLING, tmp_path, samples=2)
    trajectories = list(read_jsonl(tmp_path / "trajectories.jsonl", Trajectory))
    assert [(t.question.id, t.sample) for t in trajectories] == [(q.id, s) for q in questions for s in range(2)]
    assert all(t.completion_tokens and t.prompt_tokens for t in trajectories)
    assert metrics == json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["overall"]["metrics"]["em"]["value"] == 0.5
    assert set(_files(tmp_path)) == {"trajectories.jsonl", "metrics.json"}


class _Interrupting:
    """Lets a number of episodes end, then acts as if Ctrl-C was pressed."""

    def __init__(self, engine, episodes):
        self.engine, self.left = engine, episodes

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def release(self, key):
        self.engine.release(key)
        self.left -= 1

    def step(self):
        if self.left <= 0:
            raise KeyboardInterrupt
        return self.engine.step()


@pytest.mark.parametrize("torn", ["", '{"schema": 1, "question": {"id": "toy-', "\udcff"])
def test_resumed_files_are_the_same(engine, questions, toy_env, tmp_path, torn):
    evaluate(questions, toy_env, engine(), SAMPLING, tmp_path / "whole", samples=3)
    out = tmp_path / "resumed"
    with pytest.raises(KeyboardInterrupt):
        evaluate(questions, toy_env, _Interrupting(engine(), 5), SAMPLING, out, samples=3)
    assert set(_files(out)) == {"trajectories.partial.jsonl"}
    with open(out / "trajectories.partial.jsonl", "a", encoding="utf-8", errors="surrogateescape") as handle:
        handle.write(torn)
    rest = _Interrupting(engine(), len(questions) * 3 - 5)
    evaluate(questions, toy_env, rest, SAMPLING, out, samples=3)
    assert rest.left == 0  # what was finished was not run again
    assert _files(out) == _files(tmp_path / "whole")


def test_no_questions_and_repeated_ones(engine, questions, toy_env, tmp_path):
    with pytest.raises(UserError, match="no questions"):
        evaluate([], toy_env, engine(), SAMPLING, tmp_path / "out")
    with pytest.raises(UserError, match="'toy-2' occurs twice"):
        evaluate([*questions, replace(questions[1], text="?")], toy_env, engine(), SAMPLING, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written(engine, questions, toy_env, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write"):
        evaluate(questions, toy_env, engine(), SAMPLING, tmp_path / "file" / "out")


def test_a_disk_that_fills_keeps_what_was_finished(engine, questions, toy_env, tmp_path):
    evaluate(questions, toy_env, engine(), SAMPLING, tmp_path / "whole")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        with pytest.raises(UserError, match="cannot write .* are kept"):
            evaluate(questions, toy_env, engine(), SAMPLING, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    evaluate(questions, toy_env, engine(), SAMPLING, tmp_path / "out")
    assert _files(tmp_path / "out") == _files(tmp_path / "whole")


def test_samples_have_streams_of_their_own():
    seeds = {episode_seed(seed, question, sample) for seed in (0, 1) for question in "ab" for sample in (0, 1)}
    assert len(seeds) == 8 and all(0 <= seed < 2**63 for seed in seeds)


def test_run_questions_skips(engine, questions, toy_env):
    skip = frozenset({("toy-1", 0), ("toy-3", 1)})
    done = list(run_questions(questions, toy_env, engine(), SAMPLING, samples=2, skip=skip))
    keys = {(t.question.id, t.sample) for t in done}
    assert len(done) == len(keys) == 6 and not keys & skip
