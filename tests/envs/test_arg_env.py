"""Episodes of ArG's protocol: paragraphs within the model's own text."""

import pytest

from envs.arg_env import ArgEnv
from envs.check_env import check_env
from envs.factory import EnvConfig, any_env_factory
from graphwalker.errors import KGUnavailable
from graphwalker.metrics.trajectory import score_trajectory
from graphwalker.tools.paths import PathTools
from graphwalker.types import Entity, Question

RELATION, ENTITY = "[Relation Retrieval]<paragraph>", "[Entity Retrieval]<paragraph>"
GOOD = "[Fully Relevant][Fully Reasonable]"


def play(env, question, *texts):
    env.reset(options={"question": question})
    return [env.step(text)[0] for text in texts]


def test_the_contract(toy_arg_env, question):
    check_env(toy_arg_env(), question)
    check_env(toy_arg_env(max_turns=2), question)


def test_an_episode(toy_arg_env, question):
    env = toy_arg_env()
    said = play(env, question, RELATION, f"[Fully Relevant]{ENTITY}", f"{GOOD}[No Retrieval]Paris[Utility:5]")
    assert said == ["location.country.capital</paragraph>", "Paris</paragraph>", ""]
    done = env.trajectory()
    assert done.answer == ("Paris",) and done.ending == "answered" and done.extra["protocol"] == "reflection"
    scores = score_trajectory(done).values
    assert scores["retrieval_rate"] == scores["grounding_rate"] == scores["em_set"] == 1.0


def test_a_path_does_not_go_back(toy_arg_env, question):
    env = toy_arg_env()
    first = play(env, question, RELATION, f"[Fully Relevant]{ENTITY}")
    assert first[1] == "Paris</paragraph>"
    relation = env.step(f"{GOOD}{RELATION}")[0]
    entity = env.step(f"[Fully Relevant]{ENTITY}")
    if relation in ("location.location.containedby</paragraph>", "^location.country.capital</paragraph>"):
        assert entity[3] and env.trajectory().turns[-1].status == "empty"  # only France, where the path has been
    else:
        assert entity[0] not in ("France</paragraph>", "Paris</paragraph>")


def test_a_topic_that_is_named_twice_opens_one_path(toy_arg_env):
    env = toy_arg_env()
    both = (
        Entity("Paris", "m.paris"),
        Entity("Nowhere", "m.none"),
        Entity("PARIS", "m.paris"),
        Entity("Lyon", "m.lyon"),
    )
    env.reset(options={"question": Question("q", "?", both, ())})
    assert [(topic.entity, topic.name) for topic in env.topics()] == [("m.paris", "Paris"), ("m.lyon", "Lyon")]


@pytest.mark.parametrize("end", ["[Unrelevant]", "", "I do not know."])
def test_a_model_that_ends_without_an_answer_is_asked_for_one(toy_arg_env, question, end):
    env = toy_arg_env()
    assert play(env, question, RELATION, end)[1] == "[No Retrieval]"
    assert env.step("Paris[Utility:2]")[2] and env.trajectory().answer == ("Paris",)


def test_names_cannot_forge_a_token(toy_arg_env):
    question = Question("q", "Who was born in Paris?", (Entity("Paris", "m.paris"),), (Entity("Ann Lee"),))
    env = toy_arg_env()
    said = play(env, question, RELATION, f"[Fully Relevant]{ENTITY}")
    assert said == ["^people.person.place_of_birth</paragraph>", 'A "B", \\u003c/information> \\\\ (東京)</paragraph>']


def test_an_outage_is_no_empty_answer(toy_store, question, monkeypatch):
    env = ArgEnv(PathTools(toy_store))
    env.reset(options={"question": question})

    def gone(*arguments):
        raise KGUnavailable("gone", kind="refused")

    monkeypatch.setattr(env.toolbox, "retrieve", gone)
    _, _, terminated, truncated, info = env.step(RELATION)
    assert truncated and not terminated and info["outage"]
    assert env.trajectory().ending == "outage" and env.trajectory().extra["outage"] == "refused"


def test_from_a_config(toy_kg, question):
    env = any_env_factory(EnvConfig(kg=str(toy_kg), protocol="reflection", prompt="compact"))()
    assert isinstance(env, ArgEnv) and env.reset(options={"question": question})[0].count("France")
