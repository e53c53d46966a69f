"""A language model as the critic: what it is shown, which replies count, and what becomes of the others."""

import json
from collections import Counter

import pytest

from data_pipelines.arg_candidates import ArgSettings
from data_pipelines.arg_critic import Case, Gold
from data_pipelines.arg_llm_critic import TASKS, LLMCritic, read_tasks
from data_pipelines.arg_paths import Hop, PathSearch
from data_pipelines.arg_texts import DROPPED_LABEL, ArgMaker, arg_records
from data_pipelines.importers.counts import Counts
from graphwalker import cli
from graphwalker.errors import UserError
from graphwalker.files import read_jsonl, write_jsonl
from graphwalker.kg.hops import Hops
from graphwalker.protocol.reflection import parse
from graphwalker.protocol.reflection_data import ReflectionRecord
from graphwalker.tools.retriever import BM25Retriever
from graphwalker.types import Entity, Question

FRANCE = Entity("France", "m.fr")
QUESTION = Question("q", "Capital of [Utility:5]?", (FRANCE,), (Entity("Paris", "m.paris"),))
CAPITAL = ("location.country.capital", False)
CASE = Case(Gold(QUESTION, FRANCE, frozenset(), frozenset()))


class Server:
    """Answers by a function of the messages and of how often it was asked."""

    def __init__(self, answer):
        self.answer, self.counts, self.requests = answer, Counter(), []

    def reply(self, messages, max_tokens, **sampling):
        self.requests.append((messages, sampling))
        return self.answer(messages, len(self.requests))


@pytest.fixture
def critic(toy_store):
    return lambda answer, **options: LLMCritic(Server(answer), Hops(toy_store), **options)


def test_what_the_model_sees(critic):
    judge = critic(lambda messages, _: "Fully Relevant")
    assert judge.relation(CASE, CAPITAL) == "[Fully Relevant]"
    assert judge.entity(CASE.then(Hop(CAPITAL, "m.paris")), Hop(("x.y", True), "m.cvt1")) == "[Fully Relevant]"
    (first, _), (second, _) = judge.server.requests
    assert first[-1]["content"] == (
        "Question: Capital of \\u005bUtility:5]?\nWalk: France\nRelation: location.country.capital"
    )
    assert second[-1]["content"].splitlines()[1:] == [
        "Walk: France -> location.country.capital -> Paris -> ^x.y",
        "Entity: m.cvt1",
    ]
    assert first[0]["role"] == "system" and "Fully Relevant, Partially Relevant, Unrelevant" in first[0]["content"]
    assert first[0] != second[0]
    assert "Paris" not in first[-1]["content"]  # no gold


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ("[Unrelevant]", "[Unrelevant]"),
        (" partially relevant.\n", "[Partially Relevant]"),
        ("Irrelevant", "[Unrelevant]"),
        ("It is Fully Relevant because", None),
        ("[Fully Reasonable]", None),
        ("", None),
    ],
)
def test_which_replies_are_labels(critic, reply, label):
    assert critic(lambda *_: reply).relation(CASE, CAPITAL) == label


@pytest.mark.parametrize(("reply", "utility"), [("4", 4), ("[Utility:2]", 2), ("utility: 3", 3), ("6", None)])
def test_utility_is_a_number(critic, reply, utility):
    assert critic(lambda *_: reply).utility(CASE, ["Paris"], True) == utility


def test_a_reply_that_is_no_label_is_asked_for_again_and_then_given_up(critic):
    judge = critic(lambda _, asked: "Unreasonable" if asked == 2 else "Hm")
    assert judge.rationality(CASE) == "[Unreasonable]"
    assert judge.server.requests[0][1] == {} and judge.server.requests[1][1]["seed"] == 1
    assert judge.rationality(CASE) is None
    assert judge.counts == {"asked": 2, "malformed": 4, "given_up": 1}


def test_a_path_is_labelled_by_the_model(critic, toy_store):
    def answer(messages, _):
        task = messages[0]["content"]
        judged = messages[-1]["content"]
        if "from 1 to 5" in task:
            return "5"
        if "sound line" in task:
            return "Fully Reasonable"
        return "?" if "adjoin" in judged else "Fully Relevant"

    judge, search, counts = critic(answer), PathSearch(Hops(toy_store)), Counts()
    maker = ArgMaker(search, BM25Retriever(), judge, ArgSettings())
    records = list(arg_records([QUESTION], maker, counts, parallel=2))
    assert len(records) == 2 and all(parse(record.text).path.utility == 5 for record in records)
    assert counts.notes[DROPPED_LABEL] >= 1 and counts.kept == 1
    assert records == list(arg_records([QUESTION], maker, Counts()))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tasks: tasks.pop("entity"), "entity: expected the tasks relation, entity"),
        (lambda tasks: tasks.update(more={}), "more: expected the tasks"),
        (lambda tasks: tasks["relation"].pop("instructions"), "relation: expected instructions"),
        (lambda tasks: tasks["entity"].update(examples=5), "entity: expected instructions and a list of examples"),
        (lambda tasks: tasks["utility"]["examples"][0].update(label="6"), "utility: example 1: expected `asked`"),
    ],
)
def test_instructions_that_miss_something_are_refused(tmp_path, change, said):
    tasks = {name: {"instructions": "Say {labels}.", "examples": []} for name in TASKS}
    tasks["utility"]["examples"] = [{"asked": "?", "label": 5}]
    (tmp_path / "own.yaml").write_text(json.dumps(tasks))
    assert read_tasks(tmp_path / "own.yaml")["utility"].messages[0]["content"] == "Say 5, 4, 3, 2, 1."
    change(tasks)
    (tmp_path / "own.yaml").write_text(json.dumps(tasks))
    with pytest.raises(UserError, match=said):
        read_tasks(tmp_path / "own.yaml")


def test_the_command_asks_a_server_and_the_second_time_its_cache(tmp_path, toy_kg, monkeypatch, capsys):
    from graphwalker.tools.chat_server import ChatServer, Reply

    asked = []

    def reply(self, body):
        asked.append(body["model"])
        kind = body["messages"][0]["content"]
        return Reply("5" if "from 1 to 5" in kind else f"Fully {'Reasonable' if 'sound line' in kind else 'Relevant'}")

    monkeypatch.setattr(ChatServer, "_ask", reply)
    write_jsonl(tmp_path / "q.jsonl", [QUESTION])
    command = ["data", "arg", str(tmp_path / "q.jsonl"), str(tmp_path / "arg.jsonl"), "--kg", str(toy_kg)]
    command += ["--critic-url", "http://localhost:1/v1", "--critic-model", "m", "--cache", str(tmp_path / "c.sqlite")]
    assert cli.main(command) == 0
    first, calls = list(read_jsonl(tmp_path / "arg.jsonl", ReflectionRecord)), len(asked)
    assert calls and set(asked) == {"m"} and "asked the critic" in capsys.readouterr().out
    assert cli.main(command) == 0
    assert len(asked) == calls and list(read_jsonl(tmp_path / "arg.jsonl", ReflectionRecord)) == first
    assert json.loads((tmp_path / "arg.counts.json").read_text())["critic"] == "m"


@pytest.mark.parametrize("option", ["--critic-model", "--instructions"])
def test_a_critic_without_its_server_is_not_replaced_by_rules(tmp_path, toy_kg, capsys, option):
    write_jsonl(tmp_path / "q.jsonl", [QUESTION])
    command = ["data", "arg", str(tmp_path / "q.jsonl"), str(tmp_path / "arg.jsonl"), "--kg", str(toy_kg), option, "m"]
    assert cli.main(command) == 2
    assert f"{option} is for a language model as critic" in capsys.readouterr().err
    assert not (tmp_path / "arg.jsonl").exists()
