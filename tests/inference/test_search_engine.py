"""Searches with a real (untrained) model: the engine's batches and branches change nothing."""

import pytest
from transformers import set_seed

from graphwalker.inference.engine import Sampling
from graphwalker.inference.evaluate import run_questions
from graphwalker.inference.searching import run_searches
from graphwalker.inference.transformers_engine import TransformersEngine
from graphwalker.search.settings import SearchConfig
from graphwalker.train import tiny

SAMPLING = Sampling(temperature=0, max_new_tokens=8)


@pytest.fixture(scope="module")
def model(toy_tokenizer):
    set_seed(0)
    return tiny.make_model(toy_tokenizer, width=32, layers=2, heads=1).eval()


@pytest.fixture
def run(model, toy_tokenizer, toy_tasks, toy_env):
    def searched(capacity=16, at_a_time=None, **settings):
        engine = TransformersEngine(model, toy_tokenizer, capacity=capacity, max_length=1024)
        config = SearchConfig(**{"width": 3, "selections": 3, "max_depth": 3, **settings})
        value = [0.5].__mul__
        found = run_searches(
            [question for question, _ in toy_tasks],
            lambda: toy_env(max_turns=4),
            engine,
            lambda nodes: value(len(nodes)),
            config,
            SAMPLING,
            at_a_time=at_a_time,
        )
        done = {s.trajectory.question.id: s for s in found}
        assert not engine.rows
        return done

    return searched


@pytest.mark.parametrize("searcher", ["classic_mcts", "fast_mcts"])
def test_trees_do_not_depend_on_who_else_is_searched_or_on_how_many_rows_there_are(run, searcher):
    trees = [
        {key: s.tree_json() for key, s in run(searcher=searcher, **options).items()}
        for options in ({}, {"at_a_time": 1}, {"capacity": 2})
    ]
    assert all(tree == trees[0] for tree in trees[1:])
    assert {tree["selected"] for tree in trees[0].values()} == {3}


def test_a_greedy_linear_search_is_an_evaluation(run, model, toy_tokenizer, toy_tasks, toy_env):
    engine = TransformersEngine(model, toy_tokenizer, capacity=4, max_length=1024)
    questions = [question for question, _ in toy_tasks]
    expected = {t.question.id: t for t in run_questions(questions, lambda: toy_env(max_turns=4), engine, SAMPLING)}
    found = run(searcher="linear", search_temperature=0, max_depth=9)
    for key, searched in found.items():
        trajectory = searched.trajectory
        assert trajectory.turns == expected[key].turns and trajectory.ending == expected[key].ending
        assert trajectory.completion_tokens == expected[key].completion_tokens
        assert trajectory.prompt_tokens == expected[key].prompt_tokens
        assert trajectory.observation_tokens == expected[key].observation_tokens
