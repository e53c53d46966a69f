"""Recorded dialogues made again on the toy KG."""

import json

import pytest

from data_pipelines import replay
from graphwalker.cli import main
from graphwalker.kg.guard import guard
from graphwalker.protocol.interactive import Call, parse_call, parse_turn
from graphwalker.tools.kbqa.patterns import readable

CONTAINS = 'SELECT DISTINCT ?x WHERE { ?e ns:type.object.name "France"@en . ?e ns:location.location.contains ?x }'
FRANCE = 'SELECT ?e WHERE { ?e ns:type.object.name "France"@en }'
TURNS = [
    ('SearchNodes("France")', "['\"France\" | Description: A country in Europe.']", replay.SAME),
    ('SearchNodes("Germany")', "['\"Germany\" | No description.']", replay.UNNAMED),
    (
        f"SearchGraphPatterns('{FRANCE}', semantic=\"capital\")",
        '[(?e, location.country.capital, "Paris"), (?e, location.country.anthem, "Marseillaise"), '
        '("Ann Lee", people.person.place_of_birth, ?e)]',
        replay.LACKING,
    ),
    (f"ExecuteSPARQL('{CONTAINS}')", "['Paris', 'Lyon']", replay.SAME),
    (f"ExecuteSPARQL('{CONTAINS}')", "['Paris', 'Lyon', 'Lille']", replay.LESS),
    (f"ExecuteSPARQL('{CONTAINS}')", "['Paris']", replay.MORE),
    (f"ExecuteSPARQL('{CONTAINS}')", "['Rome']", replay.OTHER),
    (f"ExecuteSPARQL('{CONTAINS}')", "Error: timed out query.", replay.TIMED_OUT),
    (f"ExecuteSPARQL('{CONTAINS}')')", "Error: Action parsing error.", replay.REJECTED),
    ("ExecuteSPARQL('SELECT ?x { ?x ns:no.such ?y }')", "[]", replay.NOTHING),
    ("ExecuteSPARQL('SELECT ?x { ?x ns:no.such ?y }')", "['Rome']", replay.NONE),
    ("ExecuteSPARQL('INSERT DATA { ns:a ns:b ns:c }')", "[]", replay.NOT_RUN + "refused"),
    ("I do not know", "Error: No valid action found.", replay.UNREADABLE),
    (f"ExecuteSPARQL('{CONTAINS}')", "['Paris', 'Lyon']", replay.SAME),
]


@pytest.fixture
def dialogues(tmp_path):
    messages = [{"role": "user", "content": "Q: Where?"}]
    for action, observation, _ in TURNS:
        messages.append({"role": "assistant", "content": f"Thought: So.\nAction: {action}"})
        messages.append({"role": "user", "content": f"Observation: {observation}"})
    messages.append({"role": "assistant", "content": "Thought: So.\nAction: Done"})
    path = tmp_path / "dialogues.json"
    path.write_text(json.dumps([{"qid": "d1", "messages": messages}]), "utf-8")
    return path


def test_every_difference_has_its_reason(dialogues, toy_kbqa_toolbox):
    (dialogue,) = replay.replay(replay.read_dialogues(dialogues), toy_kbqa_toolbox)
    assert [call.outcome for call in dialogue.calls] == [outcome for *_, outcome in TURNS]
    assert dialogue.fits
    patterns = dialogue.calls[2]
    assert (patterns.recorded, patterns.shown, patterns.lower, patterns.elsewhere) == (3, 1, 0, 1)


def test_the_command(dialogues, toy_sparql_kg, toy_kg, tmp_path, capsys):
    out = tmp_path / "calls.jsonl"
    assert main(["data", "replay", str(dialogues), "--kg", str(toy_sparql_kg), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("1 dialogues, 1 of them fit this KG; 14 calls\n")
    assert "patterns recorded in all: 3, of these 1 shown here, 0 ranked lower, 1 only at other entities, 1 of" in said
    assert len(out.read_text("utf-8").splitlines()) == len(TURNS)
    assert main(["data", "replay", str(dialogues), "--kg", str(toy_kg)]) == 2
    assert "--store oxigraph" in capsys.readouterr().err


def test_the_published_dialogues_parse_and_their_queries_pass_the_guard(data_dir):
    folder = data_dir / "samples" / "interactive_kbqa"
    sources = [folder / "dialogues" / "cwq_gpt4o_60.json", *sorted((folder / "fewshot").iterdir())]
    unread, queries = [], 0
    for source in sources:
        for trajectory in replay.read_dialogues(source):
            for turn in trajectory.turns:
                parsed = parse_turn(turn.text)
                if parsed.kind == "none":
                    unread.append(turn.text)
                elif parsed.kind == "query":
                    call = parse_call(parsed.action)
                    assert isinstance(call, Call), turn.text
                    if sparql := call.arguments.get("sparql"):
                        guard("BASE <http://kqapro.example/> " + readable(sparql))
                        queries += 1
    assert queries == 319
    assert len(unread) == 6 and not any("Action:" in text for text in unread)
