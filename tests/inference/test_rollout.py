"""The rollout harness with an engine that says what it is told: what becomes of every kind of turn."""

import random
import threading
import time

import pytest

from graphwalker.errors import UserError
from graphwalker.inference.chat_tokens import ChatTokens
from graphwalker.inference.engine import Sampling
from graphwalker.inference.rollout import Start, run_episodes
from graphwalker.inference.turn_text import CUT_NOTE
from graphwalker.protocol import chat
from graphwalker.protocol.prompts import Prompt, final_answer
from graphwalker.protocol.render import render_turn

SAMPLING = Sampling(max_new_tokens=16)
ASK = render_turn("Look.", "query", 'get_relations("France")')
PARIS = render_turn("Done.", "answer", '["Paris"]')


@pytest.fixture
def play(toy_tokenizer, toy_tasks, toy_env, scripted_engine):
    """Run scripts, one an episode on the first task; gives the rollouts in that order and the engine."""

    def run(*scripts, capacity=4, max_length=1024, **options):
        question = toy_tasks[0][0]
        engine = scripted_engine(toy_tokenizer, lambda key: scripts[key], capacity=capacity, max_length=max_length)
        ids = ChatTokens(toy_tokenizer).prompt(Prompt("compact").messages(question))
        starts = []
        for key in range(len(scripts)):
            env = toy_env()
            env.reset(options={"question": question})
            starts.append(Start(key, env, ids))
        done = {rollout.key: rollout for rollout in run_episodes(starts, engine, SAMPLING, **options)}
        return [done[key] for key in range(len(scripts))], engine

    return run


def test_tokens_of_an_episode(play, toy_tokenizer, toy_tasks, toy_trajectories):
    (rollout,), engine = play(toy_tasks[0][1])
    assert rollout.trajectory().turns == toy_trajectories[0].turns
    assert rollout.reward == 1.0
    assert rollout.prompt_ids + rollout.ids == engine.fed[0]
    whole = chat.messages(rollout.trajectory(), Prompt("compact"))
    assert toy_tokenizer.apply_chat_template(whole, tokenize=True)["input_ids"][:-1] == engine.fed[0]
    assert len(rollout.ids) == len(rollout.mask) == len(rollout.logprobs)
    made = [token for token, mask in zip(rollout.ids, rollout.mask, strict=True) if mask]
    assert toy_tokenizer.decode(made) == "".join(text + chat.TURN_END for text in toy_tasks[0][1])
    assert {lp for lp, mask in zip(rollout.logprobs, rollout.mask, strict=True) if not mask} == {0.0}
    counts = rollout.trajectory()
    assert counts.prompt_tokens == len(rollout.prompt_ids) and counts.completion_tokens == len(made)
    assert counts.observation_tokens == len(rollout.ids) - len(made)


def test_the_last_turn_is_told_to_answer(play):
    (answered, silent), _ = play([*[ASK] * 9, PARIS], [ASK] * 10)
    assert answered.trajectory().turns[8].observation.endswith(final_answer())
    assert answered.trajectory().ending == "answered" and answered.reward == 1.0
    assert silent.trajectory().ending == "budget" and silent.reward == 0.0
    assert silent.trajectory().turns[-1].status == "refused"


def test_a_turn_with_neither_query_nor_answer_goes_on(play):
    (rollout,), _ = play(["well...", PARIS])
    assert [turn.status for turn in rollout.trajectory().turns] == ["no_action", "ok"]
    assert rollout.trajectory().ending == "answered"


def test_a_cut_turn_is_ended_and_told_so(play, toy_tokenizer):
    (rollout,), _ = play([("<think>on and on", False), PARIS])
    turn = rollout.trajectory().turns[0]
    assert turn.status == "truncated" and "cut" in turn.observation
    end = rollout.ids.index(toy_tokenizer.eos_token_id)
    assert toy_tokenizer.decode(rollout.ids[:end]) == "<think>on and on"
    assert rollout.mask[:end] == [1] * end and rollout.mask[end] == 0  # the model did not end its turn itself


def test_a_cut_turn_that_holds_an_answer_counts(play, toy_tokenizer):
    (rollout,), _ = play([(PARIS, False)])
    assert rollout.reward == 1.0 and toy_tokenizer.eos_token_id not in rollout.ids


def test_an_overlong_observation_is_cut_where_the_model_can_see_it(play, toy_tokenizer):
    (whole,), _ = play([ASK, PARIS])
    limit = whole.mask.count(0) - 1
    (rollout,), _ = play([ASK, PARIS], max_observation_tokens=limit)
    seen, full = (r.trajectory().turns[0].observation.split("\n") for r in (rollout, whole))
    assert seen[-1] == CUT_NOTE and seen[:-1] == full[: len(seen) - 1] and 1 < len(seen) <= len(full)
    assert rollout.mask.count(0) <= limit
    assert CUT_NOTE in toy_tokenizer.decode(rollout.ids)


def test_the_call_for_an_answer_survives_the_cut(play, toy_tokenizer):
    (whole,), _ = play([ASK] * 9 + [PARIS])
    ninth = whole.trajectory().turns[8].observation
    assert ninth.endswith(final_answer())
    limit = len(ChatTokens(toy_tokenizer).observation(ninth)) - 1
    (rollout,), _ = play([ASK] * 9 + [PARIS], max_observation_tokens=limit)
    assert rollout.trajectory().turns[8].observation.split("\n")[-2:] == [CUT_NOTE, final_answer()]


def test_a_full_row_ends_the_episode(play):
    (whole,), _ = play([ASK] * 10)
    limit = len(whole.prompt_ids) + len(whole.ids) // 2
    (rollout,), engine = play([ASK] * 10, max_length=limit)
    trajectory = rollout.trajectory()
    assert trajectory.ending == "budget" and 0 < len(trajectory.turns) < 10
    assert len(engine.fed[0]) <= limit and not engine.open
    assert trajectory.turns[-1].observation == ""  # nobody saw it
    assert rollout.mask[-1] == 1


def test_a_prompt_without_room_is_an_error(play):
    with pytest.raises(UserError, match="prompt of episode 0 takes .* tokens"):
        play([PARIS], max_length=10)


def test_results_do_not_depend_on_how_many_run_at_a_time(play, toy_tasks):
    scripts = [toy_tasks[0][1], [ASK, PARIS], [ASK] * 10, [PARIS], ["", ASK, PARIS], [("<think>", False), PARIS]]
    one, _ = play(*scripts, capacity=1)
    many, _ = play(*scripts, capacity=5)
    assert [r.trajectory() for r in one] == [r.trajectory() for r in many]
    assert [(r.ids, r.mask) for r in one] == [(r.ids, r.mask) for r in many]


def test_environments_are_made_as_rows_become_free(toy_tokenizer, toy_tasks, toy_env, scripted_engine):
    alive = []

    def starts():
        for key in range(5):
            env = toy_env()
            env.reset(options={"question": toy_tasks[0][0]})
            alive.append(key)
            yield Start(key, env, [5])

    engine = scripted_engine(toy_tokenizer, lambda key: [PARIS], capacity=2)
    running = run_episodes(starts(), engine, SAMPLING)
    next(running)
    assert len(alive) == 2
    assert len(list(running)) == 4


class Far:
    """An environment that takes its time, as one behind a network does."""

    waits = True

    def __init__(self, env, draw, log):
        self.env, self.draw, self.log = env, draw, log

    def step(self, text, truncated_turn=False):
        self.log.append(threading.current_thread() is not threading.main_thread())
        time.sleep(self.draw.random() * 0.02)
        return self.env.step(text, truncated_turn)

    def trajectory(self):
        return self.env.trajectory()


def test_waiting_on_a_network_changes_nothing_and_is_the_same_every_time(
    toy_tokenizer, toy_tasks, toy_env, scripted_engine
):
    scripts = [toy_tasks[0][1], [ASK, PARIS], [ASK] * 10, [PARIS], ["", ASK, PARIS], [ASK, ASK, PARIS]]

    def run(far, seed, delay):
        log, threads, draw = [], [], random.Random(seed)
        engine = scripted_engine(toy_tokenizer, lambda key: scripts[key], capacity=4)
        add, starts = engine.add, []
        engine.add = lambda key, ids, *rest: (log.append((key, tuple(ids))), add(key, ids, *rest))
        for key in range(len(scripts)):
            env = toy_env()
            env.reset(options={"question": toy_tasks[0][0]})
            starts.append(Start(key, Far(env, draw, threads) if far else env, [5]))
        done = [(r.key, r.trajectory()) for r in run_episodes(starts, engine, SAMPLING, network_delay=delay)]
        assert all(threads) and bool(threads) == far
        return log, done

    near = run(False, 0, 3)
    for delay in (0, 3, 1000):
        first, second = run(True, 1, delay), run(True, 2, delay)
        assert first == second
        assert dict(first[1]) == dict(near[1])


def test_an_error_of_a_waiting_environment_is_raised(toy_tokenizer, toy_tasks, toy_env, scripted_engine):
    class Broken(Far):
        def step(self, text, truncated_turn=False):
            raise ZeroDivisionError

    start = Start(0, Broken(toy_env(), None, None), [5])
    engine = scripted_engine(toy_tokenizer, lambda key: [PARIS])
    with pytest.raises(ZeroDivisionError):
        list(run_episodes([start], engine, SAMPLING))
