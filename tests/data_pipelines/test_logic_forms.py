"""Pairs of question and SPARQL for the logic-form model, and samples that all methods share."""

import json

import pytest

from data_pipelines.importers.counts import Counts
from data_pipelines.logic_forms import logic_forms
from data_pipelines.question_split import subset
from graphwalker.cli import main
from graphwalker.errors import UserError
from graphwalker.files import read_jsonl, write_jsonl
from graphwalker.protocol import chat
from graphwalker.protocol.prompts import Prompt
from graphwalker.types import Entity, Question, Trajectory

QUESTIONS = [
    Question(f"q{i}", f"Which is {i}?", (), (Entity("a"),), sparql="SELECT ?x\n WHERE { }" if i % 2 else None)
    for i in range(40)
]


def test_each_question_with_sparql_is_a_conversation_of_one_turn():
    counts = Counts()
    made = list(logic_forms(QUESTIONS, counts))
    assert len(made) == counts.kept == 20 and counts.dropped == {"it has no SPARQL": 20}
    asked, written = chat.messages(made[0], Prompt("logic_form"))
    assert "Which is 1?" in asked["content"] and asked["role"] == "user"
    assert written == {"role": "assistant", "content": "SELECT ?x WHERE { }"}


def test_a_sample_depends_on_seed_and_ids_alone():
    drawn = subset(QUESTIONS, 10, seed=3)
    assert [q.id for q in drawn] == [q.id for q in QUESTIONS if q in drawn]  # in the order of the file
    assert {q.id for q in subset(QUESTIONS[::-1], 10, seed=3)} == {q.id for q in drawn}
    assert {q.id for q in subset(QUESTIONS, 5, seed=3)} < {q.id for q in drawn}
    assert subset(QUESTIONS, 10, seed=4) != drawn
    with pytest.raises(UserError, match="40 questions: cannot draw 41"):
        subset(QUESTIONS, 41)


def test_an_actors_queries_train_the_model_in_the_form_that_it_will_score(tmp_path):
    source, pairs = tmp_path / "actor.jsonl", tmp_path / "pairs.jsonl"
    ran = [Trajectory(q, (), ("a",), "answered", extra={"sparql": f"ASK {{ {q.id} }}"}) for q in QUESTIONS[:3]]
    write_jsonl(source, [*ran, Trajectory(QUESTIONS[3], (), None, "budget")])
    assert main(["data", "logic-forms", str(source), "--out", str(pairs)]) == 0
    assert [made.turns[0].text for made in read_jsonl(pairs, Trajectory)] == [f"ASK {{ q{i} }}" for i in range(3)]
    counts = json.loads((tmp_path / "pairs.counts.json").read_text())
    assert counts["dropped"] == {"it has no SPARQL": 1}  # question 3 has some, which was never executed


def test_both_from_the_console(tmp_path, capsys):
    source = tmp_path / "questions.jsonl"
    write_jsonl(source, QUESTIONS)
    sample, pairs = tmp_path / "sample.jsonl", tmp_path / "pairs.jsonl"
    assert main(["data", "subset", str(source), "--out", str(sample), "--count", "8"]) == 0
    assert len(list(read_jsonl(sample, Question))) == 8
    assert main(["data", "logic-forms", str(source), "--out", str(pairs)]) == 0
    assert len(list(read_jsonl(pairs, Trajectory))) == 20
    assert json.loads((tmp_path / "pairs.counts.json").read_text())["dropped"] == {"it has no SPARQL": 20}
    assert main(["data", "subset", str(source), "--out", str(source), "--count", "8"]) == 2
    assert main(["data", "subset", str(source), "--out", str(sample), "--count", "80"]) == 2
    assert "cannot draw 80" in capsys.readouterr().err
