"""A searched question set on disk: whole or not at all, and the same after an interruption."""

import json

import pytest

from graphwalker.errors import UserError
from graphwalker.files import read_jsonl
from graphwalker.inference.engine import Completion, Sampling
from graphwalker.inference.search_run import search_questions, tree_file
from graphwalker.search.settings import SearchConfig
from graphwalker.types import Trajectory

CONFIG = SearchConfig("classic_mcts", width=3, selections=2, valid_terminals=2)


class Solver:
    """An engine that walks each toy task as its own turns do."""

    max_length, capacity = 4096, 8

    def __init__(self, tokenizer, tasks, interrupted_after=None):
        self.tokenizer, self.tasks, self.left, self.open = tokenizer, tasks, interrupted_after, {}

    def add(self, key, ids, sampling, seed):
        text = self.tokenizer.decode(ids)
        turns = next(turns for question, turns in self.tasks if question.text in text)
        self.open[key] = turns[min(text.count("<information>"), len(turns) - 1)]

    def step(self):
        if self.left == 0:
            raise KeyboardInterrupt
        self.left = None if self.left is None else self.left - 1
        key = next(iter(self.open))
        ids = self.tokenizer(self.open[key], add_special_tokens=False)["input_ids"] + [self.tokenizer.eos_token_id]
        return [Completion(key, ids, [-0.1] * len(ids), True)]

    def release(self, key):
        del self.open[key]


@pytest.fixture
def run(toy_tokenizer, toy_tasks, toy_env):
    questions = [question for question, _ in toy_tasks]

    def searched(out, interrupted_after=None, questions=questions):
        engine = Solver(toy_tokenizer, toy_tasks, interrupted_after)
        value = [0.5].__mul__
        return search_questions(
            questions, toy_env, engine, lambda nodes: value(len(nodes)), CONFIG, Sampling(), out, at_a_time=2
        )

    return searched


def without_seconds(folder):
    records = [trajectory.to_json() for trajectory in read_jsonl(folder / "trajectories.jsonl", Trajectory)]
    for record in records:
        cost = record["extra"]["cost"]
        record["extra"]["cost"] = {name: cost[name] for name in cost if "seconds" not in name}
    return records


def test_what_is_written(run, tmp_path, toy_tasks):
    metrics = run(tmp_path)
    assert metrics["overall"]["metrics"]["em"]["value"] == 1.0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "costs.json",
        "metrics.json",
        "trajectories.jsonl",
        "trees",
    ]
    found = list(read_jsonl(tmp_path / "trajectories.jsonl", Trajectory))
    assert [trajectory.question for trajectory in found] == [question for question, _ in toy_tasks]
    costs = json.loads((tmp_path / "costs.json").read_text())
    assert costs["stopped"] == {"valid": 4} and costs["branches"] == {"valid": 12}
    assert costs["mean"]["actor_calls"] == sum(t.extra["cost"]["actor_calls"] for t in found) / 4
    for trajectory in found:
        tree = json.loads((tmp_path / "trees" / tree_file(trajectory.question.id)).read_text())
        assert tree["candidates"] == trajectory.extra["candidates"] and tree["searcher"] == "classic_mcts"


def test_an_interrupted_run_goes_on_where_it_stopped(run, tmp_path):
    run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "halves", interrupted_after=20)
    partial = tmp_path / "halves" / "trajectories.partial.jsonl"
    kept = list(read_jsonl(partial, Trajectory))
    assert 0 < len(kept) < 4 and not (tmp_path / "halves" / "metrics.json").exists()
    with open(partial, "a") as handle:
        handle.write('{"question": {"id"')  # cut while it was written
    run(tmp_path / "halves")
    assert without_seconds(tmp_path / "halves") == without_seconds(tmp_path / "whole")
    for file in (tmp_path / "whole" / "trees").iterdir():
        assert (tmp_path / "halves" / "trees" / file.name).read_text() == file.read_text()
    assert not partial.exists()


def test_no_questions_and_one_twice(run, tmp_path, toy_tasks):
    with pytest.raises(UserError, match="no questions"):
        run(tmp_path, questions=[])
    with pytest.raises(UserError, match="occurs twice"):
        run(tmp_path, questions=[toy_tasks[0][0]] * 2)


def test_a_file_name_for_every_id():
    ids = ["a/b", "../../etc", "a%2Fb", "ü" * 300, "ü" * 301, "", ".", "x y"]
    names = [tree_file(id_) for id_ in ids]
    assert len({name.casefold() for name in names}) == len(ids)
    assert all("/" not in name and not name.startswith(".") for name in names)
    assert all(len(name.encode()) < 250 for name in names)


@pytest.mark.parametrize("damage", [{"ending": "error", "turns": [], "answer": None}, {"extra": {}}])
def test_what_ended_by_an_exception_or_is_no_search_s_is_tried_again(run, tmp_path, damage):
    run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "halves", interrupted_after=20)
    partial = tmp_path / "halves" / "trajectories.partial.jsonl"
    first, *rest = (json.loads(line) for line in partial.read_text().splitlines())
    partial.write_text("".join(json.dumps(record) + "\n" for record in ({**first, **damage}, *rest)))
    run(tmp_path / "halves")
    assert without_seconds(tmp_path / "halves") == without_seconds(tmp_path / "whole")
