"""Textbook statistics against the textbooks' own numbers."""

import math

import pytest

from graphwalker.metrics.statistics import kendall_tau_b, t_interval, t_quantile


@pytest.mark.parametrize(
    ("freedom", "value"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (5, 2.5706), (9, 2.2622), (10, 2.2281), (29, 2.0452)],
)
def test_t_quantiles_are_the_tables(freedom, value):
    assert t_quantile(0.95, freedom) == pytest.approx(value, abs=5e-5)


def test_other_levels_and_the_normal_limit():
    assert t_quantile(0.99, 4) == pytest.approx(4.6041, abs=5e-5)
    assert t_quantile(0.90, 7) == pytest.approx(1.8946, abs=5e-5)
    assert t_quantile(0.95, 10_000) == pytest.approx(1.9602, abs=5e-5)


def test_the_interval_of_table_7():
    """Mean 62.12 and standard deviation 1.95 over five seeds, as Classic MCTS has on CWQ: [59.70, 64.54]."""
    offsets = (-1.5, -0.5, 0.0, 0.5, 1.5)
    scale = 1.95 / math.sqrt(sum(o * o for o in offsets) / 4)
    found = t_interval([62.12 + scale * o for o in offsets])
    assert (found.mean, found.std) == (pytest.approx(62.12), pytest.approx(1.95))
    assert (round(found.low, 2), round(found.high, 2)) == (59.70, 64.54)


def test_one_run_has_no_spread():
    found = t_interval([3.0])
    assert found.mean == 3.0 and math.isnan(found.std) and math.isnan(found.low)
    assert math.isnan(t_interval([]).mean)


def test_tau_b_with_ties_by_hand():
    """Pairs of (1,1) (2,2) (2,3) (3,3): 4 concordant, none discordant, one tied in each ranking: 4 / sqrt(5 * 5)."""
    assert kendall_tau_b([1, 2, 2, 3], [1, 2, 3, 3]) == pytest.approx(4 / 5)
    # of 6 pairs (12 in order) 5 concordant and 1 discordant
    assert kendall_tau_b([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(4 / 6)
    assert math.isnan(kendall_tau_b([1, 2, 3], [5, 5, 5])) and math.isnan(kendall_tau_b([1], [1]))
