"""Data sets for the trainers, and their mistakes."""

import json
from dataclasses import replace

import pytest

from envs.trl_adapter import adapter_factory
from graphwalker.errors import FileFormatError, UserError
from graphwalker.files import write_jsonl
from graphwalker.protocol.prompts import Prompt
from graphwalker.train import sft_data


def test_trajectories(tmp_path, toy_trajectories):
    write_jsonl(tmp_path / "t.jsonl", toy_trajectories)
    assert sft_data.read_trajectories(tmp_path / "t.jsonl") == toy_trajectories


def test_mistakes_in_files(tmp_path, toy_trajectories):
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(UserError, match="empty.jsonl: no trajectories"):
        sft_data.read_trajectories(tmp_path / "empty.jsonl")
    with pytest.raises(UserError, match="none.jsonl: no such file"):
        sft_data.read_trajectories(tmp_path / "none.jsonl")
    record = toy_trajectories[0].to_json()
    write_jsonl(tmp_path / "wrong.jsonl", [record, {**record, "anwser": []}])
    with pytest.raises(FileFormatError, match="wrong.jsonl:2: unknown field 'anwser'"):
        sft_data.read_trajectories(tmp_path / "wrong.jsonl")


def test_a_grpo_row_resets_the_environment_to_its_own_question(toy_tasks, toy_env):
    questions = [question for question, _ in toy_tasks]
    environment = adapter_factory(toy_env)()
    for row, question in zip(sft_data.prompts(questions, Prompt("compact")), questions, strict=True):
        environment.reset(**row)
        assert environment.episode.trajectory().question == question
        assert row["prompt"][0]["content"] == environment.episode.prompt.text(question)
        assert json.loads(row["question"])["id"] == question.id
    with pytest.raises(UserError, match="no questions"):
        sft_data.prompts([], Prompt("compact"))


def test_trajectories_of_another_protocol(toy_trajectories):
    sft_data.check_protocol(toy_trajectories, "graphwalker")
    with pytest.raises(UserError, match="toy-1 is of the protocol graphwalker, the config's is interactive"):
        sft_data.check_protocol(toy_trajectories, "interactive")


@pytest.mark.parametrize("places", [[99], [-1], ["0"], 0])
def test_detours_that_are_no_turns(places, toy_trajectories):
    strayed = replace(toy_trajectories[0], extra={"detours": places})
    with pytest.raises(UserError, match="detours: expected places of its 3 turns"):
        sft_data.conversations([strayed], Prompt("compact"))
