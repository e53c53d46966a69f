"""ArG's trees on the page: every node's labels, probabilities and score, and nothing that a name could inject."""

import html
import json
from pathlib import Path

import pytest
from markupsafe import escape

from graphwalker.errors import UserError
from graphwalker.files import write_json, write_jsonl
from graphwalker.metrics.run_folder import rescore
from graphwalker.report.page import render_report
from graphwalker.report.tree_view import MOST_NODES, tree_view
from graphwalker.types import Entity, Question, Trajectory, Turn

GOLDEN = Path(__file__).parents[1] / "search" / "golden" / "arg_beam.json"
HOSTILE = "</li><script>document.title='owned'</script>"


@pytest.fixture
def tree():
    return json.loads(GOLDEN.read_text("utf-8"))


@pytest.fixture
def run(tmp_path, tree):
    question = Question("toy/1", "What is the capital of France?", (Entity("France"),), (Entity("Paris"),))
    turn = Turn("[No Retrieval]Paris[Utility:5]", "", "answer", "Paris")
    write_jsonl(tmp_path / "trajectories.jsonl", [Trajectory(question, (turn,), ("Paris",), "answered")])
    rescore(tmp_path)
    write_json(tmp_path / "trees" / "toy%2F1.json", {**tree, "question_id": "toy/1"})
    return tmp_path


def test_every_node_with_its_labels_and_scores(run, tree):
    page = render_report(run)
    assert f"The tree: {len(tree['nodes']) - 1} nodes" in page
    for node in tree["nodes"][1:]:
        assert f"<bdi>{html.escape(node['name'] or '; '.join(node['answer']))}</bdi>" in page
        if node["kind"] in ("entity", "answer") and node["value"] is not None:
            assert f"S = {node['value']:.3f}, path {node['total']:.3f}" in page
    assert "[Unrelevant]" in page and "unreasonable</span>" in page and "expects <bdi>location.capital</bdi>" in page


def test_names_from_a_graph_or_a_model_stay_text(run, tree):
    for node in tree["nodes"][1:]:
        node["name"] = node["limit"] = node["hypothesis"] = HOSTILE
        node["labels"] = [{HOSTILE: 0.5, "x": "no number"}, "nothing"]
    write_json(run / "trees" / "toy%2F1.json", tree)
    page = render_report(run)
    assert "<script>document" not in page and str(escape(HOSTILE)) in page


def test_a_page_without_a_tree_and_a_broken_one(run):
    (run / "trees" / "toy%2F1.json").write_text('{"question_id": "toy/1"}')
    with pytest.raises(UserError, match="toy%2F1.json: not a search tree"):
        render_report(run)
    (run / "trees" / "toy%2F1.json").unlink()
    assert "The tree:" not in render_report(run)


def test_a_large_tree_is_cut_and_other_trees_are_not_shown(tree):
    tree["nodes"] += [{**tree["nodes"][-1], "number": 1000 + i} for i in range(MOST_NODES)]
    shown = tree_view(tree)
    assert shown.nodes == shown.left_out + MOST_NODES and shown.left_out > 0
    classic = json.loads((GOLDEN.parent / "fast_mcts.json").read_text("utf-8"))
    assert tree_view(classic) is None and tree_view(None) is None
