"""KQA Pro's gold queries walked through its tools on a made KG: one of each of its kinds of question."""

import json
import re

import pytest

from data_pipelines.actor import actor_trajectories
from data_pipelines.importers import kgs
from data_pipelines.importers.counts import Counts
from data_pipelines.support import unsupported
from envs.kbqa_env import KBQAEnv
from graphwalker.cli import main
from graphwalker.files import read_jsonl, write_jsonl
from graphwalker.kg.open import open_kg
from graphwalker.protocol.interactive import DONE, EXECUTE, SEARCH_NODES, SEARCH_PATTERNS, parse_call
from graphwalker.tools.kbqa.toolbox import KBQALimits, KBQAToolbox
from graphwalker.types import Entity, Question, Trajectory


def value(kind, content, unit=None):
    return {"type": kind, "value": content} | ({"unit": unit} if unit else {})


def attribute(key, content, **qualifiers):
    return {"key": key, "value": content, "qualifiers": {name.replace("_", " "): [v] for name, v in qualifiers.items()}}


def town(name, people, height, founded, code, *relations, of=("C1",)):
    attributes = [
        attribute("population", value("quantity", people, "1"), point_in_time=value("date", "2001-05-06")),
        attribute("elevation above sea level", value("quantity", height, "metre")),
        attribute("inception", value("year", founded)),
        attribute("postal code", value("string", code)),
    ]
    return {"name": name, "instanceOf": list(of), "attributes": attributes, "relations": list(relations)}


def relation(predicate, target, **qualifiers):
    of = {name.replace("_", " "): [v] for name, v in qualifiers.items()}
    return {"predicate": predicate, "object": target, "direction": "forward", "qualifiers": of}


def person(name, born, *relations):
    attributes = [attribute("date of birth", value("date", born))]
    return {"name": name, "instanceOf": ["C2"], "attributes": attributes, "relations": list(relations)}


SINCE, ROLE = value("date", "1999-01-02"), value("string", "regent")
KB = {
    "concepts": {
        "C1": {"name": "harbour town", "subclassOf": ["C3"]},
        "C2": {"name": "human"},
        "C3": {"name": "settlement"},
    },
    "entities": {
        "Q1": town("Alderby", 1200, 7.5, 1066, "AB-12", relation("country", "Q8"), relation("twin town", "Q2")),
        "Q2": town(
            "Brannock", 5400, 31.0, 1203, "BR-77", relation("country", "Q8"), relation("mayor", "Q5", start_time=SINCE)
        ),
        "Q3": town("Corvale", 880, 12.0, 1650, "CV-03", relation("country", "Q9")),
        "Q4": town("Dunmere", 3000, 2.0, 1801, "DM-40", relation("country", "Q9"), of=("C3",)),
        "Q5": person(
            "Ann Lee",
            "1970-03-04",
            relation("place of birth", "Q1"),
            relation("spouse", "Q6", start_time=value("year", 1999)),
        ),
        "Q6": person("Bob Orr", "1968-11-30", relation("place of birth", "Q3"), relation("spouse", "Q5")),
        "Q7": person("Cay Holt", "1980-07-07", relation("place of birth", "Q1"), relation("ruler", "Q8", role=ROLE)),
        "Q8": {"name": "Norland", "instanceOf": ["C4"], "relations": [relation("capital", "Q2")]},
        "Q9": {"name": "Sudland", "instanceOf": ["C4"], "relations": [relation("capital", "Q3")]},
    },
}
KB["concepts"]["C4"] = {"name": "country"}


def fact(head, name, tail):
    return f"[ <pred:fact_h> {head} ; <pred:fact_r> <{name}> ; <pred:fact_t> {tail} ]"


TOWNS = '?e <pred:instance_of> ?c . ?c <pred:name> "harbour town" . '
QUERIES = {
    "one relation": (
        "What is the capital of Norland?",
        'SELECT DISTINCT ?e WHERE { ?e_1 <pred:name> "Norland" . ?e_1 <capital> ?e . }',
        "Brannock",
    ),
    "a relation backward": (
        "Which place is the twin town of Brannock?",
        'SELECT DISTINCT ?e WHERE { ?e <twin_town> ?e_1 . ?e_1 <pred:name> "Brannock" . }',
        "Alderby",
    ),
    "two relations": (
        "Who is the mayor of the capital of Norland?",
        'SELECT DISTINCT ?e WHERE { ?e_1 <pred:name> "Norland" . ?e_1 <capital> ?e_2 . ?e_2 <mayor> ?e . }',
        "Ann Lee",
    ),
    "concept": (
        "Which harbour town is in the country Sudland?",
        f'SELECT DISTINCT ?e WHERE {{ {TOWNS} ?e <country> ?t . ?t <pred:name> "Sudland" . }}',
        "Corvale",
    ),
    "a concept that is not named": (
        "Who has the place of birth Corvale?",
        'SELECT DISTINCT ?e WHERE { ?e <pred:instance_of> ?c . ?c <pred:name> "human" . '
        '?e <place_of_birth> ?t . ?t <pred:name> "Corvale" . }',
        "Bob Orr",
    ),
    "attribute": (
        "What is the postal code of Corvale?",
        'SELECT DISTINCT ?pv WHERE { ?e <pred:name> "Corvale" . ?e <postal_code> ?pv . }',
        "CV-03",
    ),
    "string": (
        "Which harbour town has the postal code BR-77?",
        f'SELECT DISTINCT ?e WHERE {{ {TOWNS} ?e <postal_code> ?pv . ?pv <pred:value> "BR-77" . }}',
        "Brannock",
    ),
    "nothing but a value": (
        "In which country is what has the postal code DM-40?",
        'SELECT DISTINCT ?t WHERE { ?e <postal_code> ?pv . ?pv <pred:value> "DM-40" . ?e <country> ?t . }',
        "Sudland",
    ),
    "number and unit": (
        "Which harbour town has an elevation above sea level of less than 10 metre?",
        f"SELECT DISTINCT ?e WHERE {{ {TOWNS} ?e <elevation_above_sea_level> ?pv . "
        '?pv <pred:unit> "metre" . ?pv <pred:value> ?v . FILTER ( ?v < "10.0"^^xsd:double ) . }',
        "Alderby",
    ),
    "date": (
        "Which human has a date of birth after 1975-06-30?",
        'SELECT DISTINCT ?e WHERE { ?e <pred:instance_of> ?c . ?c <pred:name> "human" . ?e <date_of_birth> ?pv . '
        '?pv <pred:date> ?v . FILTER ( ?v > "1975-06-30"^^xsd:date ) . }',
        "Cay Holt",
    ),
    "year": (
        "Which harbour town has its inception before 1100?",
        f"SELECT DISTINCT ?e WHERE {{ {TOWNS} ?e <inception> ?pv . ?pv <pred:year> ?v . FILTER ( ?v < 1100 ) . }}",
        "Alderby",
    ),
    "qualifier of a relation": (
        "From when is Ann Lee the mayor of Brannock?",
        'SELECT DISTINCT ?qpv WHERE { ?e_1 <pred:name> "Brannock" . ?e_2 <pred:name> "Ann Lee" . ?e_1 <mayor> ?e_2 . '
        f"{fact('?e_1', 'mayor', '?e_2')} <start_time> ?qpv . }}",
        "1999-01-02",
    ),
    "qualifier of an attribute": (
        "When had Corvale the population 880?",
        'SELECT DISTINCT ?qpv WHERE { ?e <pred:name> "Corvale" . ?e <population> ?pv . ?pv <pred:unit> "1" . '
        f'?pv <pred:value> "880"^^xsd:double . {fact("?e", "population", "?pv")} <point_in_time> ?qpv . }}',
        "2001-05-06",
    ),
    "qualifier as a constraint": (
        "Who was the ruler of Norland in the role of regent?",
        'SELECT DISTINCT ?e WHERE { ?e <ruler> ?t . ?t <pred:name> "Norland" . '
        f'{fact("?e", "ruler", "?t")} <role> ?q . ?q <pred:value> "regent" . }}',
        "Cay Holt",
    ),
    "count": (
        "How many harbour towns have a population over 1,000?",
        f"SELECT (COUNT(DISTINCT ?e) AS ?count) WHERE {{ {TOWNS} ?e <population> ?pv . "
        '?pv <pred:value> ?v . FILTER ( ?v > "1000"^^xsd:double ) . }',
        "2",
    ),
    "verify": (
        "Is the population of Alderby on 2001-05-06 greater than 2000?",
        'ASK { ?e <pred:name> "Alderby" . ?e <population> ?pv . ?pv <pred:unit> "1" . ?pv <pred:value> ?v . '
        'FILTER ( ?v > "2000"^^xsd:double ) . '
        f'{fact("?e", "population", "?pv")} <point_in_time> ?qpv . ?qpv <pred:date> "2001-05-06"^^xsd:date . }}',
        "no",
    ),
    "superlative": (
        "Which harbour town has the largest population?",
        f"SELECT ?e WHERE {{ {TOWNS} ?e <population> ?pv . ?pv <pred:value> ?v . }} ORDER BY DESC(?v) LIMIT 1",
        "Brannock",
    ),
    "union": (
        "How many harbour towns have the postal code AB-12 or an inception after 1600?",
        f"SELECT (COUNT(DISTINCT ?e) AS ?count) WHERE {{ {TOWNS} "
        '{ ?e <postal_code> ?pv . ?pv <pred:value> "AB-12" . } UNION '
        "{ ?e <inception> ?pv . ?pv <pred:year> ?v . FILTER ( ?v > 1600 ) . } }",
        "2",
    ),
    "intersection": (
        "Whose place of birth is Alderby, and who has the spouse Bob Orr?",
        'SELECT DISTINCT ?e WHERE { ?e <place_of_birth> ?e_1 . ?e_1 <pred:name> "Alderby" . '
        '?e <spouse> ?e_2 . ?e_2 <pred:name> "Bob Orr" . }',
        "Ann Lee",
    ),
    "which is larger": (
        "Which has the larger population, Alderby of the postal code AB-12 or Dunmere?",
        'SELECT ?e WHERE { { ?e <pred:name> "Alderby" . ?e <postal_code> ?pv1 . ?pv1 <pred:value> "AB-12" . } UNION '
        '{ ?e <pred:name> "Dunmere" . } ?e <population> ?pv . ?pv <pred:value> ?v . } ORDER BY DESC(?v) LIMIT 1',
        "Dunmere",
    ),
    "relation asked for": (
        "How are Norland and Brannock related?",
        'SELECT DISTINCT ?p WHERE { ?e_1 <pred:name> "Norland" . ?e_2 <pred:name> "Brannock" . ?e_1 ?p ?e_2 . }',
        "capital",
    ),
    "relation of several words": (
        "How is Ann Lee related to Alderby?",
        'SELECT DISTINCT ?p WHERE { ?e_1 <pred:name> "Ann Lee" . ?e_2 <pred:name> "Alderby" . ?e_1 ?p ?e_2 . }',
        "place of birth",
    ),
    "name asked for": (
        "What is the name of the capital of Sudland?",
        'SELECT ?n WHERE { ?e <pred:name> "Sudland" . ?e <capital> ?t . ?t <pred:name> ?n . }',
        "Corvale",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def kg(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kqapro")
    (folder / "kb.json").write_text(json.dumps(KB), "utf-8")
    kgs.build("kqapro", folder / "kb.json", folder / "kg", store="oxigraph", progress=False)
    return folder / "kg"


@pytest.fixture(scope="module")
def env(kg):
    return KBQAEnv(KBQAToolbox(open_kg(kg), kg, "kqapro", limits=KBQALimits(nodes=3)))


def ask(text, sparql, *answers, **fields):
    return Question(text, text, answers=tuple(map(Entity, answers)), sparql=sparql, **fields)


@pytest.fixture
def walk(env):
    def walked(*questions):
        counts = Counts()
        return list(actor_trajectories(questions, env, counts=counts)), counts

    return walked


def calls(trajectory):
    return [parse_call(turn.action) for turn in trajectory.turns if turn.kind == "query"]


@pytest.mark.parametrize("shape", QUERIES)
def test_every_kind_of_question_comes_to_its_gold(walk, env, shape):
    found, counts = walk(ask(*QUERIES[shape]))
    assert not counts.dropped
    (found,) = found
    assert found.ending == "answered" and found.answer == (QUERIES[shape][2],)
    assert all(turn.status == "ok" for turn in found.turns)
    schema, prompt = env.toolbox.store.schema, env.prompt.text(found.question)
    assert unsupported(found, schema, prompt=prompt, strict=True) == ""
    tools = [call.tool for call in calls(found)]
    assert tools[-1] == EXECUTE and found.turns[-1].action == DONE
    qualified = "<pred:fact_r>" in QUERIES[shape][1]
    assert tools.count(EXECUTE) == 1 + qualified and (qualified or "fact_" not in found.turns[-2].action)


def test_the_steps_to_a_qualifier(walk):
    (found,), _ = walk(ask(*QUERIES["qualifier as a constraint"]))
    nodes, patterns, qualifiers, execute = calls(found)
    assert (nodes.tool, nodes.arguments) == (SEARCH_NODES, {"name": "Norland"})
    assert (patterns.tool, patterns.arguments["sparql"]) == (
        SEARCH_PATTERNS,
        'SELECT ?e WHERE { ?e <pred:name> "Norland" . }',
    )
    way, of = '?t <pred:name> "Norland" . ?e <ruler> ?t .', fact("?e", "ruler", "?t")
    assert qualifiers.arguments["sparql"] == (
        f"SELECT DISTINCT ?p (SAMPLE(?v) AS ?v) WHERE {{ {way} {of} ?p ?v . }} GROUP BY ?p"
    )
    assert "('role', 'regent')" in found.turns[2].observation
    assert execute.arguments["sparql"] == (
        f'SELECT DISTINCT ?e WHERE {{ {way} {of} <role> ?q . ?q <pred:value> "regent" . }}'
    )
    assert found.turns[3].thought == "role is a qualifier I want. Now I can write the query."


def test_the_steps_to_a_value_and_of_a_concept(walk):
    (found,), _ = walk(ask(*QUERIES["nothing but a value"]))
    whole, near, _ = calls(found)
    assert whole.arguments["sparql"] == "SELECT ?e WHERE {}"
    assert near.arguments["sparql"] == 'SELECT ?e WHERE { ?e <postal_code> ?pv . ?pv <pred:value> "DM-40" . }'
    (found,), _ = walk(ask(*QUERIES["superlative"]))
    assert calls(found)[1].arguments["sparql"] == (
        'SELECT ?e WHERE { ?e <pred:instance_of> ?c . ?c <pred:name> "harbour town" . }'
    )
    (found,), _ = walk(ask(*QUERIES["a concept that is not named"]))
    assert "instance_of" not in calls(found)[-1].arguments["sparql"]


def test_a_variable_called_e_makes_room(walk):
    sparql = 'SELECT DISTINCT ?x WHERE { ?e <pred:name> "Norland" . ?e <capital> ?t . ?t <mayor> ?x . }'
    (found,), _ = walk(ask("Who is the mayor of the capital of Norland?", sparql, "Ann Lee"))
    near = 'SELECT ?e WHERE { ?e0 <pred:name> "Norland" . ?e0 <capital> ?e . }'
    assert calls(found)[2].arguments["sparql"] == near


def test_a_fact_may_be_stated_from_its_other_end(walk):
    """Published queries turn the ends of a symmetric relation around between the edge and its fact."""
    sparql = 'SELECT ?e { ?t <spouse> ?e . ?t <pred:name> "Bob Orr" . %s <start_time> ?q . ?q <pred:year> 1999 . }'
    question = "Who is the spouse of Bob Orr since 1999?"
    (found,), _ = walk(ask(question, sparql % fact("?e", "spouse", "?t"), "Ann Lee"))
    assert [call.tool for call in calls(found)].count(SEARCH_PATTERNS) == 1
    assert fact("?e", "spouse", "?t") + " <start_time> ?q ." in calls(found)[-1].arguments["sparql"]


def test_a_gold_path_serves_as_well(walk):
    question = Question(
        "p", "Who is mayor of the capital of Norland?", (Entity("Norland", "Q8"),), (Entity("Ann Lee"),)
    )
    found, counts = walk(
        Question("p", question.text, question.topic_entities, question.answers, paths=(("capital", "mayor"),)),
        Question("a", "What elevation above sea level has Alderby?", (Entity("Alderby", "Q1"),), (Entity("7.5"),),
                 paths=(("elevation_above_sea_level.pred:value",),)),
    )  # fmt: skip
    assert not counts.dropped and [trajectory.answer for trajectory in found] == [("Ann Lee",), ("7.5",)]


@pytest.mark.parametrize(
    ("text", "sparql", "reason"),
    [
        ("What is its capital?", QUERIES["one relation"][1], "is not named in the question"),
        (*QUERIES["one relation"][:2], "another answer than its gold"),
        ("Mayor of Norland?", 'SELECT ?e { ?n <pred:name> "Norland" . ?n <mayor> ?e }', "does not show a relation"),
        ("Who of Atlantis?", 'SELECT ?e { ?n <pred:name> "Atlantis" . ?n <mayor> ?e }', "SearchNodes does not show"),
        ("A harbour town by its postal code?", QUERIES["string"][1], "a value of its query is neither in"),
        ("Which postal code is it?", QUERIES["nothing but a value"][1], "a value of its query is neither in"),
        ("Which town?", 'SELECT ?e { ?e <no_such> ?v . ?v <pred:value> "x" }', "does not show a relation"),
        ("Which town is it?", f"SELECT ?e {{ {TOWNS} }}", "another answer"),
        ("From when is Ann Lee the mayor of Brannock?",
         QUERIES["qualifier of a relation"][1].replace("start_time", "end_time"), "a qualifier of its query"),
        ("Norland?", 'SELECT ?e { ?n <pred:name> "Norland" . ?n <a>/<b> ?e }', "it has a property path"),
        ("Norland?", 'SELECT ?e { ?n <pred:name> "Norland" . [ <pred:fact_h> ?n ] <role> ?e }', "a fact without"),
        ("Norland?", 'SELECT ?q { ?n <pred:name> "Norland" . ' + fact("?e", "ruler", "?n") + " ?q ?v }",
         "asks for a qualifier's name"),
        ("Norland?", 'SELECT ?v { ?n <pred:name> "Norland" . ?pv <pred:value> ?v }', "a value that no relation"),
        ("Norland?", "SELECT ?e { <Q77> <capital> ?e }", "is not in the KG, or has no name"),
        ("Norland?", 'SELECT ?e { ?n <pred:name> "Norland"', "its SPARQL cannot be read"),
        ("Norland?", "DELETE WHERE { ?s ?p ?o }", "its SPARQL cannot be read"),
        ("Norland?", "SELECT ?e { ?e <capital> ( 1 2 ) }", "its SPARQL cannot be read"),
        ("Norland?", "SELECT ?e { ?e <capital> ?x }", "does not show a relation"),
        ("Norland?", None, "it has neither SPARQL nor a gold path"),
    ],
)  # fmt: skip
def test_why_a_question_is_dropped(walk, text, sparql, reason):
    found, counts = walk(ask(text, sparql, "Nobody"))
    ((why, count),) = counts.dropped.items()
    assert not found and count == 1 and re.search(reason, why), why


def test_from_the_console(kg, tmp_path, capsys):
    write_jsonl(tmp_path / "questions.jsonl", [ask(*gold) for gold in QUERIES.values()])
    files = [str(tmp_path / "questions.jsonl"), str(tmp_path / "out.jsonl"), "--kg", str(kg), "--tools", "kqapro"]
    assert main(["data", "actor", *files]) == 0
    assert f"read {len(QUERIES)}, kept {len(QUERIES)}, dropped 0" in capsys.readouterr().out
    assert len(list(read_jsonl(tmp_path / "out.jsonl", Trajectory))) == len(QUERIES)
