"""Rewards of episodes: what each counts, and that what one mistake costs cannot be had back by repetition."""

import pytest

from graphwalker.episode_rewards import EPISODE_REWARDS, format_, retrieval, turn_format, turn_query, well_formed
from graphwalker.protocol.render import render_turn
from graphwalker.rewards import REWARDS
from graphwalker.types import Entity, Question, Trajectory, Turn

CAPITAL = "location.country.capital"
QUESTION = Question(
    "q1", "What is the capital of France?", (Entity("France"),), (Entity("Paris", aliases=("Lutetia",)),)
)


def query(action, observation="", status="ok"):
    return Turn(render_turn("Look.", "query", action), "Look.", "query", action, observation, status)


RELATIONS = query('get_relations("France")', CAPITAL)
TRIPLES = query(f'get_triples("France", ["{CAPITAL}"])', f"[France, {CAPITAL}, Paris]")
MISSPELT = query('get_relations("Frnace")', "Error: no entity is named Frnace.", "unknown_entity")
NOTHING = query('get_relations("Lyon")', "No relations found.", "empty")
BROKEN = query("get_relations(France)", "Error: this is not a query.", "bad_query")
RIGHT = Turn(render_turn("Done.", "answer", '["Paris"]'), "Done.", "answer", '["Paris"]')
CHATTER = Turn("well...", kind="none", observation="Error: neither.", status="no_action")


def episode(*turns, given=("Paris",), ending="answered"):
    return Trajectory(QUESTION, turns, given, ending)


@pytest.mark.parametrize(
    ("turns", "format_of_turns", "queries", "retrieved"),
    [
        ((RELATIONS, TRIPLES, RIGHT), 1, 1, 1),
        ((RELATIONS, MISSPELT, TRIPLES, RIGHT), 1, 2 / 3, 1),
        ((NOTHING, RIGHT), 1, 1, 0),
        ((BROKEN, CHATTER, RIGHT), 1 / 3, 0, 0),
        ((RIGHT,), 1, 0, 0),
        ((), 0, 0, 0),
    ],
)
def test_hand_counted_values(turns, format_of_turns, queries, retrieved):
    trajectory = episode(*turns)
    values = [reward(trajectory) for reward in (turn_format, turn_query, retrieval)]
    assert values == pytest.approx([format_of_turns, queries, retrieved])


def test_format_needs_an_answer_and_every_turn():
    assert format_(episode(RELATIONS, RIGHT)) == 1.0
    assert format_(episode(RELATIONS, given=None, ending="budget")) == format_(episode(CHATTER, RIGHT)) == 0.0


@pytest.mark.parametrize(
    "text",
    [
        '<kg-query>get_relations("France")</kg-query>',
        '<think>Look.</think><kg-query>get_relations("France")</kg-query><kg-query>get_relations("Lyon")</kg-query>',
        '<think>Look.</think> and <kg-query>get_relations("France")</kg-query>',
        '<think>Look.<think></think><kg-query>get_relations("France")</kg-query>',
        '<think>Look.</think><kg-query>get_relations("France")</kg-query><information>France</information>',
        '<think>Look.</think><kg-query>get_relations("France")',
    ],
)
def test_turns_that_say_more_or_less_than_one_thought_and_one_action(text):
    assert not well_formed(Turn(text, "Look.", "query", 'get_relations("France")'))


def test_repeating_a_query_that_works_gains_nothing():
    once = turn_query(episode(MISSPELT, RELATIONS, RIGHT))
    assert turn_query(episode(MISSPELT, RELATIONS, RELATIONS, RELATIONS, RIGHT)) < once == 0.5


def test_an_alias_in_a_triple_is_retrieved_and_a_name_in_a_thought_is_not():
    seen = query(f'get_triples("France", ["{CAPITAL}"])', f"[France, {CAPITAL}, Lutetia]")
    told = Turn(render_turn("It is Paris.", "query", 'get_relations("Paris")'), "It is Paris.", "query", "", "a.b")
    assert (retrieval(episode(seen)), retrieval(episode(told))) == (1.0, 0.0)


def test_every_reward_of_the_answer_is_one_of_the_episode():
    right, none = episode(RIGHT), episode(CHATTER, given=None, ending="budget")
    for name, reward in REWARDS.items():
        assert EPISODE_REWARDS[name](right) == reward(["Paris"], QUESTION.answers)
        assert EPISODE_REWARDS[name](none) == 0.0


@pytest.mark.parametrize("reward", EPISODE_REWARDS.values(), ids=list(EPISODE_REWARDS))
def test_rewards_stay_in_range_on_garbage(reward):
    texts = ["", "<think>", "<think>" * 50 + "</think>" * 50, "\x00", "<answer>[]</answer>" * 3, "x" * 10_000]
    garbage = [Turn(text, text, kind, text, text) for text in texts for kind in ("query", "answer", "none")]
    for trajectory in (episode(*garbage), episode(*garbage, given=None, ending="outage"), episode()):
        assert 0.0 <= reward(trajectory) <= 1.0
