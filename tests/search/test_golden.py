"""Whole trees of Classic and Fast MCTS beside committed ones; GRAPHWALKER_WRITE_GOLDEN=1 writes them anew.

The actor and the value function are scripts, so what the trees pin is the search: its selections, rollouts, back-ups,
its end and its vote.
"""

import hashlib
import json
import os
from pathlib import Path

import pytest

from graphwalker.protocol.render import render_turn
from graphwalker.search.tree_json import tree_json

GOLDEN = Path(__file__).parent / "golden"
CAPITAL, CONTAINS = "location.country.capital", "location.location.contains"


def chance(*what) -> float:
    """A number in [0, 1) that is the same wherever it is asked for."""
    return int.from_bytes(hashlib.sha256(repr(what).encode()).digest()[:4], "big") / 2**32


def actor(node, sample):
    """Walks to the capital, but errs: other relations, early answers, turns that say nothing."""
    lot = chance("turn", node.number, sample)
    if lot < 0.15:
        return f"I wonder ({sample})."
    if lot < 0.3:
        return render_turn("A guess.", "answer", '["Lyon"]')
    asked = [turn.action for turn in node.turns() if turn.status == "ok"]
    if not any("get_relations" in action for action in asked):
        return render_turn("Look around.", "query", 'get_relations("France")')
    if not any("get_triples" in action for action in asked):
        relation = CAPITAL if lot < 0.7 else CONTAINS
        return render_turn("Follow it.", "query", f'get_triples("France", ["{relation}"])')
    return render_turn("Done.", "answer", '["Paris"]' if CAPITAL in asked[-1] else '["Paris", "Lyon"]')


def value(nodes):
    return [round(2 * chance("value", node.number), 3) for node in nodes]


@pytest.mark.parametrize("searcher", ["classic_mcts", "fast_mcts"])
def test_tree(search, searcher):
    tree, _ = search(actor, value, searcher=searcher, width=3, max_depth=8, valid_terminals=5, expected_depth=2)
    found = tree_json(tree, "toy-1")
    file = GOLDEN / f"{searcher}.json"
    if os.environ.get("GRAPHWALKER_WRITE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    golden = json.loads(file.read_text("utf-8"))
    for node in (*found["nodes"], *golden["nodes"], *found["outside"], *golden["outside"]):
        node["total"] = round(node["total"], 9)
    assert found == golden
