"""Annotation through a scripted server: what is accepted, why the rest is not, and the files for review."""

import json
import threading
from collections.abc import Callable

import pytest

from graphwalker.cli import main
from graphwalker.files import read_jsonl, write_jsonl
from graphwalker.protocol.interactive import format_call, render_turn
from graphwalker.types import Entity, Question, Trajectory
from tests.local_server import LocalHandler, LocalServer

NAMED = '?e ns:type.object.name "{}"@en .'
QUERY = 'SELECT ?x WHERE {{ ?e ns:type.object.name "{}"@en . ?e ns:{} ?x . }}'


def turns(name: str, relation: str) -> list[str]:
    """The turns that ask for one relation of an entity."""
    return [
        render_turn("Find it.", format_call("SearchNodes", name)),
        render_turn("Look.", format_call("SearchGraphPatterns", f"SELECT ?e WHERE {{ {NAMED.format(name)} }}", "x")),
        render_turn("Ask.", format_call("ExecuteSPARQL", QUERY.format(name, relation))),
        render_turn("Done.", "Done"),
    ]


CAPITAL = turns("France", "location.country.capital")
SCRIPTS = {
    "What is the capital of France?": CAPITAL,
    "What is its capital, France's?": [CAPITAL[0], "Hm.", *CAPITAL[1:]],  # asked again for the second
    "What has France?": turns("France", "location.location.contains"),  # gold is one of two
    "Capital of France, at once?": CAPITAL[2:],  # the relation was never shown
    "France and no result?": [CAPITAL[3]],
    "France and no end?": CAPITAL[:1] * 20,
    "France and no call?": ["I wonder."] * 20,
    "France by detour?": [render_turn("Try.", format_call("ExecuteSPARQL", "SELECT")), *CAPITAL],
}


@pytest.fixture
def server():
    """An OpenAI-compatible server that plays each question's script; ``requests`` holds what it was sent."""
    requests: list[dict] = []
    said: dict[str, int] = {}

    class Handler(LocalHandler):
        def do_POST(self):
            body = json.loads(self.body())
            requests.append(body)
            asked = [m["content"].rpartition("Q: ")[2] for m in body["messages"] if "Q: " in m["content"]][-1]
            said[asked] = said.get(asked, -1) + 1
            reply = SCRIPTS[asked][said[asked]] + "\nObservation: made up"
            data = json.dumps({"choices": [{"message": {"role": "assistant", "content": reply}}]}).encode()
            self.reply(200, data)

    http = LocalServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{http.server_port}/v1", requests
    http.shutdown()
    http.server_close()


@pytest.fixture
def annotate(server, toy_sparql_kg, tmp_path) -> Callable:
    url, _ = server
    write_jsonl(tmp_path / "questions.jsonl", [Question(t, t, answers=(Entity("Paris"),)) for t in SCRIPTS])

    def run(*options) -> int:
        files = [tmp_path / "questions.jsonl", tmp_path / "out.jsonl", "--kg", toy_sparql_kg]
        asked = ["--url", url, "--model", "m", "--cache", tmp_path / "cache.sqlite", "--max-turns", 6]
        return main(["data", "annotate", *map(str, [*files, *asked, *options])])

    return run


def test_what_is_accepted_and_why_the_rest_is_not(annotate, server, tmp_path, capsys):
    assert annotate() == 0
    kept = list(read_jsonl(tmp_path / "out.jsonl", Trajectory))
    assert [t.question.text for t in kept] == [list(SCRIPTS)[i] for i in (0, 1, 7)]
    assert all(t.answer == ("Paris",) and t.extra["model"] == "m" for t in kept)
    assert [t.extra["detours"] for t in kept] == [[], [], [0]] and kept[2].turns[0].status == "bad_query"
    assert not any("made up" in turn.text for t in kept for turn in t.turns)
    counts = json.loads((tmp_path / "out.counts.json").read_text("utf-8"))
    assert counts["dropped"] == {
        "its result is not the question's gold": 1,
        "a step rests on nothing that was known": 1,
        "no query found anything": 1,
        "the model did not say Done": 1,
        "the model wrote no call": 1,
    }
    assert counts["malformed"] == 1 + 3 and counts["kept"] == 3
    records = [json.loads(line) for line in (tmp_path / "out.review.jsonl").read_text("utf-8").splitlines()]
    assert len(records) == len(SCRIPTS) and [r["accepted"] for r in records].count(True) == 3
    assert records[3]["detail"] == "turn 1 uses 'location.country.capital'"
    text = (tmp_path / "out.review.txt").read_text("utf-8")
    assert "NOT ACCEPTED: a step rests on nothing that was known turn 1 uses" in text and "gold: ['Paris']" in text
    assert "out.review.txt" in capsys.readouterr().out


def test_again_it_asks_nobody_and_examples_come_first(annotate, server, tmp_path):
    _, requests = server
    annotate()
    first, asked = (tmp_path / "out.jsonl").read_bytes(), len(requests)
    assert annotate() == 0 and (tmp_path / "out.jsonl").read_bytes() == first
    assert len(requests) == asked  # all replies were kept
    (tmp_path / "out.jsonl").rename(tmp_path / "examples.jsonl")
    annotate("--examples", tmp_path / "examples.jsonl", "--shots", "1")
    messages = requests[asked]["messages"]
    assert messages[0]["content"].endswith("Q: What is the capital of France?")
    assert [m["role"] for m in messages[:9]] == ["user", "assistant"] * 4 + ["user"]
    assert messages[1]["content"] == CAPITAL[0] and messages[2]["content"].startswith('Observation: [\'"France" |')
    retried = [r for r in requests[:asked] if r["temperature"] > 0]
    assert len(retried) == 3 and {r["seed"] for r in retried} == {1, 2}


def test_examples_of_another_protocol_are_refused(annotate, tmp_path, toy_trajectories, capsys):
    write_jsonl(tmp_path / "examples.jsonl", toy_trajectories)
    assert annotate("--examples", tmp_path / "examples.jsonl") == 2
    assert "not trajectories of the interactive protocol" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()
