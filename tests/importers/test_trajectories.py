"""Trajectories and dialogues of others: GraphWalker's JSON and Interactive-KBQA's, made up after their descriptions."""

import json

import pytest

from data_pipelines.importers.counts import Counts
from data_pipelines.importers.importing import import_from
from graphwalker.errors import FileFormatError, UserError
from graphwalker.protocol.parse import parse_query
from graphwalker.types import Trajectory

SYNTHESISED = {
    "path_id": 7,
    "raw_question": "Which town was Ann Lee born in?",
    "prompt": "Answer …",
    "steps": [
        {
            "step_index": 1,
            "think": "Follow it.",
            "kg_query": '<kg-query>get_triples("Ann Lee", ["people.person.place_of_birth"])</kg-query>',
            "information": ["[Ann Lee, people.person.place_of_birth, Old Town]"],
        },
        {"step_index": 0, "think": "Look.", "action": 'get_relations("Ann Lee")', "information": ["a.b", "c.d"]},
        {"step_index": 2, "think": None, "kg_query": '<answer>["Old Town"]</answer>', "information": []},
    ],
    "name_path": "Ann Lee -> people.person.place_of_birth -> Old Town",
    "answer": '<answer>["Old Town"]</answer>',
}
PREDICTION = {
    "id": "q1",
    "question": "Where?",
    "answers": ["Old Town", "New Town"],
    "prediction": '["Old Town"]',
    "trace": [
        {"type": "prompt", "tag": "prompt", "content": "…"},
        {"type": "think", "content": "Look."},
        {"type": "kg_query", "content": 'get_relations("Ann Lee")', "call_number": 1},
        {"type": "tool_call", "tool": "get_relations", "args": {}, "result_count": 0},
        {"type": "information", "content": "No relations found."},
        {"type": "kg_query", "content": "nonsense"},
        {"type": "information", "content": "[Could not parse query: nonsense]"},
        {"type": "think", "content": "Done."},
        {"type": "answer", "content": '["Old Town"]'},
    ],
}
DIALOGUE = {
    "qid": "d1",
    "q": "Where was Ann Lee born?",
    "messages": [
        {"role": "user", "content": "Q: Where was Ann Lee born?"},
        {"role": "assistant", "content": 'Thought: First the node.\nAction: SearchNodes("Ann Lee")'},
        {"role": "user", "content": "Observation: ['Ann Lee | entity']"},
        {"role": "assistant", "content": "Thought: Query.\nAction: ExecuteSPARQL('SELECT ?x { }')"},
        {"role": "user", "content": "Observation: Error: timed out"},
        {"role": "assistant", "content": "I wonder."},
        {"role": "user", "content": "Observation: Error: No valid action"},
        {"role": "assistant", "content": "Thought: That is it.\nAction: Done."},
        {"role": "user", "content": "Stop condition detected."},
    ],
    "prediction": ["Old Town"],
    "answers": ["Old Town"],
    "sparql": "SELECT ?x { }",
    "compositionality_type": None,
}
FEW_SHOT = """\
# tok len: 12
# ID: train-7
# SPARQL: SELECT ?x { }
# "qtype": "QueryName"

Q: Where was Ann Lee born?
Thought: First the node.
Action: SearchNodes("Ann Lee")
Observation: ['Ann Lee | entity']
Thought: Query,
and wait.
Action: ExecuteSPARQL('SELECT ?x { }')
Observation: ['Old Town']
# a note: in between
Thought: That is it.
Action: Done.

# ID: train-8
Q: Was she born?
Thought: Ask.
Action: ExecuteSPARQL('ASK { }')
Observation: False
Action: Done.
"""


@pytest.fixture
def read(tmp_path):
    def imported(form, content, name="test.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        counts = Counts()
        found = list(import_from(form, path, counts))
        assert all(trajectory == Trajectory.from_json(trajectory.to_json()) for trajectory in found)
        return found, counts

    return imported


def test_graphwalkers_synthesised_trajectories(read):
    (one,), _ = read("graphwalker", [SYNTHESISED])
    assert [turn.kind for turn in one.turns] == ["query", "query", "answer"]
    assert [turn.thought for turn in one.turns] == ["Look.", "Follow it.", ""]
    assert parse_query(one.turns[1].action).relations == ("people.person.place_of_birth",)
    assert one.turns[0].observation == "a.b\nc.d" and one.turns[0].text.startswith("<think>Look.</think><kg-query>")
    assert (one.answer, one.ending, one.question.id) == (("Old Town",), "answered", "7")
    assert [topic.name for topic in one.question.topic_entities] == ["Ann Lee"]


def test_an_answer_that_stands_apart_is_the_last_turn(read):
    pair = {"name_path1": "Ann Lee -> r -> X", "name_path2": "Bo Ek -> s -> X", "name_path": None}
    (one,), _ = read("graphwalker", [{**SYNTHESISED, **pair, "steps": SYNTHESISED["steps"][:2]}])
    assert one.turns[-1].kind == "answer" and one.answer == ("Old Town",) and one.question.structure == "2i"
    assert [topic.name for topic in one.question.topic_entities] == ["Ann Lee", "Bo Ek"]


def test_graphwalkers_predictions(read):
    unanswered = {**PREDICTION, "trace": PREDICTION["trace"][:5]}
    (one, two), counts = read(
        "graphwalker", {"model": "m", "predictions": [PREDICTION, unanswered, {**PREDICTION, "trace": []}]}
    )
    assert [(turn.kind, turn.status) for turn in one.turns] == [
        ("query", "empty"),
        ("query", "bad_query"),
        ("answer", "ok"),
    ]
    assert [a.name for a in one.question.answers] == ["Old Town", "New Town"] and one.answer == ("Old Town",)
    assert (two.answer, two.ending) == (None, "budget") and counts.dropped == {"it has no turns": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"raw_question": None}, "field 'raw_question' is missing"),
        ({"steps": None}, "field 'steps' .* or 'trace' .* is missing"),
        ({"steps": [{"think": "x"}]}, r"field 'steps\[0\].kg_query' is missing"),
        ({"steps": [{"think": 5}]}, r"field 'steps\[0\].think': Expected `str . null`, got `int`"),
    ],
)
def test_a_malformed_trajectory_is_named(read, change, message):
    with pytest.raises(FileFormatError, match=f"test.json:1: record 1: {message}"):
        read("graphwalker", [{**SYNTHESISED, **change}])


def test_dialogues(read):
    scenario = {**DIALOGUE, "messages": [{"role": "system", "content": "…"}], "prediction": None, "answers": None}
    (one,), counts = read("interactive-kbqa", [DIALOGUE, scenario])
    assert [(turn.kind, turn.status) for turn in one.turns] == [
        ("query", "ok"),
        ("query", "kg_timeout"),
        ("none", "no_action"),
        ("answer", "ok"),
    ]
    assert one.turns[0].thought == "First the node." and one.turns[0].action == 'SearchNodes("Ann Lee")'
    assert one.turns[0].observation == "['Ann Lee | entity']"
    assert (one.answer, one.ending, one.question.split) == (("Old Town",), "answered", "test")
    assert counts.dropped == {"it has no turn with an action": 1}
    with pytest.raises(FileFormatError, match=r"field 'messages\[0\].role': expected user"):
        read("interactive-kbqa", [{**DIALOGUE, "messages": [{"role": "tool", "content": ""}]}])


def test_few_shot_texts(read, tmp_path):
    (one, two), _ = read("interactive-kbqa", FEW_SHOT, name="dialog/QueryName-01.txt")
    assert (one.question.id, one.question.structure, one.question.sparql) == ("train-7", "QueryName", "SELECT ?x { }")
    assert [turn.kind for turn in one.turns] == ["query", "query", "answer"] and one.answer == ("Old Town",)
    assert one.turns[1].thought == "Query,\nand wait."
    assert (two.question.id, two.answer) == ("train-8", ("no",))
    assert len(list(import_from("interactive-kbqa", tmp_path, Counts()))) == 2
    for text, message in (
        ("Thought: x\n", "txt:1: expected the question"),
        ("Q: x\nAction: Done.\n", "txt:2: an action without a thought"),
        ("x\n", "txt:1: expected one of Q:"),
        ("# x\n", "no dialogue"),
    ):
        with pytest.raises(FileFormatError, match=message):
            read("interactive-kbqa", text, name="bad.txt")
    (empty := tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no few-shot dialogues"):
        list(import_from("interactive-kbqa", empty, Counts()))


def test_trajectories_take_no_kg(read, toy_store):
    with pytest.raises(UserError, match="graphwalker holds trajectories"):
        list(import_from("graphwalker", "x.json", Counts(), store=toy_store))
