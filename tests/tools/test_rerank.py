"""Reranking by a scripted server on loopback."""

import json
import logging
import threading
import time

import pytest

from envs.factory import EnvConfig, env_factory
from graphwalker.errors import KGUnavailable, UserError
from graphwalker.tools.rerank import LLMReranker
from graphwalker.tools.toolbox import Toolbox
from tests.local_server import LocalHandler, LocalServer

RELATIONS = [f"place.thing.rel_{i}" for i in range(1, 8)]


class Server:
    """Answers with what its script holds, one entry a request and the last one ever after: a reply's text, a status, a
    pair (status, raw body) or a number of seconds to wait."""

    def __init__(self):
        self.script: list = ["[1]"]
        self.requests: list[dict] = []
        self.headers: list[dict] = []
        server = self

        class Handler(LocalHandler):
            def do_POST(self):
                server.headers.append({"path": self.path, **self.headers})
                server.requests.append(json.loads(self.body()))
                entry = server.script.pop(0) if len(server.script) > 1 else server.script[0]
                if isinstance(entry, float):
                    time.sleep(entry)
                    entry = "[1]"
                if isinstance(entry, str):
                    entry = 200, json.dumps({"choices": [{"message": {"role": "assistant", "content": entry}}]})
                status, body = entry if isinstance(entry, tuple) else (entry, "no")
                self.reply(status, body)

        self._http = LocalServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


def reranker(server, **options):
    return LLMReranker(server.url, "small", **{"wait": 0.0, "timeout": 20.0, **options})


@pytest.mark.parametrize(
    ("reply", "first"),
    [
        ("[3, 1]", [3, 1]),
        ("<think>maybe [1]?</think>\n```json\n[ 7,2 ,7 ]\n```", [7, 2]),
        ("[1, 2, 3, 4, 5, 6, 7]", [1, 2, 3]),  # more than were asked for
        ("[7, 6, 5, 4]", [7, 6, 5]),
    ],
)
def test_what_the_model_chose_comes_first_and_nothing_is_lost(server, reply, first):
    server.script = [reply]
    rank = reranker(server, keep=3)
    ordered = rank("where?", RELATIONS)
    chosen = [RELATIONS[i - 1] for i in first]
    assert ordered == chosen + [r for r in RELATIONS if r not in chosen]
    assert rank.counts == {"calls": 1}
    (request,) = server.requests
    assert request["model"] == "small" and request["temperature"] == 0
    message = request["messages"][0]["content"]
    assert "Question: where?" in message and "7. place.thing.rel_7" in message and "3 most useful" in message
    assert server.headers[0]["path"] == "/v1/chat/completions"


@pytest.mark.parametrize(
    "reply", ["", "the first one", "[]", "[0]", "[8, 1]", "[1, 99999999999]", '["rel_1"]', "[1.5]"]
)
def test_a_malformed_reply_leaves_the_order_and_is_counted(server, reply, caplog):
    server.script = [reply]
    rank = reranker(server)
    with caplog.at_level(logging.WARNING):
        assert rank("where?", RELATIONS) == rank("who?", RELATIONS) == RELATIONS
    assert rank.counts == {"calls": 2, "malformed": 2}
    assert len(caplog.records) == 1


def test_replies_are_kept_on_disk(server, tmp_path):
    file = tmp_path / "cache" / "replies.sqlite"
    server.script = ["[2]", "nonsense", "[3]"]
    first = reranker(server, cache=file)
    before = [first("where?", RELATIONS), first("who?", RELATIONS)]
    again = reranker(server, cache=file)
    assert [again("where?", RELATIONS), again("who?", RELATIONS)] == before
    assert again.counts == {"calls": 2, "cached": 2, "malformed": 1} and len(server.requests) == 2
    again("where?", RELATIONS[:3])  # another list is another question
    assert len(server.requests) == 3
    (tmp_path / "broken").write_text("not a database, but longer than nothing")
    with pytest.raises(UserError, match="cannot be used as the reranker's cache"):
        reranker(server, cache=tmp_path / "broken")


def test_only_the_best_candidates_are_shown_and_one_relation_needs_no_model(server):
    server.script = ["[2]"]
    rank = reranker(server, candidates=2)
    assert rank("q", RELATIONS)[:2] == [RELATIONS[1], RELATIONS[0]]
    assert "rel_3" not in server.requests[0]["messages"][0]["content"]
    assert rank("q", RELATIONS[:1]) == RELATIONS[:1] and rank("q", []) == []
    assert len(server.requests) == 1


def test_a_server_that_recovers_is_asked_again_and_one_that_does_not_is_an_outage(server):
    server.script = [503, (200, "{}"), "[2]"]
    rank = reranker(server)
    assert rank("q", RELATIONS)[0] == RELATIONS[1] and rank.counts["retried"] == 2
    server.script = [500]
    with pytest.raises(KGUnavailable, match="HTTP 500") as caught:
        rank("q", RELATIONS)
    assert caught.value.status == "kg_error"
    server.script = [2.0]
    with pytest.raises(KGUnavailable, match="no answer within 0.2 s") as caught:
        reranker(server, timeout=0.2, tries=1)("q", RELATIONS)
    assert caught.value.status == "kg_timeout"
    with pytest.raises(KGUnavailable):
        LLMReranker("http://127.0.0.1:1/v1", "small", tries=1)("q", RELATIONS)


def test_a_refusal_stops_the_run_with_what_the_server_said(server):
    server.script = [(404, "model small\ndoes not exist")]
    with pytest.raises(UserError, match="refuses the request .HTTP 404: model small does not exist"):
        reranker(server)("q", RELATIONS)
    assert len(server.requests) == 1


def test_settings_are_checked_and_the_key_comes_from_the_environment(server, monkeypatch):
    with pytest.raises(UserError, match="not an http"):
        LLMReranker("localhost:8000", "small")
    with pytest.raises(UserError, match="name the model"):
        LLMReranker("http://localhost:8000/v1", "")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    reranker(server)("q", RELATIONS)
    assert server.headers[0]["Authorization"] == "Bearer k"


def test_the_environment_shows_reranked_relations(server, toy_kg, toy_store, tmp_path):
    plain = Toolbox(toy_store).get_relations("France", "capital").relations
    server.script = [f"[{len(plain)}]"]
    config = EnvConfig(str(toy_kg), rerank_url=server.url, rerank_model="small", rerank_cache=str(tmp_path / "c"))
    toolbox = env_factory(config)().toolbox
    shown = toolbox.get_relations("France", "capital").relations
    assert shown == (plain[-1], *plain[:-1])
    config.relations_shown = 1
    assert env_factory(config)().toolbox.get_relations("France", "capital").relations == (plain[-1],)
    server.script = [500]
    toolbox.get_relations("Lyon", "capital")  # one relation: no model is needed
    broken = LLMReranker(server.url, "small", tries=1)
    assert Toolbox(toy_store, reranker=broken).get_relations("France", "x").status == "kg_error"


def test_protocol_text_in_a_question_stays_text(server):
    rank = reranker(server)
    rank("</information> what?", ["a.<answer>", "b"])
    assert "</information>" not in server.requests[0]["messages"][0]["content"]


@pytest.mark.parametrize("body", ["[" * 100_000, '{"choices": ' + "9" * 9000 + "}", "NaN"])
def test_json_that_breaks_readers_is_no_answer(server, tmp_path, body):
    server.script = [(200, body)]
    with pytest.raises(KGUnavailable, match="does not answer"):
        reranker(server, tries=2, cache=tmp_path / "cache.sqlite")("where?", RELATIONS)


def test_half_a_letter_is_a_reply_without_a_list(server, tmp_path):
    server.script = [(200, '{"choices": [{"message": {"content": "\\ud800"}}]}')]
    rank = reranker(server, cache=tmp_path / "cache.sqlite")
    assert rank("where?", RELATIONS) == list(RELATIONS) and rank.counts["malformed"] == 1


def test_an_answer_that_drips_or_never_ends_is_given_up(server, monkeypatch):
    monkeypatch.setattr("graphwalker.tools.chat_server._MAX_BYTES", 1000)
    server.script = ["[1]" * 1000]
    with pytest.raises(KGUnavailable, match="for one answer"):
        reranker(server, tries=1)("where?", RELATIONS)
    server.script = ["[1]"]
    clock = iter(range(0, 10_000, 100))
    monkeypatch.setattr("graphwalker.tools.chat_server.time.monotonic", lambda: next(clock))
    with pytest.raises(KGUnavailable, match="no answer within") as caught:
        reranker(server, tries=1)("where?", RELATIONS)
    assert caught.value.status == "kg_timeout"


@pytest.mark.parametrize("url", ["http://me:secret@h/v1", "ftp://me:secret@h", "localhost:8000/v1", ""])
def test_an_address_is_checked_and_no_password_said(url):
    with pytest.raises(UserError) as caught:
        LLMReranker(url, "small")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["secr\u00e9t", "secret\nx"])
def test_a_key_that_no_header_can_hold_is_not_said(monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(UserError, match="OPENAI_API_KEY") as caught:
        LLMReranker("http://h/v1", "small")
    assert key not in str(caught.value)
