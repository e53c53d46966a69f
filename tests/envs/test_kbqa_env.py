"""Episodes of the interactive protocol: how they go, end and fork."""

import numpy as np
import pytest

from envs.check_env import check_env
from envs.factory import EnvConfig, any_env_factory, env_factory
from envs.kbqa_env import KBQAEnv
from graphwalker.errors import UserError
from graphwalker.kg.guard import QueryLimits
from graphwalker.kg.open import open_kg
from graphwalker.tools.kbqa.toolbox import KBQAToolbox, Said
from graphwalker.tools.observation import Observation
from graphwalker.tools.retriever import DenseRetriever

NAMED = 'SELECT ?e WHERE { ?e ns:type.object.name "France"@en }'
NODES = 'Thought: Who is it?\nAction: SearchNodes("France")'
QUERY = 'SELECT DISTINCT ?x WHERE { ?e ns:type.object.name "France"@en . ?e ns:location.country.capital ?x }'
RUN = f"Thought: Run it.\nAction: ExecuteSPARQL('{QUERY}')"
BROKEN = "Thought: Again.\nAction: ExecuteSPARQL('SELECT ?x {')"
NOTHING = "Thought: Again.\nAction: ExecuteSPARQL('SELECT ?x { ?x ns:no.such ?y }')"
DONE = "Thought: That is it.\nAction: Done"


def play(env, question, *texts):
    env.reset(options={"question": question})
    return [env.step(text) for text in texts]


def test_an_episode(toy_kbqa_env, question):
    env = toy_kbqa_env()
    steps = play(env, question, NODES, RUN, DONE)
    assert steps[0][0] == "['\"France\" | Description: A country in Europe.']"
    assert [step[0] for step in steps[1:]] == ["['Paris']", ""]
    assert steps[2][1:4] == (1.0, True, False)
    trajectory = env.trajectory()
    assert (trajectory.answer, trajectory.ending) == (("Paris",), "answered")
    assert trajectory.extra == {"protocol": "interactive", "sparql": QUERY, "executable": True}
    assert [(turn.kind, turn.status) for turn in trajectory.turns] == [
        ("query", "ok"),
        ("query", "ok"),
        ("answer", "ok"),
    ]
    assert [turn.text for turn in trajectory.turns] == [NODES, RUN, DONE]


def test_it_keeps_the_contract(toy_kbqa_env, question):
    check_env(toy_kbqa_env(), question)
    check_env(toy_kbqa_env(max_turns=2), question)


@pytest.mark.parametrize(
    ("texts", "answer", "executable"),
    [
        ((DONE,), (), False),
        ((NODES, DONE), (), False),
        ((RUN, BROKEN, DONE), ("Paris",), True),
        ((RUN, NOTHING, DONE), (), False),
        ((NOTHING, RUN, NODES, DONE), ("Paris",), True),
    ],
)
def test_the_answer_is_what_the_last_query_that_ran_found(toy_kbqa_env, question, texts, answer, executable):
    env = toy_kbqa_env()
    play(env, question, *texts)
    trajectory = env.trajectory()
    assert (trajectory.answer, trajectory.ending, trajectory.extra["executable"]) == (answer, "answered", executable)


def test_an_actor_that_never_says_done_runs_out_of_turns(toy_kbqa_env, question):
    env = toy_kbqa_env(max_turns=3)
    steps = play(env, question, RUN, RUN, RUN)
    assert steps[-1][1:4] == (0.0, False, True)
    assert (steps[-1][4]["status"], steps[-1][4]["ending"]) == ("refused", "budget")
    assert (env.trajectory().answer, env.trajectory().ending) == (None, "budget")


def test_the_last_turn_may_be_done(toy_kbqa_env, question):
    env = toy_kbqa_env(max_turns=2)
    assert play(env, question, RUN, DONE)[-1][1:3] == (1.0, True)


def test_errors_in_a_row_can_end_an_episode(toy_kbqa_env, question):
    env = toy_kbqa_env(max_errors=2)
    steps = play(env, question, BROKEN, RUN, BROKEN, "no action at all")
    assert [step[3] for step in steps] == [False, False, False, True]
    assert env.trajectory().ending == "budget"


def test_several_actions_in_a_turn_are_named(toy_kbqa_env, question):
    (step,) = play(toy_kbqa_env(), question, f"{RUN}\nObservation: ['Rome']\n{DONE}")
    assert step[0].splitlines() == ["['Paris']", "... only the first of your 2 actions was run"]


def test_a_turn_that_was_cut_is_said_to_be(toy_kbqa_env, question):
    env = toy_kbqa_env()
    env.reset(options={"question": question})
    assert env.step("Thought: long and", truncated_turn=True)[4]["status"] == "truncated"
    assert env.step(RUN, truncated_turn=True)[4]["status"] == "ok"


@pytest.mark.parametrize(("status", "ending"), [("kg_error", "outage"), ("kg_timeout", None)])
def test_an_outage_ends_an_episode_and_a_slow_query_does_not(toy_kbqa_env, question, status, ending, monkeypatch):
    env = toy_kbqa_env()
    monkeypatch.setattr(env.toolbox, "run", lambda action: Said(Observation("Error: no.", status, outage="reset")))
    (step,) = play(env, question, RUN)
    assert (step[3], step[4].get("ending")) == (ending is not None, ending)
    assert env.trajectory().extra.get("outage") == ("reset" if ending else None)


PRODUCT = " . ".join(f"?a{i} ?b{i} ?c{i}" for i in range(8))


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        (f"SELECT ?a0 ?a1 ?a2 ?a3 ?a4 ?a5 {{ {PRODUCT} }}", "ok", "at least "),
        ("INSERT DATA { <urn:a> <urn:b> <urn:c> }", "refused", "Error: the query is not run"),
    ],
)
def test_a_query_that_asks_too_much_costs_its_turn_alone(toy_sparql_kg, question, query, status, says):
    limits = QueryLimits(rows=100)
    env = KBQAEnv(KBQAToolbox(open_kg(toy_sparql_kg), toy_sparql_kg, query_limits=limits))
    (step,) = play(env, question, f"Action: ExecuteSPARQL('{query}')")
    assert step[4]["status"] == status and says in step[0] and not env.over
    assert env.step(RUN)[4]["status"] == "ok" and env.step(DONE)[1] == 1.0


def test_a_query_that_really_times_out_is_an_observation(toy_sparql_kg, question):
    """A cross product on the embedded store: its worker is ended, and the next query has another."""
    config = EnvConfig(str(toy_sparql_kg), protocol="interactive", query_seconds=1)
    env = any_env_factory(config)()
    slow = f"Thought: All.\nAction: ExecuteSPARQL('SELECT (COUNT(*) AS ?n) {{ {PRODUCT} }}')"
    around = f"Thought: All.\nAction: SearchGraphPatterns('SELECT ?e WHERE {{ {PRODUCT} . ?a0 ns:x.y.z ?e }}')"
    steps = play(env, question, slow, RUN, around, slow, DONE)
    assert [step[4]["status"] for step in steps] == ["kg_timeout", "ok", "empty", "kg_timeout", "ok"]
    assert steps[0][0].startswith("Error: timed out") and steps[-1][1:4] == (1.0, True, False)


def test_a_fork_goes_on_by_itself(toy_kbqa_env, question):
    env = toy_kbqa_env()
    play(env, question, RUN)
    one, other = env.fork(), env.fork()
    one.step(NOTHING)
    one.step(DONE)
    other.step(DONE)
    assert (one.trajectory().answer, other.trajectory().answer) == ((), ("Paris",))
    assert len(env.trajectory().turns) == 1 and not env.over
    assert env.step(DONE)[1] == 1.0


def test_from_a_config(toy_sparql_kg, toy_kg, question):
    env = any_env_factory(EnvConfig(str(toy_sparql_kg), protocol="interactive", tools="grailqa", rows_shown=1))()
    assert isinstance(env, KBQAEnv)
    assert "SearchTypes" in env.reset(options={"question": question})[0]
    assert env.step("Action: ExecuteSPARQL('SELECT ?x { ?y ns:location.location.contains ?x }')")[0] == (
        "['Lyon']\n... 1 more rows"
    )
    assert any_env_factory(EnvConfig(str(toy_kg)))().role == "tool"
    with pytest.raises(UserError, match="retriever: embeddings is not supported here"):
        any_env_factory(EnvConfig(str(toy_sparql_kg), protocol="interactive", retriever="embeddings"))
    with pytest.raises(UserError, match="--store oxigraph"):
        any_env_factory(EnvConfig(str(toy_kg), protocol="interactive"))
    with pytest.raises(UserError, match="not supported here"):
        env_factory(EnvConfig(str(toy_sparql_kg), protocol="interactive"))


def test_patterns_are_ranked_by_the_retriever_that_the_config_names(toy_sparql_kg, question):
    read = []

    def embed(texts):
        read.extend(texts)
        return np.array([[float("adjoin" in text or text == "chief town"), 1.0] for text in texts], np.float32)

    config = EnvConfig(str(toy_sparql_kg), protocol="interactive", retriever="embeddings", patterns_shown=1)
    env = any_env_factory(config, DenseRetriever(embed))()
    env.reset(options={"question": question})
    asked = f"Action: SearchGraphPatterns('{NAMED}', semantic=\"chief town\")"
    assert "location.location.adjoin_s" in env.step(asked)[0]
    assert {"chief town", "location country capital"} <= set(read)


@pytest.mark.parametrize(
    "wrong", [{"protocol": "chess"}, {"tools": "dbpedia"}, {"query_seconds": 0}, {"rows_shown": 0}]
)
def test_a_wrong_setting_is_named(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        EnvConfig(**wrong)
