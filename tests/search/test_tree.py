"""The equations of the tree against values worked out by hand."""

import math

import pytest

from graphwalker.search.node import Node
from graphwalker.search.settings import SearchConfig
from graphwalker.search.tree import Tree, by_uct, decay, uct


def chain(root, length):
    nodes = [root]
    for depth in range(1, length + 1):
        nodes.append(Node(root.episode, nodes[-1], number=depth, depth=depth))
        nodes[-2].children.append(nodes[-1])
    return nodes


def test_uct_is_equation_2(root):
    parent, child = chain(root(), 1)
    parent.visits, child.visits, child.total = 8, 2, 1.5
    assert uct(child) == pytest.approx(1.5 / 2 + math.sqrt(2 * math.log(8) / 2))  # 0.75 + 1.4420
    assert uct(child) == pytest.approx(2.1920270)


def test_a_state_that_was_never_visited_comes_first(root):
    parent = root()
    known, new = (Node(parent.episode, parent, number=i, depth=1) for i in (1, 2))
    parent.children, parent.visits = [known, new], 5
    known.visits, known.total = 5, 100.0
    assert by_uct(Tree(parent, SearchConfig())) is new


def test_selection_goes_down_from_the_root(root):
    """A leaf with a higher UCT than its siblings' branch has is passed over: siblings compete, not all leaves."""
    top = root()
    left, right = (Node(top.episode, top, number=i, depth=1) for i in (1, 2))
    top.children, top.visits = [left, right], 10
    low, high = (Node(top.episode, left, number=i, depth=2) for i in (3, 4))
    left.children, left.visits, left.total = [low, high], 5, 1.0
    right.visits, right.total = 5, 4.0
    high.visits, high.total, low.visits = 1, 2.0, 1
    tree = Tree(top, SearchConfig())
    assert uct(high) > uct(right) and by_uct(tree) is right
    right.ending = "budget"  # nothing is left there
    assert by_uct(tree) is high


def test_equal_children_are_taken_in_the_order_in_which_they_came(root):
    top = root()
    top.children = [Node(top.episode, top, number=i, depth=1, visits=1, total=1.0) for i in (1, 2, 3)]
    top.visits = 3
    assert by_uct(Tree(top, SearchConfig())) is top.children[0]


def test_back_up_is_equation_4_at_the_depth_of_each_ancestor(root):
    nodes = chain(root(), 10)
    tree = Tree(nodes[0], SearchConfig(gamma=0.1, expected_depth=7))
    tree.back_up(nodes[10], 2.0)
    assert [node.visits for node in nodes] == [1] * 11
    assert [node.total for node in nodes] == pytest.approx([2.0] * 8 + [1.8, 1.6, 1.4])
    assert nodes[10].value == 2.0 and nodes[9].value is None
    tree.back_up(nodes[9], 1.0)
    assert (
        nodes[8].total == pytest.approx(1.8 + 0.9) and nodes[7].total == 3.0 and nodes[10].total == pytest.approx(1.4)
    )


def test_a_merged_child_backs_up_once_for_each_sample(root):
    nodes = chain(root(), 8)
    nodes[8].samples = 3
    Tree(nodes[0], SearchConfig()).back_up(nodes[8], 0.5)
    assert nodes[0].visits == nodes[8].visits == 3
    assert nodes[7].total == pytest.approx(1.5) and nodes[8].total == pytest.approx(3 * 0.5 * 0.9)


@pytest.mark.parametrize(("depth", "factor"), [(0, 1), (7, 1), (8, 0.9), (16, 0.1), (17, 0), (40, 0)])
def test_decay_never_turns_negative(depth, factor):
    assert decay(depth, SearchConfig()) == pytest.approx(factor)
