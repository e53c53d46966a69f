"""Every published question format, on a record or two made up after its description, and what is malformed in each."""

import json

import pytest

from data_pipelines.importers.counts import Counts
from data_pipelines.importers.formats import QUESTIONS
from data_pipelines.importers.importing import import_from
from data_pipelines.importers.paths import PathWalker
from graphwalker.errors import FileFormatError, UserError
from graphwalker.types import Entity, Question

NS = "PREFIX ns: <http://rdf.freebase.com/ns/>\n"
CAPITAL = NS + "SELECT DISTINCT ?x WHERE { FILTER (?x != ns:m.fr) ns:m.fr ns:location.country.capital ?x . }"
PARIS = Entity("Paris", "m.paris")


@pytest.fixture
def read(tmp_path):
    def imported(form, content, name="train.json", **options):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        counts = Counts()
        found = list(import_from(form, path, counts, **options))
        assert all(question == Question.from_json(question.to_json()) for question in found)
        return found, counts

    return imported


def node(nid, kind, name, asked=0):
    return {"nid": nid, "node_type": kind, "id": name, "friendly_name": name.upper(), "question_node": asked}


GRAIL = {
    "qid": 7,
    "question": "which capital has france?",
    "answer": [{"answer_type": "Entity", "answer_argument": "m.paris", "entity_name": "Paris"}],
    "function": "none",
    "graph_query": {
        "nodes": [node(0, "class", "location.citytown", 1), node(1, "entity", "m.fr")],
        "edges": [{"start": 1, "end": 0, "relation": "location.country.capital"}],
    },
    "sparql_query": CAPITAL,
    "level": "i.i.d.",
}
BENCH = {
    "question": "how many capitals has france?",
    "qid": "1_x",
    "source": "grailqa",
    "entities": {"France": "m.fr", "Spain": "m.es"},
    "actions": [
        "get_relations(m.fr)",
        "get_neighbors(m.fr,location.country.capital)",
        "get_neighbors(m.es,location.location.adjoin_s)",
        "intersection(#0,#1)",
    ],
    "answer": [{"answer_type": "Value", "answer_argument": "1"}],
}


def test_cwq_official(read):
    official = {
        "ID": "Q-1_a",
        "answers": [{"aliases": ["City of Light", "Paris"], "answer": "Paris", "answer_id": "m.paris"}],
        "compositionality_type": "conjunction",
        "question": "what is the capital of france?",
        "sparql": CAPITAL,
    }
    blind = {**official, "ID": "Q-2_b", "answers": None, "sparql": None}
    (question,), counts = read("cwq", [official, blind])
    assert question.answers == (Entity("Paris", "m.paris", ("City of Light",)),)
    assert question.topic_entities == (Entity("m.fr", "m.fr"),) and question.sparql == CAPITAL
    assert (question.paths, question.structure, question.split) == (
        (("location.country.capital",),),
        "conjunction",
        "train",
    )
    assert counts.dropped == {"it has no answer": 1}


def test_cwq_other_layouts(read):
    named = NS + 'SELECT ?x { ?e0 ns:type.object.name "France"@en . ?e0 ns:location.country.capital ?x }'
    clear = {"id": "a", "question": "?", "raw_sparql": CAPITAL, "sparql": named, "answers": ["Paris"]}
    clear["answers_raw"] = [{"aliases": [], "answer": "Paris", "answer_id": "m.paris"}]
    tog = {"ID": "b", "question": "?", "sparql": CAPITAL, "answer": "Paris", "topic_entity": {"m.fr": "France"}}
    union = {**tog, "ID": "c", "sparql": NS + "SELECT ?x { { ns:m.fr ns:a ?x } UNION { ns:m.es ns:a ?x } }"}
    (one, two, three), counts = read("cwq", [clear, tog, union])
    assert one.topic_entities == two.topic_entities == three.topic_entities == (Entity("France", "m.fr"),)
    assert one.answers == (PARIS,) and two.answers == (Entity("Paris"),) and one.sparql == CAPITAL
    assert three.paths == () and counts.notes["it has no gold path"] == 1


def test_grailqa_and_graphquestions(read):
    count = {**GRAIL, "qid": 8, "function": "count", "answer": [{"answer_type": "Value", "answer_argument": "1"}]}
    (one, two), _ = read("grailqa", [GRAIL, count])
    assert one.topic_entities == (Entity("M.FR", "m.fr"),) and one.answers == (PARIS,) and one.id == "7"
    assert one.paths == (("location.country.capital",),) and one.structure == "i.i.d."
    assert two.structure == "i.i.d. count+constraints" and two.answers == (Entity("1"),)
    (named,), _ = read("graphquestions", [{**GRAIL, "answer": ["paris"], "level": None}])
    assert named.answers == (Entity("paris"),) and named.dataset == "graphquestions"
    graph = {**GRAIL["graph_query"], "edges": [{"start": 5, "end": 0, "relation": "r"}]}
    with pytest.raises(FileFormatError, match=r"train.json:1: record 1: field 'graph_query.edges\[0\].start'.* node 5"):
        read("grailqa", [{**GRAIL, "graph_query": graph}])


def test_agentbench(read):
    (both, one), counts = read("agentbench", [BENCH, {**BENCH, "actions": BENCH["actions"][:2] + ["count(#0)"]}])
    assert both.paths == (("location.country.capital",), ("location.location.adjoin_s",))
    assert [t.name for t in both.topic_entities] == ["France", "Spain"] and both.structure == "grailqa"
    assert (one.paths, one.structure) == ((("location.country.capital",),), "grailqa+constraints")
    assert (
        one.answers == (Entity("1"),) and counts.notes["its path has constraints, and alone gives more than the gold"]
    )
    for actions, problem in ((["count(#3)"], "no variable '#3'"), (["look around"], "this is no call")):
        with pytest.raises(FileFormatError, match=f"field 'actions': .*{problem}"):
            read("agentbench", [{**BENCH, "actions": actions}])


def test_simplequestions(read):
    base = "www.freebase.com/"
    lines = f"{base}m/fr\t{base}location/country/capital\t{base}m/paris\twhat is the capital?\n"
    (question,), _ = read("simplequestions", lines, name="annotated_fb_data_valid.txt")
    assert question.topic_entities == (Entity("m.fr", "m.fr"),) and question.paths == (("location.country.capital",),)
    (forward, back), _ = read("simplequestions", "Q1\tP36\tQ2\twhich?\nQ2\tR36\tQ1\tof which?\n", name="test.txt")
    assert (forward.paths, back.paths, back.split) == ((("wdt:P36",),), (("^wdt:P36",),), "test")
    for line, problem in (
        ("Q1\tP36\tQ2", "expected subject"),
        ("x\tP1\tQ2\t?", "'subject'"),
        ("Q1\tx\tQ2\t?", "'relation'"),
    ):
        with pytest.raises(FileFormatError, match=f"a.txt:2: .*{problem}"):
            read("simplequestions", f"Q1\tP36\tQ2\twhich?\n{line}\n", name="a.txt")


def test_lcquad(read):
    base = "http://dbpedia.org/"
    one = {
        "_id": "5",
        "corrected_question": "Who leads Old Town?",
        "sparql_query": f"SELECT DISTINCT ?uri WHERE {{ <{base}resource/Old_Town> <{base}ontology/leader> ?uri }}",
        "sparql_template_id": 2,
    }
    (question,), counts = read("lcquad1", [one])
    assert question.topic_entities == (Entity("Old Town", base + "resource/Old_Town"),)
    assert question.paths == ((base + "ontology/leader",),) and question.answers == ()
    assert counts.notes == {"its gold is only a query": 1}
    two = {
        "uid": 3,
        "question": "Who leads it?",
        "paraphrased_question": "Its leader is?",
        "sparql_wikidata": " select distinct ?x where { wd:Q1 wdt:P6 ?x } ",
        "sparql_dbpedia18": "",
        "subgraph": "simple question right",
        "answer": [],
    }
    (plain, again), _ = read("lcquad2", [two, {**two, "uid": 4, "question": None, "paraphrased_question": []}])[0], None
    assert (plain.id, again.id, again.text) == ("3", "3-paraphrase", "Its leader is?")
    assert plain.paths == (("wdt:P6",),) and plain.topic_entities[0].id == "Q1"
    with pytest.raises(FileFormatError, match="'sparql_wikidata' is missing"):
        read("lcquad2", [one])


def qald(identity, answers, sparql="SELECT ?x { wd:Q1 wdt:P36 ?x }", **texts):
    question = [{"language": language, "string": text, "keywords": ""} for language, text in texts.items()]
    return {"id": identity, "question": question, "query": {"sparql": sparql}, "answers": answers}


def bindings(*values):
    return {"head": {"vars": ["x"]}, "results": {"bindings": [{"x": {"type": k, "value": v}} for k, v in values]}}


def test_qald_official(read):
    wikidata, dbpedia = "http://www.wikidata.org/entity/", "http://dbpedia.org/resource/"
    data = {
        "questions": [
            qald("1", [bindings(("uri", wikidata + "Q2"), ("literal", "7"))], en="Which?", de="Welche?"),
            qald("2", [{"head": {}, "boolean": True}], "ASK { wd:Q1 wdt:P36 wd:Q2 }", de="Ist?"),
            qald("3", [bindings(("uri", dbpedia + "Old_Town"))], f"SELECT ?u {{ ?u a <{dbpedia}X> }}", en="What?"),
            qald("4", [bindings()], en="None?"),
        ]
    }
    (one, three), counts = read("qald", data)
    assert one.answers == (Entity("Q2", "Q2"), Entity("7")) and one.paths == (("wdt:P36",),)
    assert three.answers == (Entity("Old Town", dbpedia + "Old_Town"),)
    assert counts.dropped == {"it has no text in the language 'en'": 1, "its published answers are empty": 1}
    (german, yes), _ = read("qald", data, language="de")
    assert german.text == "Welche?" and yes.answers == (Entity("true"),)
    assert [topic.id for topic in yes.topic_entities] == ["Q1", "Q2"] and yes.paths == ()


def test_qald_with_topics_and_other_options(read):
    record = {"question": "Which?", "sparql": "SELECT ?x { wd:Q1 wdt:P36 ?x }", "answer": {"Q2": "Old Town", "5": "5"}}
    (question,), _ = read("qald", [{**record, "topic_entity": {"Q1": "The Land"}}])
    assert question.topic_entities == (Entity("The Land", "Q1"),) and question.id == "1"
    assert question.answers == (Entity("Old Town", "Q2"), Entity("5"))
    with pytest.raises(UserError, match="--language is for qald, not for cwq"):
        read("cwq", [], language="de")
    with pytest.raises(UserError, match="unknown format 'trec'"):
        read("trec", [])


def test_pathquestion(read):
    lines = "the boss of a_b 's town ?\tc_d(c_d/e_(f)/)\ta_b#place_of_birth#x_y#boss#c_d#<end>#c_d\n"
    (question,), _ = read("pathquestion", lines, name="PQ-2H.txt")
    assert question.text == "the boss of a b 's town ?" and question.topic_entities == (Entity("a b"),)
    assert [a.name for a in question.answers] == ["c d", "e (f)"] and question.id == "PQ-2H-1"
    assert (question.paths, question.hops) == ((("place_of_birth", "boss"),), 2)
    for line, problem in (
        ("a\tb", "expected question, answers, path"),
        ("a\tb(b/)\ta#b", "field 'path'"),
        ("a\tb\ta#r#b#<end>#b", "field 'answers'"),
    ):
        with pytest.raises(FileFormatError, match=f"PQ-2H.txt:2: .*{problem}"):
            read("pathquestion", lines + line + "\n", name="PQ-2H.txt")


STEPS = [
    {"function": "Find", "dependencies": [], "inputs": ["Ann  Lee"]},
    {"function": "Relate", "dependencies": [0], "inputs": ["place of birth", "forward"]},
    {"function": "Find", "dependencies": [], "inputs": ["Bo Ek"]},
    {"function": "Relate", "dependencies": [2], "inputs": ["twin town", "backward"]},
    {"function": "And", "dependencies": [1, 3], "inputs": []},
    {"function": "What", "dependencies": [4], "inputs": []},
]


def test_kqapro(read):
    record = {"question": "where?", "answer": "Old Town", "sparql": "SELECT ?e { }", "choices": [], "program": STEPS}
    filtered = [*STEPS[:2], {"function": "FilterConcept", "dependencies": [1], "inputs": ["town"]}, STEPS[5]]
    filtered[3] = {**STEPS[5], "dependencies": [2]}
    attribute = [STEPS[0], {"function": "QueryAttr", "dependencies": [0], "inputs": ["height"]}]
    data = [record, {**record, "program": filtered}, {**record, "program": attribute}, {"question": "?", "choices": []}]
    (both, town, height), counts = read("kqapro", data, name="val.json")
    assert both.paths == (("place_of_birth",), ("^twin_town",)) and both.structure == "What"
    assert [t.name for t in both.topic_entities] == ["Ann Lee", "Bo Ek"] and both.id == "dev-0"
    assert (town.paths, town.structure) == ((("place_of_birth",),), "What+constraints")
    assert height.paths == () and height.topic_entities == (Entity("Ann Lee"),)
    assert counts.dropped == {"it has no answer": 1}
    with pytest.raises(FileFormatError, match=r"field 'program\[0\].dependencies'"):
        read("kqapro", [{**record, "program": [{**STEPS[1], "dependencies": [4]}]}])


def test_rog_graftnet_and_nsm(read, tmp_path):
    rog = {"id": "q1", "question": "which?", "answer": ["Paris"], "q_entity": ["France"], "a_entity": ["Paris"]}
    rog["graph"] = [["France", "location.country.capital", "Paris"]]
    (question,), _ = read("rog", "".join(json.dumps(rog) + "\n"), name="test.jsonl")
    assert question.topic_entities == (Entity("France"),) and question.answers == (Entity("Paris"),)
    graft = {"id": "q2", "question": "which?", "answers": [{"kb_id": "<fb:m.paris>", "text": "Paris"}]}
    graft["entities"] = [{"kb_id": "<fb:m.fr>", "text": "France"}]
    graft["subgraph"] = {"tuples": [], "entities": []}
    (question,), _ = read("rog", json.dumps(graft), name="train.json")
    assert question.topic_entities == (Entity("France", "m.fr"),) and question.answers == (PARIS,)
    nsm = {**graft, "entities": [1], "answers": [{"kb_id": "m.paris", "text": None}]}
    with pytest.raises(
        FileFormatError, match="train.json:1: record 1: it gives numbers, and .*entities.txt is not there"
    ):
        read("rog", json.dumps(nsm), name="train.json")
    (tmp_path / "entities.txt").write_text("m.paris\nm.fr\n", "utf-8")
    assert read("rog", json.dumps(nsm), name="train.json")[0][0].topic_entities == (Entity("m.fr", "m.fr"),)
    with pytest.raises(FileFormatError, match="number 9 is not in"):
        read("rog", json.dumps({**nsm, "entities": [9]}), name="train.json")
    with pytest.raises(FileFormatError, match="'answer' .RoG. or 'answers'"):
        read("rog", json.dumps({"id": "x", "question": "?"}), name="train.json")


def test_a_kg_names_links_and_flattens(read, toy_store):
    france = {"m.fr": "FRANCE (country)"}
    neighbours = (
        NS + "SELECT ?x { ns:m.fr ns:location.location.adjoin_s ?c . "
        "?c ns:location.adjoining_relationship.adjoins ?x . FILTER(?x != ns:m.fr) }"
    )
    records = [
        {"ID": "a", "question": "?", "sparql": CAPITAL, "answer": "Paris", "topic_entity": france},
        {"ID": "b", "question": "?", "sparql": neighbours, "answer": "Spain"},
        {"ID": "c", "question": "?", "sparql": CAPITAL.replace("m.fr", "m.gone"), "answer": "Paris"},
        {"ID": "d", "question": "?", "sparql": CAPITAL, "answers": [{"answer": "Rom", "answer_id": "m.rome"}]},
    ]
    (one, two), counts = read("cwq", records, store=toy_store)
    assert one.topic_entities[0].name == "France" and "FRANCE (country)" in one.topic_entities[0].aliases
    assert one.answers == (PARIS,)  # found by its name
    assert two.paths == (("location.location.adjoin_s.location.adjoining_relationship.adjoins",),) and two.hops == 1
    assert counts.dropped == {"its topic entity is not in the KG": 1, "no answer is in the KG": 1}
    with pytest.raises(FileFormatError, match="record 3: c: unknown topic entity 'm.gone'"):
        read("cwq", records, store=toy_store, missing="error")
    kept, counts = read("cwq", records, store=toy_store, missing="keep")
    assert [q.id for q in kept] == ["a", "b", "c"] and counts.notes["its topic entity is not in the KG"] == 1


def test_edges_against_each_other_around_a_mediator_take_the_declared_reverse(toy_store):
    walker = PathWalker(toy_store)
    adjoins = "location.adjoining_relationship.adjoins"
    assert walker.hops("m.es", [f"^{adjoins}", "^location.location.adjoin_s"]) == (
        f"^location.location.adjoin_s.{adjoins}",
    )
    assert walker._joined("^a", "b") == "^a"  # no reverse is declared: no such hop
    contains, contained = "location.location.contains", "location.location.containedby"
    assert walker._joined(f"^{contains}", "x.y") == f"{contained}.x.y"


def test_every_format_has_a_reader_that_names_a_missing_file(tmp_path):
    for form in QUESTIONS:
        with pytest.raises(UserError, match="none"):
            list(import_from(form, tmp_path / "none.json", Counts()))
