"""Limits of a config's numbers, whoever makes the config."""

import pytest

from envs.factory import EnvConfig
from graphwalker.errors import UserError
from graphwalker.inference.configs import EvaluationConfig


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_turns": "ten"}, "max_turns: expected a number, got 'ten'"),
        ({"max_turns": None}, "max_turns: expected a number, got None"),
        ({"max_turns": True}, "max_turns: expected a number, got True"),
        ({"max_turns": [2]}, "max_turns: expected a number, got [2]"),
        ({"max_turns": float("nan")}, "max_turns: must be at least 2, got nan"),
        ({"max_turns": float("inf")}, "max_turns: expected a number, got inf"),
        ({"max_errors": 0}, "max_errors: must be at least 1, got 0"),
    ],
)
def test_numbers_out_of_range(given, said):
    with pytest.raises(UserError) as caught:
        EnvConfig(**given)
    assert str(caught.value) == said


def test_null_is_kept_where_it_is_the_default():
    assert EnvConfig(max_errors=None).max_errors is None
    assert EvaluationConfig(eval_max_questions=None).eval_max_questions is None
