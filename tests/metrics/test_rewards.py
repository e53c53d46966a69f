"""What each reward counts, on answers given honestly; what cannot be gained stands in test_gaming.py."""

import pytest

from graphwalker.rewards import REWARDS, em, em_set, f1, hits_at_1, is_gold, precision, recall
from graphwalker.types import Entity

USA = Entity("United States", "m.09c7w0", ("United States of America", "US"))
UK = Entity("United Kingdom", aliases=("UK", "Britain"))


@pytest.mark.parametrize(
    ("given", "expected"),  # em, em_set, precision, recall, f1, hits@1
    [
        (["United States", "United Kingdom"], (1, 1, 1, 1, 1, 1)),
        (["US"], (1, 0, 1, 1 / 2, 2 / 3, 1)),
        (["US", "France"], (0, 0, 1 / 2, 1 / 2, 1 / 2, 1)),
        (["France", "US"], (0, 0, 1 / 2, 1 / 2, 1 / 2, 0)),
        (["UK", "us", "France"], (0, 0, 2 / 3, 1, 4 / 5, 1)),
        (["France"], (0, 0, 0, 0, 0, 0)),
        ([], (0, 0, 0, 0, 0, 0)),
    ],
)
def test_hand_counted_values(given, expected):
    values = [reward(given, [USA, UK]) for reward in (em, em_set, precision, recall, f1, hits_at_1)]
    assert values == pytest.approx(expected)


def test_order_of_gold_and_of_answers_does_not_matter_for_sets():
    assert em_set(["UK", "US"], [USA, UK]) == em_set(["US", "UK"], [UK, USA]) == 1.0


def test_gold_entities_of_one_name_are_one_answer():
    gold = [Entity("Springfield", "m.1"), Entity("Springfield", "m.2"), Entity("Shelbyville")]
    assert recall(["Springfield"], gold) == 0.5
    assert em_set(["Springfield", "Shelbyville"], gold) == 1.0


def test_names_that_print_escaped_are_matched_either_way():
    gold = [Entity("</information>"), Entity("AC\\DC"), Entity("two\nlines")]
    assert em_set(["</information>", "AC\\DC", "two\nlines"], gold) == 1.0
    assert em_set(["\\u003c/information>", "AC\\\\DC", "two\\nlines"], gold) == 1.0


def test_numbers_and_dates_match_by_value():
    assert em(["1,300,000"], [Entity("1300000")]) == 1.0
    assert em(["4 July 1776"], [Entity("1776-07-04")]) == 1.0
    assert em(["1776"], [Entity("1776-07-04")]) == 0.0


@pytest.mark.parametrize("reward", REWARDS.values(), ids=list(REWARDS))
def test_rewards_stay_in_range_and_are_0_without_answer_or_gold(reward):
    assert reward([], [USA]) == reward(["US"], []) == reward([], []) == 0.0
    for given in (["US", "UK", "x", ""], ["\ud800", "\x00"], ["x" * 10_000]):
        assert 0.0 <= reward(given, [USA, UK]) <= 1.0


@pytest.mark.parametrize("reward", REWARDS.values(), ids=list(REWARDS))
def test_a_bare_string_is_refused(reward):
    with pytest.raises(TypeError, match="list of names"):
        reward("US", [USA])


def test_is_gold():
    assert is_gold("britain", [USA, UK]) and not is_gold("brit", [USA, UK]) and not is_gold("", [USA, UK])
