"""The engines on vLLM, in this process and over HTTP, say what the one on transformers says."""

import pytest
import regex

from graphwalker.inference.engine import Sampling
from graphwalker.inference.evaluate import run_questions
from graphwalker.inference.load import load_engine, load_tokenizer
from graphwalker.inference.vllm_server import VLLMServerEngine
from graphwalker.protocol.guide import turn_regex
from tests.inference.real_vllm import serving, write_model

pytestmark = [pytest.mark.vllm, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(toy_tokenizer, tmp_path_factory):
    out = tmp_path_factory.mktemp("model")
    write_model(toy_tokenizer, out)
    return out


@pytest.fixture(scope="module", params=["in this process", "server"])
def engine(folder, request, tmp_path_factory):
    if request.param == "server":
        with serving(folder, tmp_path_factory.mktemp("serve") / "log") as server:
            yield VLLMServerEngine(server, load_tokenizer(str(folder)), capacity=4, max_length=4096)
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        yield load_engine(str(folder), backend="vllm", capacity=16, max_length=512, dtype="float32")


def _trajectories(engine, toy_tasks, toy_env, sampling, samples=1):
    questions = [question for question, _ in toy_tasks]
    done = run_questions(questions, toy_env, engine, sampling, samples=samples)
    return sorted(done, key=lambda t: (t.question.id, t.sample))


def test_greedy_episodes_are_those_of_transformers(folder, engine, toy_tasks, toy_env):
    sampling = Sampling(temperature=0, max_new_tokens=12)
    other = load_engine(str(folder), backend="transformers", capacity=4, max_length=512, dtype="float32")
    expected = _trajectories(other, toy_tasks, toy_env, sampling)
    assert _trajectories(engine, toy_tasks, toy_env, sampling) == expected
    assert expected[0].turns[0].text and len(expected[0].turns) > 1


def test_sampled_episodes_have_streams_of_their_own_and_repeat(engine, toy_tasks, toy_env):
    sampling = Sampling(temperature=1.0, top_k=50, top_p=0.95, max_new_tokens=12)
    first = _trajectories(engine, toy_tasks, toy_env, sampling, samples=2)
    assert first == _trajectories(engine, toy_tasks, toy_env, sampling, samples=2)
    assert len({t.turns[0].text for t in first}) == len(first)


def test_a_row_can_be_released_in_the_middle(engine):
    engine.add("a", [5, 6, 7], Sampling(max_new_tokens=50), seed=0)
    engine.add("b", [5, 6, 7], Sampling(max_new_tokens=3), seed=0)
    engine.release("a")
    finished = []
    while not finished:
        finished = engine.step()
    assert [done.key for done in finished] == ["b"] and len(finished[0].ids) == 3
    engine.release("b")
    assert not engine.rows


def test_more_prompts_than_are_read_at_a_time(engine):
    """A CPU's vLLM must not leave one half read, as it cannot go on from there with a seed."""
    for key in range(16):
        engine.add(key, [5, 6, 7] * 150 + [key], Sampling(temperature=1.0, max_new_tokens=2), seed=key)
    finished = []
    while len(finished) < 16:
        finished += engine.step()
    for done in finished:
        engine.release(done.key)


def test_guided_turns_keep_to_the_form(engine):
    """A random model writes what it must; a turn that was cut is the beginning of a well-formed one."""
    engine.guided, form = True, regex.compile(turn_regex())
    for seed in range(4):
        engine.add(seed, [5, 6, 7], Sampling(max_new_tokens=60), seed=seed)
    finished = []
    while len(finished) < 4:
        finished += engine.step()
    for done in finished:
        engine.release(done.key)
        text = engine.tokenizer.decode(done.ids[:-1] if done.stopped else done.ids, skip_special_tokens=False)
        assert form.fullmatch(text, partial=not done.stopped), text
    engine.guided = False
