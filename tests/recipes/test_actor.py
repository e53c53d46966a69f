"""The actor's recipe as a user runs it: trajectories from gold queries on the toy KG, a tiny model, an episode."""

import json
import shutil

import pytest

from data_pipelines.actor import actor_trajectories
from data_pipelines.importers.counts import Counts
from graphwalker.files import write_jsonl
from graphwalker.types import Entity, Question

NS = "http://rdf.freebase.com/ns/"
ENV = {"kg": "sparql", "protocol": "interactive", "prompt": "interactive_compact", "names_shown": 3}


def _questions() -> list[Question]:
    hops = [("What is the capital of France?", "m.fr", "location.country.capital", ["Paris"])]
    hops += [("What does France contain?", "m.fr", "location.location.contains", ["Lyon", "Paris"])]
    return [
        Question(
            text, text, answers=tuple(map(Entity, gold)), sparql=f"SELECT ?x {{ <{NS}{node}> <{NS}{relation}> ?x }}"
        )
        for text, node, relation, gold in hops
    ]


@pytest.mark.slow
def test_a_tiny_actor_is_trained_and_answers(workspace, sft, toy_sparql_kg, toy_kbqa_env):
    shutil.copytree(toy_sparql_kg, workspace / "sparql")
    made = list(actor_trajectories(_questions(), toy_kbqa_env(), counts=Counts()))
    assert len(made) == 2
    write_jsonl(workspace / "actor.jsonl", made)
    write_jsonl(workspace / "questions.jsonl", _questions())
    changed = {"trajectories": "actor.jsonl", "max_steps": 2, "save_steps": 1, "output_dir": "out/actor"}
    done = workspace.recipe("actor", "--config", workspace.config("actor.yaml", {**sft, **ENV, **changed}))
    assert done.returncode == 0, done.stderr
    log = json.loads((workspace / "out/actor/trainer_state.json").read_text())["log_history"]
    assert [entry["step"] for entry in log if "loss" in entry] == [1, 2]
    infer = {**ENV, "model": "out/actor", "questions": "questions.jsonl", "out": "out/infer", "searcher": "linear"}
    infer |= {"search_temperature": 0, "turn_tokens": 8, "episode_tokens": 600, "max_turns": 2}
    done = workspace.recipe("infer", "--config", workspace.config("infer.yaml", infer))
    assert done.returncode == 0, done.stderr
    assert json.loads((workspace / "out/infer/metrics.json").read_text())["overall"]["episodes"] == 2
