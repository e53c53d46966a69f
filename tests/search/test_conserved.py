"""Whatever an actor does and whatever states are worth: visits and rewards are conserved, and every search ends."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwalker.protocol.render import render_turn
from graphwalker.search.node import Node
from graphwalker.search.searchers import SEARCHERS
from graphwalker.search.settings import SearchConfig
from graphwalker.search.tree import Tree, decay, is_open

TURNS = (
    render_turn("Look.", "query", 'get_relations("France")'),
    render_turn("Look.", "query", 'get_relations("Spain")'),
    render_turn("Done.", "answer", '["Paris"]'),
    render_turn("Done.", "answer", "[]"),
    "well...",
)
CONFIGS = st.fixed_dictionaries(
    {
        "searcher": st.sampled_from(sorted(SEARCHERS)),
        "width": st.integers(1, 4),
        "simulations": st.integers(1, 15),
        "selections": st.integers(1, 6),
        "valid_terminals": st.integers(1, 5),
        "max_depth": st.integers(1, 5),
        "gamma": st.sampled_from([0.0, 0.1, 0.7]),
        "expected_depth": st.integers(0, 3),
        "merge_equal": st.booleans(),
    }
)


@pytest.fixture(scope="module")
def root_episode(toy_env, toy_tasks):
    env = toy_env()
    env.reset(options={"question": toy_tasks[0][0]})
    return env


@settings(max_examples=40)
@given(config=CONFIGS, seed=st.integers(0, 2**16))
def test_visits_and_rewards_are_conserved(root_episode, drive_class, config, seed):
    draw = random.Random(seed)
    worth = {}

    def value(nodes):
        return [worth.setdefault(node.number, draw.random()) for node in nodes]

    drive = drive_class(lambda node, sample: draw.choice(TURNS), value)
    tree = drive(Tree(Node(root_episode.fork()), SearchConfig(**config), random.Random(seed)))
    nodes = list(tree.root.walk())
    assert len({node.number for node in nodes}) == len(nodes)
    assert all(child.parent is node and child.depth == node.depth + 1 for node in nodes for child in node.children)
    assert all(node.depth <= config["max_depth"] for node in [*nodes, *tree.ends])
    assert all(not node.children for node in nodes if node.terminal)
    assert tree.simulated <= config["simulations"] and tree.selected <= config["selections"]
    assert tree.stopped in ("valid", "simulations", "selections", "exhausted", "played")
    if tree.stopped == "exhausted" and config["searcher"] != "ig_beam":
        assert not is_open(tree.root)
    valued = [node for node in nodes if node.value is not None]
    assert tree.root.visits == sum(node.samples for node in valued)
    for node in nodes:
        below = [at for at in node.walk() if at.value is not None]
        assert node.visits == sum(at.samples for at in below)
        earned = sum(at.samples * at.value for at in below)
        assert node.total == pytest.approx(earned * decay(node.depth, tree.config))
