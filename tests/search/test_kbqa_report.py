"""From searches to the paper's tables, through the console command."""

import csv
import json
import random

import pytest
import yaml

from graphwalker.cli import main
from graphwalker.errors import UserError
from graphwalker.files import write_json, write_jsonl
from graphwalker.inference.values.make import terminal_f1
from graphwalker.metrics.siblings import sibling_sets
from graphwalker.metrics.trees import read_trees
from graphwalker.protocol.render import render_turn
from graphwalker.report.kbqa import kbqa_report, markdown
from graphwalker.search.stored import stored_nodes
from graphwalker.search.tree_json import candidates_json, tree_json
from graphwalker.search.vote import winner
from graphwalker.types import Trajectory


@pytest.fixture
def actor(toy_tasks):
    """Follows the tasks' own turns; a third of the time it answers something wrong or asks in vain."""

    def act(node, sample):
        draw = random.Random(1000 * node.number + sample)
        question = node.episode.trajectory().question
        turns = next(turns for q, turns in toy_tasks if q.id == question.id)
        if draw.random() < 0.2:
            return render_turn("Guess.", "answer", '["Spain"]')
        return "well..." if draw.random() < 0.2 else turns[min(node.depth, len(turns) - 1)]

    return act


@pytest.fixture
def make_run(search, actor, tmp_path, toy_tasks):
    """A function that searches the toy tasks and writes a run's folder as inference does."""

    def make(name, searcher="classic_mcts", value="f1", seed=0, seconds=2.0, tasks=(0, 1, 2, 3), **settings):
        folder, trajectories = tmp_path / name, []
        for task in tasks:
            tree, _ = search(actor, terminal_f1, task, searcher=searcher, width=3, **settings)
            node, question = winner(tree), toy_tasks[task][0]
            cost = {"actor_calls": 10, "tokens": 50, "value_calls": 5, "seconds": seconds, "value_seconds": seconds / 4}
            extra = {"searcher": searcher, "candidates": candidates_json(tree), "cost": cost}
            turns = tuple(node.turns())
            trajectories.append(Trajectory(question, turns, node.answer, node.ending or "budget", extra=extra))
            write_json(folder / "trees" / f"{task}.json", tree_json(tree, question.id))
        write_jsonl(folder / "trajectories.jsonl", trajectories)
        settings = {"searcher": searcher, "value": value, "seed": seed}
        (folder / "config.yaml").write_text(yaml.safe_dump(settings), "utf-8")
        return folder

    return make


def test_a_stored_tree_has_the_nodes_it_was_made_from(make_run, toy_tasks):
    for tree in read_trees(make_run("run")):
        question = next(q for q, _ in toy_tasks if q.id == tree["question_id"])
        nodes = stored_nodes(tree, question)
        assert list(nodes) == [record["number"] for record in tree["nodes"]]
        for record in tree["nodes"]:
            node = nodes[record["number"]]
            assert (node.visits, node.total, node.depth) == (record["visits"], record["total"], record["depth"])
            assert (node.parent.number if node.parent else None) == record["parent"]
            assert node.episode.trajectory().turns == tuple(node.turns())
        assert [n.number for n in nodes[0].walk()][0] == 0


def test_proxies_and_every_table(make_run, capsys):
    runs = [
        make_run("vote", "majority_vote", value="constant", seconds=2.0),
        make_run("truth"),
        make_run("again", seed=1, tasks=(0, 1)),
        make_run("ig", value="ig", seconds=4.0),
        make_run("cot", value="cot", seconds=8.0),
    ]
    assert main(["kbqa", "proxies", str(runs[1]), "--value", "constant"]) == 0
    proxy = json.loads((runs[1] / "proxies" / "constant.json").read_text())
    assert main(["kbqa", "proxies", str(runs[1]), "--value", "constant", "--name", "other"]) == 0
    assert json.loads((runs[1] / "proxies" / "other.json").read_text())["values"] == proxy["values"]
    (runs[1] / "proxies" / "other.json").unlink()
    assert main(["kbqa", "proxies", str(runs[1]), "--value", "constant", "--name", "../other"]) == 2
    sets = [s for tree in read_trees(runs[1]) for s in sibling_sets(tree) if s.tells]
    assert proxy["states"] == sum(len(s.numbers) for s in sets) > 0
    tables = kbqa_report(runs)
    main_rows, costs, proxies, seeds, errors, scoring, shapes = tables.values()
    assert [row["method"] for row in main_rows] == ["vote", "truth", "again", "ig", "cot"]
    assert 0 <= main_rows[0]["f1"]["low"] <= main_rows[0]["f1"]["value"] <= 100
    assert costs[3]["relative_time"] == 2.0 and costs[0]["relative_time"] == 1.0
    assert proxies[0]["tau_b"]["value"] == 0.0 and proxies[0]["tied"] == proxies[0]["sets"] == len(sets)
    every = [s for tree in read_trees(runs[1]) for s in sibling_sets(tree)]
    assert proxies[0]["equal"] == len(every) - len(sets) and proxies[0]["sets_without_values"] == 0
    assert (seeds[0]["seeds"], seeds[0]["method"]) == (2, "truth, again")
    assert errors[0]["max_f1@5"]["value"] >= errors[0]["f1"]["value"] - 1e-9
    assert [row["relative_time"] for row in scoring if row["value"] in ("ig", "cot")] == [1.0, 2.0]
    assert shapes[0]["trees"] == 4 and sum(shapes[0]["depths"].values()) == pytest.approx(1)
    capsys.readouterr()
    out = runs[0].parent / "report.json"
    assert main(["kbqa", "report", *map(str, runs), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert all(title in printed for title in tables) and "| truth |" in printed
    assert json.loads(out.read_text()).keys() == tables.keys()


def test_errors_are_exported_and_their_labels_counted(make_run, tmp_path, capsys):
    run, file = make_run("run"), tmp_path / "errors.csv"
    trajectories = [json.loads(line) for line in (run / "trajectories.jsonl").read_text("utf-8").splitlines()]
    for record in trajectories:
        record["answer"] = ["Spain"]
    write_jsonl(run / "trajectories.jsonl", trajectories)
    assert main(["kbqa", "errors", str(run), "--out", str(file), "--count", "3"]) == 0
    rows = list(csv.DictReader(file.open(encoding="utf-8")))
    assert len(rows) == 3 and rows[0]["label"] == ""
    file.write_text(file.read_text("utf-8").replace(f"{rows[0]['id']},,", f"{rows[0]['id']},reasoning,"), "utf-8")
    capsys.readouterr()
    assert main(["kbqa", "labels", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "1 labelled, 2 not" in printed and "100.00%" in printed


def test_bad_input_is_one_line(make_run, tmp_path, capsys):
    run = make_run("run", tasks=(0,))
    tree = run / "trees" / "0.json"
    whole = json.loads(tree.read_text())
    root, first, *rest = whole["nodes"]
    damaged = {
        "node 0 is no node": [{}],
        "node 1 is no node": [root, {**first, "answer": "Paris"}],
        "node 2 is no node": [root, first, {**rest[0], "total": float("nan")}],
        "node 1 does not stand in a tree": [root, {**first, "parent": 77}],
        "node 2 does not stand in a tree": [root, first, {**rest[0], "number": first["number"]}],
    }
    texts = {problem: json.dumps({**whole, "nodes": nodes}) for problem, nodes in damaged.items()}
    for problem, text in {"0.json: ": "{", "an object": "[]", **texts}.items():
        tree.write_text(text)
        for command in (["report", str(run)], ["proxies", str(run), "--value", "constant"]):
            assert main(["kbqa", *command]) == 2
            assert problem in capsys.readouterr().err
    tree.unlink()
    write_json(run / "proxies" / "ig.json", {"values": {"toy-1": 4}})
    assert main(["kbqa", "report", str(run)]) == 2 and "ig.json: not a value's file" in capsys.readouterr().err
    (run / "proxies" / "ig.json").unlink()
    (tmp_path / "labels.csv").write_bytes(b"id,label\n1,\xff\n")
    assert main(["kbqa", "labels", str(tmp_path / "labels.csv")]) == 2 and "in UTF-8" in capsys.readouterr().err
    assert main(["kbqa", "proxies", str(run), "--value", "constant"]) == 2
    assert "no siblings of different worth" in capsys.readouterr().err
    assert main(["kbqa", "proxies", str(run), "--value", "ig"]) == 2
    assert main(["kbqa", "report", str(tmp_path / "nowhere")]) == 2
    assert main(["kbqa", "errors", str(run), "--out", str(tmp_path / "e.xls"), "--count", "1"]) == 2
    with pytest.raises(UserError):
        kbqa_report([tmp_path])


def test_markdown_has_depths_in_order_whatever_run_came_first():
    rows = [
        {"method": "a", "depths": {"1": 3, "2": 1}, "mean_depth": 1.5},
        {"method": "b", "depths": {"1": 1, "10": 2}},
    ]
    head = markdown(rows).splitlines()[0]
    assert head == "| method | depths 1 | depths 2 | depths 10 | mean_depth |"


def test_markdown_spreads_types_over_columns():
    rows = [
        {"method": "a|b", "types": {"Conj": {"value": 50.0, "low": 40.0, "high": 60.0}}, "f1": 1.5, "n": None},
        {"method": "c", "types": {"Compo": {"value": None, "low": None, "high": None}}, "f1": 2.0, "n": 3},
    ]
    assert markdown(rows).splitlines() == [
        "| method | Conj | f1 | n | Compo |",
        "| --- | --- | --- | --- | --- |",
        "| a\\|b | 50.00 [40.00, 60.00] | 1.50 | - | - |",
        "| c | - | 2.00 | 3 | - |",
    ]
