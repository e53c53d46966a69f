"""Kinds of groups, and the mean over a turn's tokens: counted by hand."""

import pytest
import torch

from graphwalker.train.groups import ALIVE, OUTAGE, RIGHT, WRONG, group_kinds
from graphwalker.train.turn_ratio import turn_means

NAN = float("nan")


@pytest.mark.parametrize(
    ("rewards", "kind"),
    [
        ([0.0, 0.0, 1.0, 0.0], ALIVE),
        ([1.0, 1.0, 1.0, 1.0], RIGHT),
        ([0.0, 0.0, 0.0, 0.0], WRONG),
        ([0.1, 0.1, 0.1, 0.1], WRONG),
        ([NAN, 1.0, NAN, 1.0], RIGHT),
        ([NAN, 1.0, NAN, 0.0], ALIVE),
        ([NAN, NAN, NAN, 1.0], OUTAGE),
        ([NAN, NAN, NAN, NAN], OUTAGE),
    ],
)
def test_kinds(rewards, kind):
    alive = [0.0, 1.0, 0.0, 1.0]
    assert group_kinds(torch.tensor([*rewards, *alive])[:, None], 4, full=1.0) == [kind, ALIVE]


def test_columns_that_are_normalised_one_by_one_keep_a_group_alive():
    rewards = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert group_kinds(rewards, 2, full=2.0) == [ALIVE]
    assert group_kinds(rewards.sum(dim=1, keepdim=True), 2, full=2.0) == [WRONG]


def test_turn_means():
    mask = torch.tensor([[1, 1, 0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0, 0, 1]])
    values = torch.tensor([[1.0, 3, 9, 9, 1, 2, 6, 9], [9.0] * 8, [4.0, 9, 5, 9, 9, 9, 9, 6]], requires_grad=True)
    means = turn_means(values, mask)
    assert means.tolist() == [[2, 2, 0, 0, 3, 3, 3, 0], [0] * 8, [4, 0, 5, 0, 0, 0, 0, 6]]
    means.sum().backward()
    assert torch.equal(values.grad, mask.float())  # so that on-policy gradients are those of the tokens
