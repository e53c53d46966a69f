"""TRL makes a tool of every public method: exactly one is meant for the model."""

import inspect
import json

import pytest

from envs.trl_adapter import KGQueryEnvironment, adapter_factory


@pytest.fixture
def environment(make_env, question):
    made = adapter_factory(make_env)()
    assert made.reset(question=json.dumps(question.to_json()), prompt=[], anything=1) is None
    return made


def test_exactly_one_tool_is_exposed(environment):
    members = [name for name, _ in inspect.getmembers(type(environment), predicate=inspect.isfunction)]
    assert [name for name in members if not name.startswith("_")] == ["kg_query", "reset"]
    assert isinstance(environment, KGQueryEnvironment)


def test_the_tool_has_a_schema():
    utils = pytest.importorskip("transformers.utils")
    function = utils.get_json_schema(KGQueryEnvironment.kg_query)["function"]
    assert function["name"] == "kg_query"
    assert list(function["parameters"]["properties"]) == ["query"]


def test_queries_run_and_malformed_ones_are_observations(environment):
    assert "location.country.capital" in environment.kg_query('get_relations("France")')
    assert environment.kg_query("get_relations(").startswith("Error: ")
    assert [turn.status for turn in environment.episode.trajectory().turns] == ["ok", "bad_query"]


def test_after_the_end_the_tool_says_so(environment):
    for _ in range(12):
        last = environment.kg_query('get_relations("France")')
    assert last.startswith("Error: ")
    assert environment.episode.trajectory().ending == "budget"


def test_environments_do_not_share_an_episode(make_env, question):
    factory = adapter_factory(make_env)
    first, second = factory(), factory()
    row = {"question": json.dumps(question.to_json())}
    first.reset(**row)
    second.reset(**row)
    first.kg_query('get_relations("France")')
    assert second.episode.trajectory().turns == ()
