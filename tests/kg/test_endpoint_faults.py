"""A server in trouble: every kind of failure is an outage in bounded time, never an empty answer, and blips pass."""

import contextlib
import dataclasses
import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from envs.kg_env import KGEnv
from graphwalker.errors import KGUnavailable
from graphwalker.files import write_json, write_jsonl
from graphwalker.inference.chat_tokens import ChatTokens
from graphwalker.inference.engine import Sampling
from graphwalker.inference.rollout import Start, run_episodes
from graphwalker.kg.build import build_from_triples
from graphwalker.kg.open import open_kg
from graphwalker.kg.sparql_text import LABEL
from graphwalker.metrics.aggregate import score_run
from graphwalker.protocol.prompts import Prompt
from graphwalker.protocol.render import NO_RELATIONS, NO_TRIPLES
from graphwalker.report.page import render_report
from graphwalker.tools.toolbox import Toolbox
from tests.local_server import LocalHandler, LocalServer

TIMEOUT = 0.5
PATIENT = 60.0  # on a machine that is busy with other things
FAULTS = {
    "hang": "timeout",
    "drip": "timeout",
    "anytime": "timeout",
    "500": "server",
    "reset": "reset",
    "short": "reset",
    "cut": "malformed",
    "blank": "malformed",
}


class Proxy(LocalServer):
    """Passes requests on to a server, or spoils the answer: `fault()` names how, "" for not at all."""

    def __init__(self, upstream: str):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream, self.fault, self.over = upstream, lambda: "", threading.Event()
        self.client = httpx.Client(timeout=30, limits=httpx.Limits(max_connections=8))
        self.url = f"http://127.0.0.1:{self.server_address[1]}/query"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def stop(self):
        self.over.set()
        self.shutdown()
        self.server_close()


class _Handler(LocalHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def do_GET(self):
        self._answer(self.server.client.get(self.server.upstream + "?" + self.path.partition("?")[2]))

    def do_POST(self):
        body = self.body()
        fault = self.server.fault()
        if fault == "hang":
            self.server.over.wait(20)
            self.close_connection = True
            return
        if fault == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        if fault == "500":
            self.reply(500, b"trouble")
            return
        try:
            keep = {k: self.headers[k] for k in ("Content-Type", "Accept")}
            answer = self.server.client.post(self.server.upstream, content=body, headers=keep)
        except httpx.HTTPError:
            self.reply(502, b"upstream is down")
            return
        self._answer(answer, fault)

    def _answer(self, answer, fault=""):
        body = answer.content
        if fault == "anytime":
            empty = body.partition(b"<result>")[0] + b"</results></sparql>"
            self.reply(200, empty, {"X-SQL-State": "S1TAT", "X-SQL-Message": "Returning incomplete results"})
        elif fault == "blank":
            self.reply(200, b"")
        elif fault == "cut":
            self.reply(200, body[: len(body) // 2])
        elif fault in ("drip", "short"):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            for byte in body[: len(body) // 2 if fault == "short" else None]:
                self.wfile.write(bytes([byte]))
                if fault == "drip" and self.server.over.wait(0.2):
                    break
            self.close_connection = True
        else:
            self.reply(answer.status_code, body)


@pytest.fixture(scope="module")
def server(sparql_server, toy_nt):
    return sparql_server("oxigraph", toy_nt)


@pytest.fixture(scope="module")
def proxied(server, tmp_path_factory):
    """The proxy and a function that opens the toy KG behind it, anew."""
    from graphwalker.kg.connect import connect_kg
    from graphwalker.kg.sparql_http import Endpoint

    proxy, number = Proxy(server.url), iter(range(1000))
    made = []

    def connect(**settings):
        proxy.fault = lambda: ""
        endpoint = Endpoint(proxy.url, **{"timeout": PATIENT, "attempts": 3, "give_up": 1000, **settings})
        folder = tmp_path_factory.mktemp("proxied") / f"kg{next(number)}"
        made.append(open_kg(connect_kg(endpoint, folder, "freebase", progress=False)))
        return made[-1]

    yield proxy, connect
    for store in made:
        store.close()
    proxy.stop()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_an_outage_and_never_an_empty_answer(proxied, fault):
    proxy, connect = proxied
    kind = FAULTS[fault]
    store = connect(attempts=2)
    if fault in ("hang", "drip"):
        store.client.endpoint = dataclasses.replace(store.endpoint, timeout=TIMEOUT)
    toolbox = Toolbox(store, strict=False)
    proxy.fault = lambda: fault
    begin = time.monotonic()
    with pytest.raises(KGUnavailable) as caught:
        store.steps("m.fr")
    assert time.monotonic() - begin < 0.5 * PATIENT
    assert caught.value.kind == kind and store.client.counts[kind] >= 1
    status = "kg_timeout" if kind == "timeout" else "kg_error"
    observation = toolbox.get_relations("France", "")
    assert observation.status == caught.value.status == status
    assert observation.outage == kind
    assert "no answer" in observation.text and NO_RELATIONS not in observation.text
    proxy.fault, store.client.endpoint = lambda: "", store.endpoint
    assert toolbox.get_relations("France", "").status == "ok"  # and it is not remembered


@pytest.mark.parametrize("fault", ["500", "reset", "short", "cut", "blank"])
def test_a_blip_passes_unseen(proxied, fault, toy_store):
    proxy, connect = proxied
    store = connect()
    faults = iter([fault, fault])
    proxy.fault = lambda: next(faults, "")
    assert store.steps("m.fr") == toy_store.steps("m.fr")
    assert store.client.counts["sent"] == 3


def test_a_server_that_is_down_fails_fast_and_is_tried_again(proxied):
    proxy, connect = proxied
    store = connect(attempts=1, give_up=2, cooldown=0.5)
    proxy.fault = lambda: "500"
    kinds = []
    for _ in range(4):
        with pytest.raises(KGUnavailable) as caught:
            store.steps("m.fr")
        kinds.append(caught.value.kind)
    assert kinds == ["server", "server", "down", "down"] and store.client.counts["sent"] == 2
    proxy.fault = lambda: ""
    time.sleep(0.6)
    assert store.steps("m.fr")


def outcome(trajectories):
    """Endings and statuses; no outage was shown as an empty answer: every query of these episodes finds something."""
    for trajectory in trajectories:
        for turn in trajectory.turns:
            assert turn.status in ("ok", "kg_timeout", "kg_error"), turn
            assert NO_TRIPLES not in turn.observation and NO_RELATIONS not in turn.observation
        outage = trajectory.turns[-1].status != "ok"
        assert trajectory.ending == ("outage" if outage else "answered")
        assert outage or trajectory.answer == (trajectory.question.answers[0].name,)
    return Counter(trajectory.ending for trajectory in trajectories)


def tasks_of(toy_tasks, count):
    return [toy_tasks[i % len(toy_tasks)] for i in range(count)]


def play(store, tasks, threads):
    """Episodes at once, each stepping through its task; no cache stands between them and the server."""

    def episode(task):
        question, texts = task
        env = KGEnv(Toolbox(store, cache_size=0), prompt=Prompt("compact"))
        env.reset(options={"question": question})
        for text in texts:
            if env.over:
                break
            env.step(text)
        return env.trajectory()

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(episode, tasks))


def uncached(store):
    """Every query goes to the server."""
    store._answers.get = lambda query, fetch: fetch()
    return store


def test_episodes_under_all_faults_at_once_and_the_report_counts_each_kind(proxied, toy_tasks, tmp_path):
    proxy, connect = proxied
    store = uncached(connect(attempts=2, connections=16))
    draw = random.Random(0)
    faults = [fault for fault in FAULTS if fault not in ("hang", "drip")]  # they take as long as the time limit
    proxy.fault = lambda: draw.choice(faults) if draw.random() < 0.5 else ""
    episodes = play(store, tasks_of(toy_tasks, 24), 12)
    ended = outcome(episodes)
    assert ended["answered"] + ended["outage"] == 24 and ended["answered"] and ended["outage"], ended
    kinds = Counter(episode.extra["outage"] for episode in episodes if episode.ending == "outage")
    assert kinds.keys() <= {FAULTS[fault] for fault in faults} | {"down"} and sum(kinds.values()) == ended["outage"]
    write_jsonl(tmp_path / "trajectories.jsonl", episodes)
    write_json(tmp_path / "metrics.json", score_run(episodes))
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    assert f"{ended['outage']} episodes that a KG outage ended ({counted})" in render_report(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["oxigraph", pytest.param("virtuoso", marks=pytest.mark.virtuoso)])
def test_the_server_is_killed_and_started_again_under_200_episodes(
    sparql_server, toy_nt, toy_tasks, toy_tokenizer, scripted_engine, kind
):
    server = sparql_server(kind, toy_nt, own=True)
    from graphwalker.kg.connect import connect_kg
    from graphwalker.kg.sparql_http import Endpoint

    endpoint = Endpoint(server.url, server.graph, timeout=20, attempts=4, give_up=20, cooldown=1)
    folder = toy_nt.parent / f"killed-{kind}"
    store = uncached(open_kg(connect_kg(endpoint, folder, "freebase", progress=False)))
    tasks = tasks_of(toy_tasks, 200)
    chat, starts = ChatTokens(toy_tokenizer), []
    for key, (question, _) in enumerate(tasks):
        env = KGEnv(Toolbox(store, cache_size=0), prompt=Prompt("compact"))
        env.reset(options={"question": question})
        starts.append(Start(key, env, chat.prompt(Prompt("compact").messages(question))))
    engine = scripted_engine(toy_tokenizer, lambda key: tasks[key][1], capacity=64)
    done = {}
    for rollout in run_episodes(starts, engine, Sampling(max_new_tokens=64), network_delay=64):
        done[rollout.key] = rollout.trajectory()
        if len(done) == 50:
            server.kill()
        if len(done) == 120:
            server.start()
    assert sorted(done) == list(range(200))
    ended = outcome(done.values())
    assert ended["answered"] >= 50 and ended["outage"] >= 1 and sum(ended.values()) == 200, ended
    with contextlib.suppress(KGUnavailable):  # its breaker may still be open
        assert store.steps("m.fr")
    store.close()


class _Rows(LocalHandler):
    """Gives the server's one row for whatever is asked."""

    def do_POST(self):
        self.body()
        body = json.dumps({"head": {"vars": ["k"]}, "results": {"bindings": [self.server.row]}}).encode()
        self.reply(200, body)


@pytest.mark.parametrize("label", ["77", "-1", "5", "x", None])
def test_rows_that_were_not_asked_for_are_an_outage(tmp_path, label):
    triples = [("m.a", "a.b.c", "m.b"), ("m.a", "type.object.name", '"Ann"@en'), ("m.b", "type.object.name", '"B"@en')]
    folder = build_from_triples(triples, tmp_path / "kg", store="oxigraph")
    server = LocalServer(("127.0.0.1", 0), _Rows)
    server.row = {key: {"type": "uri", "value": f"http://e/{key}"} for key in "pqxe"}
    server.row["n"] = {"type": "literal", "value": "1"}
    if label:
        server.row["k"] = {"type": "uri", "value": LABEL + label}
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    meta = json.loads((folder / "meta.json").read_text("utf-8"))
    url = f"http://127.0.0.1:{server.server_port}/"
    write_json(folder / "meta.json", {**meta, "store": "endpoint", "endpoint": {"url": url, "attempts": 1}})
    store = open_kg(folder)
    try:
        for call in ('get_relations("Ann")', 'get_triples("Ann", ["a.b.c"])'):
            assert Toolbox(store, strict=False).session("").run(call).status == "kg_error"
    finally:
        store.close()
        server.shutdown()
        server.server_close()
