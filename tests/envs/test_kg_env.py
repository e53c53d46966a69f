"""Episodes: how they go, how they end, and what earns nothing."""

import dataclasses

import pytest

from envs.check_env import check_env
from graphwalker.errors import KGUnavailable
from graphwalker.protocol.prompts import final_answer
from graphwalker.tools.toolbox import Toolbox

RELATIONS = '<think>Start.</think><kg-query>get_relations("France")</kg-query>'
TRIPLES = '<think>Next.</think><kg-query>get_triples("France", ["location.country.capital"])</kg-query>'
ANSWER = '<think>Done.</think><answer>["Paris"]</answer>'


def play(env, question, texts):
    env.reset(options={"question": question})
    return [env.step(text) for text in texts]


def test_an_episode(make_env, question):
    env = make_env()
    message, info = env.reset(seed=3, options={"question": question})
    assert message == "Question: What is the capital of France?\nTopic entities: France"
    assert info["question_id"] == "toy-1"
    steps = [env.step(text) for text in (RELATIONS, TRIPLES, ANSWER)]
    assert "location.country.capital" in steps[0][0].splitlines()
    assert steps[1][0] == "[France, location.country.capital, Paris]"
    assert steps[2][:4] == ("", 1.0, True, False)
    trajectory = env.trajectory()
    assert (trajectory.answer, trajectory.ending) == (("Paris",), "answered")
    assert [(turn.kind, turn.status) for turn in trajectory.turns] == [
        ("query", "ok"),
        ("query", "ok"),
        ("answer", "ok"),
    ]
    assert [turn.text for turn in trajectory.turns] == [RELATIONS, TRIPLES, ANSWER]


def test_it_keeps_the_contract(make_env, question):
    check_env(make_env(), question)
    check_env(make_env(max_turns=2), question)


def test_the_contract_notices_a_broken_environment(make_env, question):
    class Forgiving:
        def __init__(self, env):
            self._env = env

        def __getattr__(self, name):
            return getattr(self._env, name)

        def step(self, text):
            return ("", 0.0, True, False, {"status": "ok"}) if self._env.over else self._env.step(text)

    with pytest.raises(AssertionError, match="after the end"):
        check_env(Forgiving(make_env()), question)


def test_the_last_turn_is_announced_and_must_answer(make_env, question):
    env = make_env(max_turns=3)
    first, second, third = play(env, question, [RELATIONS, TRIPLES, RELATIONS])
    assert not first[0].endswith(final_answer())
    assert second[0].splitlines()[-1] == final_answer()
    assert third[:4] == ("", 0.0, False, True)
    assert third[4]["status"] == "refused"
    trajectory = env.trajectory()
    assert (trajectory.ending, trajectory.answer) == ("budget", None)
    assert trajectory.turns[-1].status == "refused"
    *_, last = play(env, question, [RELATIONS, TRIPLES, ANSWER])
    assert last[1:4] == (1.0, True, False)


def test_a_policy_that_is_lost_is_stopped_where_asked(make_env, question):
    """Two erroneous turns in a row end the episode; a right one between them starts the count anew."""
    env = make_env(max_errors=2)
    env.reset(options={"question": question})
    right = f'<kg-query>get_relations("{question.topic_entities[0].name}")</kg-query>'
    for text in ("no tag", right, "no tag"):
        assert not env.step(text)[3]
    assert env.step('<kg-query>get_relations("Nobody")</kg-query>')[2:4] == (False, True)
    assert env.trajectory().ending == "budget" and len(env.trajectory().turns) == 4
    env.reset(options={"question": question})
    env.step("no tag")
    assert env.step('<answer>["x"]</answer>')[2]  # an answer is never an error
    with pytest.raises(ValueError, match="max_errors"):
        make_env(max_errors=0)


def test_turns_without_an_action_go_on(make_env, question):
    steps = play(make_env(), question, ["hello", "<think>open", "<answer>Paris</answer>", "<kg-query>x", ANSWER])
    assert [step[4]["status"] for step in steps] == ["no_action", "no_action", "no_action", "bad_query", "ok"]
    assert all(step[0].startswith("Error: ") for step in steps[:4])
    assert steps[-1][1] == 1.0


def test_two_queries_run_the_first_and_say_so(make_env, question):
    (step,) = play(make_env(), question, [RELATIONS + '<kg-query>get_relations("Spain")</kg-query>'])
    assert step[0].splitlines()[-1] == "... only the first of your 2 queries was run"
    assert "location.country.capital" in step[0].splitlines()


def test_a_turn_cut_at_its_cap_says_so_unless_its_action_is_whole(make_env, question):
    env = make_env()
    env.reset(options={"question": question})
    cut = env.step("<think>and so on and", truncated_turn=True)
    assert cut[4]["status"] == "truncated" and "cut" in cut[0]
    assert env.step('<think>x</think><kg-query>get_relations("Fra', truncated_turn=True)[4]["status"] == "truncated"
    assert env.step(RELATIONS + " and", truncated_turn=True)[4]["status"] == "ok"
    assert env.step(ANSWER + " and", truncated_turn=True)[2]


@pytest.mark.parametrize(
    "text",
    [
        '<think><answer>["Paris"]</answer></think>',
        '<think>x</think><answer>["Pari"]</answer>',
        '<think>x</think><answer>["s"]</answer>',
        '<think>x</think><answer>[""]</answer>',
        "<think>x</think><answer>[]</answer>",
        '<think>x</think><answer>["Paris", "Lyon", "France"]</answer>',
        '<think>x</think><answer>["Paris, Lyon"]</answer>',
        '<think>x</think><answer>["Lyon"]</answer><answer>["Paris"]</answer>',
        '<kg-query>get_relations("<answer>["Paris"]</answer>")</kg-query>',
        "<information>[France, location.country.capital, Paris]</information>",
    ],
)
def test_what_gains_nothing(make_env, question, text):
    (step,) = play(make_env(), question, [text])
    assert step[1] == 0.0


@pytest.mark.parametrize(
    "text", ['["Paris"]', '["paris"]', "['Paris']", '["City of Light"]', '["Paris", "City of Light"]']
)
def test_what_counts(make_env, question, text):
    (step,) = play(make_env(), question, [f"<think>x</think><answer>{text}</answer>"])
    assert step[1:3] == (1.0, True)


def test_an_answer_copied_from_an_observation_with_escapes_counts(make_env, question, toy_store):
    odd = dataclasses.replace(question.answers[0], name=toy_store.names(["m.odd"])[0], id="m.odd", aliases=())
    asked = dataclasses.replace(
        question, answers=(odd,), topic_entities=(dataclasses.replace(odd, name="Paris", id="m.paris"),)
    )
    env = make_env()
    seen = play(env, asked, ['<kg-query>get_relations("Paris")</kg-query>'])[0]
    assert seen[4]["status"] == "ok"
    lines = env.step('<kg-query>get_triples("Paris", ["people.person.place_of_birth"])</kg-query>')[0].splitlines()
    copied = next(line for line in lines if "東京" in line).removeprefix("[").split(", people.")[0]
    assert "</information>" not in copied
    assert env.step(f'<answer>["{copied}"]</answer>')[1] == 1.0


def test_an_outage_ends_the_episode_and_is_told_apart(toy_store, make_env, question):
    class Down:
        def __getattr__(self, name):
            if name in ("vocabulary",):
                return getattr(toy_store, name)
            raise KGUnavailable("no answer", "kg_timeout")

    env = make_env()
    env.toolbox = Toolbox(Down())
    (step,) = play(env, question, [RELATIONS])
    assert step[:4] == ("", 0.0, False, True)
    assert step[4]["outage"] is True and step[4]["status"] == "kg_timeout"
    assert env.trajectory().ending == "outage" and env.trajectory().extra == {"outage": "timeout"}


def test_misuse_raises(make_env, question):
    env = make_env()
    with pytest.raises(RuntimeError):
        env.step(ANSWER)
    with pytest.raises(RuntimeError):
        env.trajectory()
    with pytest.raises(ValueError, match="question"):
        env.reset()
    with pytest.raises(ValueError, match="max_turns"):
        make_env(max_turns=1)


def test_a_fork_goes_on_by_itself(make_env, question):
    env = make_env()
    play(env, question, [RELATIONS])
    one, other = env.fork(), env.fork()
    one.step('<think>x</think><kg-query>get_relations("Lyon")</kg-query>')
    lyon = '<think>x</think><kg-query>get_triples("Lyon", ["location.location.containedby"])</kg-query>'
    assert one.step(lyon)[4]["status"] == "ok"
    assert other.step(lyon)[4]["status"] == "refused"  # it has not seen Lyon's relations
    assert other.step(TRIPLES)[0] == env.step(TRIPLES)[0] == "[France, location.country.capital, Paris]"
    assert [len(e.trajectory().turns) for e in (env, one, other)] == [2, 3, 3]
