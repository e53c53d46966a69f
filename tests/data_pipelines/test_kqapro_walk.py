"""KQA Pro's gold queries walked through the tools: a made-up knowledge base, a query of each kind of its programs."""

import json

import pytest

from data_pipelines.actor import actor_trajectories
from data_pipelines.importers import kgs
from data_pipelines.importers.counts import Counts
from data_pipelines.support import unsupported
from envs.kbqa_env import KBQAEnv
from graphwalker.cli import main
from graphwalker.files import read_jsonl, write_jsonl
from graphwalker.kg.open import open_kg
from graphwalker.protocol.interactive import EXECUTE, SEARCH_NODES, SEARCH_PATTERNS, parse_call
from graphwalker.tools.kbqa.toolbox import KBQAToolbox
from graphwalker.types import Entity, Question, Trajectory


def quantity(value, unit="1"):
    return {"type": "quantity", "value": value, "unit": unit}


def entity(name, concept, attributes=(), relations=()):
    """Attributes are (key, value, qualifiers), relations (name, end, qualifiers)."""
    keyed = [{"key": key, "value": value, "qualifiers": more} for key, value, more in attributes]
    edges = [
        {"predicate": name, "object": end, "direction": "forward", "qualifiers": more} for name, end, more in relations
    ]
    return {"name": name, "instanceOf": [concept], "attributes": keyed, "relations": edges}


SINCE = {"start time": [{"type": "year", "value": 1975}]}
WHEN = {"point in time": [{"type": "date", "value": "2001-05-06"}]}
KB = {
    "concepts": {"Q1": {"name": "river"}, "Q2": {"name": "harbour town"}, "Q3": {"name": "sculptor"}},
    "entities": {
        "Q10": entity("Morrel", "Q1", [("length", quantity(120.0, "kilometre"), {})], [("mouth", "Q20", {})]),
        "Q11": entity("Senna", "Q1", [("length", quantity(80.0, "kilometre"), {})], [("mouth", "Q21", {})]),
        "Q20": entity(
            "Port Avel",
            "Q2",
            [
                ("population", quantity(5200), WHEN),
                ("inception", {"type": "year", "value": 1480}, {}),
                ("postal code", {"type": "string", "value": "AV-17"}, {}),
            ],
            [("twin town", "Q21", SINCE)],
        ),
        "Q21": entity(
            "Kellin",
            "Q2",
            [("population", quantity(900), {}), ("inception", {"type": "year", "value": 1612}, {})],
        ),
        "Q30": entity(
            "Dora Imre",
            "Q3",
            [("date of birth", {"type": "date", "value": "1951-11-02"}, {})],
            [("place of birth", "Q20", {}), ("residence", "Q21", {})],
        ),
        "Q31": entity(
            "Tom Arlet",
            "Q3",
            [("date of birth", {"type": "date", "value": "1949-04-30"}, {})],
            [("place of birth", "Q21", {})],
        ),
    },
}
KM = '"kilometre"'
CASES = {
    "one relation": (
        "Where does the Morrel have its mouth?",
        'SELECT DISTINCT ?e WHERE { ?e_1 <pred:name> "Morrel" . ?e_1 <mouth> ?e . }',
        "Port Avel",
    ),
    "a relation walked back": (
        "What sculptor has Kellin as place of birth?",
        'SELECT DISTINCT ?e WHERE { ?e <pred:instance_of> ?c . ?c <pred:name> "sculptor" . ?e <place_of_birth> ?e_1 . '
        '?e_1 <pred:name> "Kellin" . }',
        "Tom Arlet",
    ),
    "two relations": (
        "Where does the river end whose mouth is the place of birth of Dora Imre?",
        'SELECT DISTINCT ?e WHERE { ?e <pred:instance_of> ?c . ?c <pred:name> "river" . ?e <mouth> ?e_1 . '
        '?e_2 <place_of_birth> ?e_1 . ?e_2 <pred:name> "Dora Imre" . }',
        "Morrel",
    ),
    "an attribute": (
        "What is the length of the Senna?",
        'SELECT DISTINCT ?pv WHERE { ?e <pred:name> "Senna" . ?e <length> ?pv . }',
        "80 kilometre",
    ),
    "a text": (
        "Which harbour town has the postal code AV-17?",
        'SELECT DISTINCT ?e WHERE { ?e <pred:instance_of> ?c . ?c <pred:name> "harbour town" . ?e <postal_code> ?pv . '
        '?pv <pred:value> "AV-17" . }',
        "Port Avel",
    ),
    "a number with its unit": (
        "How many rivers have a length greater than 100 kilometre?",
        'SELECT (COUNT(DISTINCT ?e) AS ?count) WHERE { ?e <pred:instance_of> ?c . ?c <pred:name> "river" . '
        f'?e <length> ?pv . ?pv <pred:unit> {KM} . ?pv <pred:value> ?v . FILTER ( ?v > "100"^^xsd:double ) . }}',
        "1",
    ),
    "a year": (
        "Which harbour town had its inception in 1612?",
        'SELECT DISTINCT ?e WHERE { ?e <pred:instance_of> ?c . ?c <pred:name> "harbour town" . ?e <inception> ?pv . '
        "?pv <pred:year> 1612 . }",
        "Kellin",
    ),
    "a date": (
        "Was the date of birth of Dora Imre before 1950-01-01?",
        'ASK { ?e <pred:name> "Dora Imre" . ?e <date_of_birth> ?pv . ?pv <pred:date> ?v . '
        'FILTER ( ?v < "1950-01-01"^^xsd:date ) . }',
        "no",
    ),
    "what qualifies an attribute": (
        "At what point in time was the population of Port Avel 5200?",
        'SELECT DISTINCT ?qpv WHERE { ?e <pred:name> "Port Avel" . ?e <population> ?pv . ?pv <pred:unit> "1" . '
        '?pv <pred:value> "5200"^^xsd:double . [ <pred:fact_h> ?e ; <pred:fact_r> <population> ; <pred:fact_t> ?pv ] '
        "<point_in_time> ?qpv . }",
        "2001-05-06",
    ),
    "what qualifies a relation": (
        "Which harbour town became twin town of Kellin in 1975?",
        'SELECT DISTINCT ?e WHERE { ?e <pred:instance_of> ?c . ?c <pred:name> "harbour town" . ?e <twin_town> ?e_1 . '
        '?e_1 <pred:name> "Kellin" . [ <pred:fact_h> ?e ; <pred:fact_r> <twin_town> ; <pred:fact_t> ?e_1 ] '
        "<start_time> ?qpv . ?qpv <pred:year> 1975 . }",
        "Port Avel",
    ),
    "the largest": (
        "Which harbour town has the largest population?",
        'SELECT ?e WHERE { ?e <pred:instance_of> ?c . ?c <pred:name> "harbour town" . ?e <population> ?pv . '
        "?pv <pred:value> ?v . } ORDER BY DESC(?v) LIMIT 1",
        "Port Avel",
    ),
    "the larger of two": (
        "Which is longer in length, the Senna or the Morrel?",
        'SELECT ?e WHERE { { ?e <pred:name> "Senna" . } UNION { ?e <pred:name> "Morrel" . } ?e <length> ?pv . '
        "?pv <pred:value> ?v . } ORDER BY DESC(?v) LIMIT 1",
        "Morrel",
    ),
    "a union": (
        "How many harbour towns have the postal code AV-17 or an inception other than 1480?",
        'SELECT (COUNT(DISTINCT ?e) AS ?count) WHERE { ?e <pred:instance_of> ?c . ?c <pred:name> "harbour town" . '
        '{ ?e <postal_code> ?pv . ?pv <pred:value> "AV-17" . } UNION '
        "{ ?e <inception> ?pv . ?pv <pred:year> ?v . FILTER ( ?v != 1480 ) . } }",
        "2",
    ),
    "which relation": (
        "What is the relation between Dora Imre and Kellin?",
        'SELECT DISTINCT ?p WHERE { ?e_1 <pred:name> "Dora Imre" . ?e_2 <pred:name> "Kellin" . ?e_1 ?p ?e_2 . }',
        "residence",
    ),
    "nothing named": (
        "What has the postal code AV-17?",
        'SELECT DISTINCT ?e WHERE { ?e <postal_code> ?pv . ?pv <pred:value> "AV-17" . }',
        "Port Avel",
    ),
}


def ask(name: str, **changed) -> Question:
    text, sparql, answer = CASES[name]
    fields = {"text": text, "sparql": sparql, "answers": (Entity(answer),), "dataset": "kqapro", **changed}
    return Question(id=name, topic_entities=(), **fields)


@pytest.fixture(scope="module")
def kg(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kqapro")
    (folder / "kb.json").write_text(json.dumps(KB), "utf-8")
    kgs.build("kqapro", folder / "kb.json", folder / "kg", store="oxigraph", progress=False)
    return folder / "kg"


@pytest.fixture(scope="module")
def walked(kg):
    toolbox = KBQAToolbox(open_kg(kg), kg, "kqapro")

    def walk(question: Question) -> tuple[list[Trajectory], Counts]:
        counts = Counts()
        return list(actor_trajectories([question], KBQAEnv(toolbox), counts=counts)), counts

    walk.toolbox = toolbox
    return walk


def calls(trajectory):
    return [parse_call(turn.action) for turn in trajectory.turns if turn.kind == "query"]


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_program_comes_to_its_gold(walked, name):
    (found,), counts = walked(ask(name))
    assert counts.kept == 1 and found.ending == "answered" and found.answer == (CASES[name][2],)
    assert all(turn.status == "ok" for turn in found.turns) and found.extra["executable"]
    schema, prompt = walked.toolbox.store.schema, KBQAEnv(walked.toolbox).prompt.text(found.question)
    assert unsupported(found, schema, prompt=prompt, strict=True) == ""
    assert calls(found)[-1].tool == EXECUTE


def test_the_steps_of_a_qualified_relation(walked):
    (found,), _ = walked(ask("what qualifies a relation"))
    town, around, kellin, qualifiers, query = calls(found)
    assert (town.tool, town.arguments["name"]) == (SEARCH_NODES, "harbour town")
    member = '<pred:instance_of> ?c . ?c <pred:name> "harbour town" .'
    assert around.arguments["sparql"] == f"SELECT ?e WHERE {{ ?e {member} }}"
    assert kellin.arguments["name"] == "Kellin"
    assert qualifiers.arguments["sparql"] == (
        f"SELECT DISTINCT ?p (SAMPLE(?x) AS ?sample) WHERE {{ ?e {member} ?e <twin_town> ?e_1 . "
        '?e_1 <pred:name> "Kellin" . [ <pred:fact_h> ?e ; <pred:fact_r> <twin_town> ; <pred:fact_t> ?e_1 ] ?p ?x . }'
    )
    assert query.arguments["sparql"].startswith(f"SELECT DISTINCT ?e WHERE {{ ?e {member} ?e <twin_town> ?e_1 .")
    assert "<start_time> is the qualifier I want." in found.turns[4].thought


def test_of_a_union_the_branch_that_names_is_searched(walked):
    (found,), _ = walked(ask("the larger of two"))
    searched = [call.arguments["sparql"] for call in calls(found) if call.tool == SEARCH_PATTERNS]
    assert searched == ['SELECT ?e WHERE { ?e <pred:name> "Senna" . }']


@pytest.mark.parametrize(
    ("name", "changed", "why"),
    [
        ("one relation", {"text": "Where does it end?"}, "an entity or a concept of its query is not named"),
        ("one relation", {"sparql": None}, "it has no SPARQL"),
        ("one relation", {"sparql": "SELECT"}, "its SPARQL cannot be read"),
        ("a year", {"text": "Which harbour town is younger?"}, "a value of its query is neither in the question"),
        ("one relation", {"answers": (Entity("Kellin"),)}, "its query gives another answer than its gold here"),
        (
            "one relation",
            {"sparql": 'SELECT ?e WHERE { ?e_1 <pred:name> "Morrel" . ?e_1 <source> ?e . }'},
            "SearchGraphPatterns does not show a relation",
        ),
        (
            "one relation",
            {"sparql": 'SELECT ?e WHERE { ?e_1 <pred:name> "Morrell" . ?e_1 <mouth> ?e . }'},
            "SearchNodes does not show an entity",
        ),
        (
            "what qualifies a relation",
            {"sparql": CASES["what qualifies a relation"][1].replace("<start_time>", "<end_time>")},
            "a query for the qualifiers of a fact does not show one",
        ),
        (
            "one relation",
            {"sparql": 'SELECT ?e WHERE { ?e_1 <pred:name> "Morrel" . ?e_1 <mouth>/<mouth> ?e . }'},
            "it has a property path",
        ),
        (
            "what qualifies a relation",
            {"sparql": CASES["what qualifies a relation"][1].replace("<pred:fact_h> ?e ; ", "")},
            "a fact of its query is not said in full",
        ),
    ],
)
def test_what_cannot_be_walked_is_dropped_with_its_reason(walked, name, changed, why):
    found, counts = walked(ask(name, **changed))
    (reason,) = counts.dropped
    assert not found and reason.startswith(why)


def test_from_the_console(kg, tmp_path, capsys):
    write_jsonl(tmp_path / "questions.jsonl", [ask("one relation"), ask("a date"), ask("a text", sparql=None)])
    out = tmp_path / "actor.jsonl"
    command = ["data", "actor", str(tmp_path / "questions.jsonl"), str(out), "--kg", str(kg), "--tools", "kqapro"]
    assert main(command) == 0
    assert [t.question.id for t in read_jsonl(out, Trajectory)] == ["one relation", "a date"]
    assert "it has no SPARQL" in capsys.readouterr().out
