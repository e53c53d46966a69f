"""The measures of MCTS-KBQA against values worked out by hand."""

import csv
import json

import pytest

from graphwalker.errors import FileFormatError, UserError
from graphwalker.metrics.costs import mean_costs
from graphwalker.metrics.error_sample import count_labels, error_sample, write_errors
from graphwalker.metrics.kbqa import em_hit, main_measure, max_f1, rhits_at_1, score_kbqa
from graphwalker.metrics.siblings import Siblings, agreement, recall_at, sibling_sets
from graphwalker.metrics.tree_shape import tree_shape
from graphwalker.types import Entity, Question, Trajectory, Turn


def episode(number, given, gold=("Rome",), structure="1-hop", ending="answered", dataset="cwq", **extra):
    question = Question(f"q{number}", f"Which {number}?", (), tuple(map(Entity, gold)), dataset, "test", structure)
    return Trajectory(question, (Turn("t"),), tuple(given), ending, extra=extra)


def test_rhits_is_the_expectation_over_the_predicted_answers():
    gold = [Entity("United States", aliases=("US",)), Entity("France")]
    assert rhits_at_1(["US", "Oslo", "Bonn", "France"], gold) == 0.5
    assert rhits_at_1(["us", "US"], gold) == 1.0  # spellings of one name
    assert rhits_at_1(["United States", "US", "Oslo"], gold) == pytest.approx(2 / 3)  # two names, each may be drawn
    assert rhits_at_1([], gold) == 0.0


def test_a_hit_is_above_f1_where_set_equality_is_below():
    gold = [Entity("a1"), Entity("a2")]
    run = [episode(0, ["a1", "b"], ("a1", "a2")), episode(1, ["a1", "a2"], ("a1", "a2")), episode(2, ["b"], ("a1",))]
    measures = score_kbqa(run)["overall"]["measures"]
    value = {name: interval["value"] for name, interval in measures.items()}
    assert em_hit(["b", "a2"], gold) == 1.0 and em_hit([], gold) == 0.0
    assert value["em_set"] == pytest.approx(1 / 3, abs=1e-6)
    assert value["f1"] == pytest.approx((0.5 + 1 + 0) / 3, abs=1e-6)
    assert value["rhits@1"] == pytest.approx((0.5 + 1 + 0) / 3, abs=1e-6)
    assert value["em_hit"] == pytest.approx(2 / 3, abs=1e-6)
    assert value["max_f1@5"] is None  # no search noted candidates


def test_by_type_without_outages_and_questions_without_gold():
    run = [
        episode(0, ["Rome"], structure="Conj"),
        episode(1, ["Oslo"], structure="Conj"),
        episode(2, ["Rome"], structure=""),
        episode(3, ["Rome"], ending="outage"),
        episode(4, ["Rome"], gold=()),
    ]
    found = score_kbqa(run)
    assert found["overall"]["questions"] == 3
    assert {name: group["measures"]["f1"]["value"] for name, group in found["by_type"].items()} == {
        "Conj": 0.5,
        "unknown": 1.0,
    }
    assert found["by_type"]["unknown"]["measures"]["f1"]["low"] == 1.0
    assert score_kbqa([])["overall"]["measures"]["f1"]["value"] is None


def test_kqa_pro_is_measured_by_accuracy():
    assert main_measure([episode(0, [], dataset="kqapro")]) == "em_set"
    assert main_measure([episode(0, []), episode(1, [], dataset="kqapro")]) == main_measure([]) == "f1"


def test_the_best_of_five_candidates():
    answers = [["Oslo"], ["Rome", "Oslo"], ["Bonn"], ["Bern"], ["Riga"], ["Rome"]]
    candidates = [{"answer": answer, "votes": 1, "node": i} for i, answer in enumerate(answers)]
    assert max_f1(episode(0, ["Oslo"], candidates=candidates)) == pytest.approx(2 / 3)  # the sixth is not looked at
    run = [episode(0, ["Oslo"], candidates=candidates), episode(1, [], candidates=[]), episode(2, [])]
    measures = score_kbqa(run)["overall"]["measures"]
    assert measures["max_f1@5"]["value"] == pytest.approx(1 / 3, abs=1e-6)
    assert measures["empty@5"]["value"] == 0.5
    assert max_f1(episode(0, [], candidates=["broken", {"answer": [1, "Rome"]}])) == 1.0


def test_costs_are_means_over_questions():
    cost = {"actor_calls": 10, "tokens": 100, "value_calls": 5, "seconds": 2.0}
    run = [episode(0, [], cost=cost), episode(0, [], cost=cost), episode(1, [], cost={**cost, "seconds": 1.0})]
    assert mean_costs(run) == {
        "actor_calls": 15.0,  # two episodes of question 0 add up
        "tokens": 150.0,
        "value_calls": 7.5,
        "value_tokens": None,
        "seconds": 2.5,
        "value_seconds": None,
    }
    assert mean_costs([episode(0, [])])["actor_calls"] == 1.0
    assert mean_costs([episode(0, [], ending="outage", cost=cost)])["seconds"] is None


def node(number, parent, depth, total, visits=1, action="a", **more):
    turn = {"kind": "query", "action": action, "observation": "o", "text": "t"}
    return {"number": number, "parent": parent, "depth": depth, "total": total, "visits": visits, "samples": 1,
            "turn": None if parent is None else turn, **more}  # fmt: skip


TREE = {
    "question_id": "q",
    "nodes": [
        node(0, None, 0, 3.0, 6),
        node(1, 0, 1, 1.0, 2, "a"),
        node(2, 0, 1, 1.5, 2, "b"),
        node(3, 0, 1, 0.0, 1, "a"),
        node(4, 1, 2, 0.5, 1, "c"),
        node(5, 1, 2, 0.5, 1, "d"),
        node(6, 2, 2, 1.0, 1, "e"),
        node(7, 2, 2, 0.0, 0, "f"),
    ],
}


def test_sibling_sets_and_their_monte_carlo_values():
    sets = list(sibling_sets(TREE))
    assert [(s.numbers, s.truth) for s in sets] == [((1, 2, 3), (0.5, 0.75, 0.0)), ((4, 5), (0.5, 0.5))]
    assert [s.tells for s in sets] == [True, False]  # of node 2's children only one was visited


@pytest.mark.parametrize(
    ("k", "truth", "proxy", "recall"),
    [
        (1, [0.0, 1.0, 0.5], [0.2, 0.9, 0.5], 1.0),
        (1, [0.0, 1.0, 0.5], [0.9, 0.2, 0.5], 0.0),
        (2, [0.0, 1.0, 0.5], [0.9, 0.2, 0.5], 0.0),
        (3, [0.0, 1.0, 0.5], [0.9, 0.2, 0.5], 1.0),
        (2, [0.0, 1.0, 0.5], [0.9, 0.2, 0.2], 0.5),  # one place left for two that tie
        (1, [1.0, 1.0, 0.0], [0.1, 0.2, 0.1], 1.0),  # either best child will do
        (1, [1.0, 1.0, 0.0], [0.5, 0.5, 0.5], 2 / 3),
        (2, [1.0, 0.0, 0.0, 0.0], [0.5] * 4, 0.5),
    ],
)
def test_recall_at_k(k, truth, proxy, recall):
    assert recall_at(k, truth, proxy) == pytest.approx(recall)


def test_agreement_of_a_proxy():
    sets = [Siblings("a", (1, 2, 3), (0.0, 1.0, 0.5)), Siblings("b", (1, 2), (1.0, 0.0)), Siblings("b", (3, 4), (1, 1))]
    found = agreement([(sets[0], [0.1, 0.9, 0.2]), (sets[1], [0.5, 0.5]), (sets[2], [0.1, 0.2])])
    assert (found["sets"], found["equal"], found["tied"], found["questions"]) == (2, 1, 1, 2)
    assert found["recall@1"]["value"] == 0.75 and found["recall@2"]["value"] == 1.0
    assert found["tau_b"]["value"] == 0.5  # 1 and, where the proxy tells nothing, 0
    assert agreement([])["tau_b"]["value"] is None


def test_the_shape_of_a_tree():
    shape = tree_shape([TREE])
    assert (shape["trees"], shape["nodes"]) == (1, 7)
    assert shape["depths"] == {"1": 3 / 7, "2": 4 / 7} and shape["mean_depth"] == 11 / 7
    assert shape["samples"] == {"0": 3.0, "1": 2.0}
    assert shape["branching"] == {"0": 2.0, "1": 2.0}  # two of the root's three did the same
    assert tree_shape([])["depths"] == {}


def run_of_errors(count=10):
    return [episode(i, ["Rome" if i % 5 == 0 else "Oslo"], sparql="SELECT ?x") for i in range(count)]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_errors_are_drawn_labelled_and_counted(tmp_path, ending):
    records = error_sample(run_of_errors(), 6, seed=1)
    assert len(records) == 6 and all(record["label"] == "" and record["f1"] == 0.0 for record in records)
    assert [r["id"] for r in records] == [r["id"] for r in error_sample(run_of_errors()[::-1], 6, seed=1)][::-1]
    assert [r["id"] for r in records] != [r["id"] for r in error_sample(run_of_errors(), 6, seed=2)]
    file = tmp_path / f"errors.{ending}"
    write_errors(file, records)
    labels = ["reasoning", "Golden Wrong", "entity-linking", "reasoning", "", "other"]
    if ending == "csv":
        rows = list(csv.DictReader(file.open(encoding="utf-8")))
        assert json.loads(rows[0]["gold"]) == ["Rome"]
        with file.open("w", encoding="utf-8", newline="") as handle:
            writer = csv.DictWriter(handle, list(rows[0]))
            writer.writeheader()
            writer.writerows({**row, "label": label} for row, label in zip(rows, labels, strict=True))
    else:
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        file.write_text(
            "".join(json.dumps({**r, "label": label}) + "\n" for r, label in zip(rows, labels, strict=True))
        )
    found = count_labels(file)
    assert (found["labelled"], found["unlabelled"]) == (5, 1)
    assert found["labels"]["reasoning"] == {"group": "Error", "count": 2, "percent": 40.0}
    assert found["labels"]["golden_wrong"] == {"group": "Mismatch", "count": 1, "percent": 20.0}
    assert found["labels"]["ambiguous"]["count"] == 0


def test_a_label_that_is_none_is_named_with_its_line(tmp_path):
    file = tmp_path / "errors.jsonl"
    file.write_text('{"label": "reasoning"}\n{"label": "bad luck"}\n')
    with pytest.raises(FileFormatError, match="errors.jsonl:2: label: expected one of .*'bad luck'"):
        count_labels(file)
    (tmp_path / "errors.csv").write_text("id\nq1\n")
    with pytest.raises(FileFormatError, match="errors.csv:1: there is no column named label"):
        count_labels(tmp_path / "errors.csv")
    with pytest.raises(UserError, match="name a .csv or a .jsonl file"):
        count_labels(tmp_path / "errors.txt")
    with pytest.raises(UserError, match="no such file"):
        count_labels(tmp_path / "missing.csv")
