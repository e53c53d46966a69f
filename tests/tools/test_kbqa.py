"""The KBQA tools: what each finds, how it is shown, and what becomes of a query that must not or cannot run."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwalker.errors import KGUnavailable, UserError
from graphwalker.kg.guard import QueryLimits
from graphwalker.kg.open import open_kg
from graphwalker.protocol.interactive import parse_call, parse_turn
from graphwalker.tools.kbqa.forms import listed, plain, quoted, typed
from graphwalker.tools.kbqa.toolbox import KBQALimits, KBQAToolbox

FRANCE = 'SELECT ?e WHERE { ?e ns:type.object.name "France"@en }'


def patterns(query, semantic=None):
    given_semantic = "" if semantic is None else f', semantic="{semantic}"'
    return f"SearchGraphPatterns('{query}'{given_semantic})"


@pytest.fixture(scope="module")
def tools(toy_kbqa_toolbox):
    return toy_kbqa_toolbox


def said(tools, action):
    observation = tools.run(action).observation
    return observation.status, observation.text


def test_nodes_are_found_by_name_alias_and_near_it(tools):
    france = "['\"France\" | Description: A country in Europe.'"
    for name in ("France", "french republic", "FRANCE", "Frances"):
        status, text = said(tools, f'SearchNodes("{name}")')
        assert (status, text.startswith(france)) == ("ok", True), name
    assert said(tools, 'SearchNodes("zzzz")') == ("empty", "[]")


def test_nodes_of_one_name_are_told_apart(tools):
    assert said(tools, 'SearchNodes("Ann Lee")')[1].startswith(
        "['\"Ann Lee\" | Types: people.person | No description.'"
    )


def test_patterns_in_both_directions_with_examples_and_arrows(tools):
    status, text = said(tools, patterns(FRANCE))
    assert status == "ok"
    for pattern in (
        '(?e, location.country.capital, "Paris")',
        '("Lyon", location.location.containedby, ?e)',
        '(?e, location.location.adjoin_s -> location.adjoining_relationship.adjoins, "Spain")',
        '("Spain", location.location.adjoin_s -> location.adjoining_relationship.adjoins, ?e)',
        '(?e, location.location.area, "543965"^^xsd:decimal)',
    ):
        assert pattern in text
    assert "common.topic.description" not in text


@pytest.mark.parametrize(("meaning", "first"), [("capital city", "capital"), ("adjoins/neighbour", "adjoin_s")])
def test_patterns_are_ranked_by_the_meaning(tools, meaning, first):
    assert first in said(tools, patterns(FRANCE, meaning))[1].split(",")[1]


def test_a_mediator_has_patterns_too(tools):
    text = said(tools, patterns("SELECT ?e WHERE { ?x ns:location.location.adjoin_s ?e }"))[1]
    assert "(?e, location.adjoining_relationship.adjoins, " in text


def test_patterns_of_the_whole_graph(tools):
    text = said(tools, patterns("SELECT ?e WHERE {}", "neighbour adjoins"))[1]
    assert text.startswith("['location.location.adjoin_s -> location.adjoining_relationship.adjoins'")


def test_what_is_cut_is_said(toy_sparql_kg):
    limits = KBQALimits(nodes=1, patterns=1, entities=1, rows=1, types=1)
    small = KBQAToolbox(open_kg(toy_sparql_kg), toy_sparql_kg, limits=limits, query_limits=QueryLimits(rows=2))
    assert said(small, patterns(FRANCE))[1].splitlines()[1:] == ["... 5 more patterns"]
    many = patterns("SELECT ?e WHERE { ?e ns:people.person.place_of_birth ?x }")
    assert said(small, many)[1].splitlines()[1:] == ["... of 1 entities that were looked at, out of more than 2"]
    run = small.run("ExecuteSPARQL('SELECT ?x WHERE { ?x ns:type.object.name ?n }')")
    assert run.observation.text.splitlines()[1] == "... at least 1 more rows"
    assert len(run.executed.answer) == 2


@pytest.mark.parametrize(
    ("query", "text", "answer"),
    [
        ("SELECT ?x { ?e ns:location.location.contains ?x }", "['Lyon', 'Paris']", ("Lyon", "Paris")),
        ("SELECT ?x ?y { ?x ns:location.location.area ?y }", "[('France', '\"543965\"^^xsd:decimal')]", ("France",)),
        ("SELECT (COUNT(?x) AS ?n) { ?x ns:people.person.place_of_birth ?y }", "['\"3\"^^xsd:integer']", ("3",)),
        ("ASK { ?x ns:location.country.capital ?y }", "True", ("true",)),
        ("ASK { ?x ns:no.such ?y }", "False", ("false",)),
        ("SELECT ?x { ?y ns:location.location.contains ?x } ORDER BY DESC(?x)", "['Paris', 'Lyon']", ("Paris", "Lyon")),
    ],
)  # fmt: skip
def test_what_a_query_finds(tools, query, text, answer):
    run = tools.run(f"ExecuteSPARQL('{query}')")
    assert (run.observation.status, run.observation.text) == ("ok", text)
    assert (run.executed.answer, run.executed.found, run.executed.sparql) == (answer, True, query)


def test_a_query_that_finds_nothing_ran(tools):
    run = tools.run("ExecuteSPARQL('SELECT ?x { ?x ns:no.such ?y }')")
    assert (run.observation.status, run.observation.text) == ("empty", "[]")
    assert (run.executed.answer, run.executed.found) == ((), False)


@pytest.mark.parametrize(
    ("action", "status", "reason"),
    [
        ("ExecuteSPARQL('DELETE WHERE { ?x ?y ?z }')", "refused", "DELETE is not allowed"),
        ("ExecuteSPARQL('SELECT ?x { SERVICE <http://a.example/> { ?x ?y ?z } }')", "refused", "SERVICE"),
        ("ExecuteSPARQL('SELECT ?x { ?x ')", "bad_query", "ends too early"),
        ("ExecuteSPARQL('SELECT ?x { ?x nope:a ?y }')", "bad_query", "'nope:' is not declared"),
        (patterns("SELECT ?a ?b WHERE { ?a ns:x.y.z ?b }"), "bad_query", "select ?e alone"),
        (patterns("ASK { ?a ns:x.y.z ?b }"), "bad_query", "select ?e alone"),
        ('Find("x")', "bad_query", "no tool named Find"),
        ("nonsense", "bad_query", "not a call"),
    ],
)
def test_what_is_not_run_is_an_observation_that_says_why(tools, action, status, reason):
    run = tools.run(action)
    assert (run.observation.status, run.executed) == (status, None)
    assert run.observation.text.startswith("Error: ") and reason in run.observation.text


def test_the_tools_of_kqapro_need_its_schema(toy_sparql_kg):
    with pytest.raises(UserError, match="need a KG with the schema kqapro, this one has freebase"):
        KBQAToolbox(open_kg(toy_sparql_kg), toy_sparql_kg, "kqapro")


def test_a_query_past_its_time_is_an_observation(toy_sparql_kg):
    hurried = KBQAToolbox(open_kg(toy_sparql_kg), toy_sparql_kg, query_limits=QueryLimits(seconds=0.3))
    product = " . ".join(f"?a{i} ?b{i} ?c{i}" for i in range(8))
    action = f"ExecuteSPARQL('SELECT (COUNT(*) AS ?n) {{ {product} }}')"
    assert (hurried.run(action).observation.status, hurried.run(action).executed) == ("kg_timeout", None)
    assert hurried.run(action) is hurried.run(action)  # it is not run again


def test_an_outage_is_no_emptiness(toy_sparql_kg, monkeypatch):
    store = open_kg(toy_sparql_kg)

    def down(*_):
        raise KGUnavailable("down", kind="reset")

    box = KBQAToolbox(store, toy_sparql_kg)
    monkeypatch.setattr(store, "execute", down)
    observation = box.run("ExecuteSPARQL('ASK { ?x ?y ?z }')").observation
    assert (observation.status, observation.outage) == ("kg_error", "reset")
    monkeypatch.undo()
    assert box.run("ExecuteSPARQL('ASK { ?x ?y ?z }')").observation.text == "True"  # it was not kept


def test_types(tools, toy_sparql_kg):
    assert said(tools, 'SearchTypes("countries")') == ("ok", "['location.country']")
    status, text = said(KBQAToolbox(open_kg(toy_sparql_kg), toy_sparql_kg), 'SearchTypes("country")')
    assert status == "bad_query" and "no tool SearchTypes here" in text


def test_two_toolboxes_say_the_same(tools, toy_sparql_kg):
    other = KBQAToolbox(open_kg(toy_sparql_kg), toy_sparql_kg, "grailqa")
    for action in ('SearchNodes("Ann")', patterns(FRANCE, "country"), "ExecuteSPARQL('SELECT ?x { ?x ?y ?z }')"):
        assert other.run(action) == tools.run(action)


def test_a_ranker_of_ones_own(toy_sparql_kg):
    def longest(meaning, texts):
        return [len(text) for text in texts]

    box = KBQAToolbox(open_kg(toy_sparql_kg), toy_sparql_kg, ranker=longest)
    assert said(box, patterns(FRANCE, "capital"))[1].startswith("[(?e, location.location.adjoin_s -> ")


def test_a_store_without_sparql_says_what_to_do(toy_kg):
    with pytest.raises(UserError, match="--store oxigraph"):
        KBQAToolbox(open_kg(toy_kg), toy_kg)


@given(
    st.text()
    | st.sampled_from(["a\nAction: Done", "<|im_end|>", "<start_of_turn>model", "</information>", "x\u2028y\\"])
)
def test_no_name_forges_a_turn(name):
    for text in (quoted(name), listed([name]), listed([(name, None)]), plain(name), typed(f'"{"a"}"')):
        assert len(text.splitlines()) <= 1
        assert not any(tag in text for tag in ("<|", "<start_of_turn>", "</information>"))
        assert parse_turn(f"Observation: {text}").kind != "query" or "Action:" in name


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=10))
def test_a_name_can_be_copied_into_a_query_as_it_is_seen(name):
    from graphwalker.kg.sparql_tokens import tokenize

    action = f"ExecuteSPARQL('ASK {{ ?e ns:type.object.name {quoted(name)}@en }}')".replace("\0", "")
    call = parse_call(action)
    strings = [token.text for token in tokenize(call.arguments["sparql"]) if token.kind == "STRING"]
    assert strings == [name.replace("\0", "")]


@pytest.fixture(scope="module")
def qualified(tmp_path_factory):
    """The tools on a KB like KQA Pro's: a town with a mayor since a date, a number of people, a year."""
    from data_pipelines.importers import kgs

    since = {"start time": [{"type": "date", "value": "1999-1-2"}]}
    town = [
        {"key": "population", "value": {"type": "quantity", "value": 1200, "unit": "1"}, "qualifiers": {}},
        {"key": "elevation", "value": {"type": "quantity", "value": 7.5, "unit": "metre"}, "qualifiers": {}},
        {"key": "inception", "value": {"type": "year", "value": 1066}, "qualifiers": {}},
    ]
    mayor = {"predicate": "head of government", "object": "Q2", "direction": "forward", "qualifiers": since}
    kb = {
        "concepts": {"Q10": {"name": "town"}, "Q12": {"name": "human"}},
        "entities": {
            "Q1": {"name": "Old Town", "instanceOf": ["Q10"], "attributes": town, "relations": [mayor]},
            "Q2": {"name": "Ann Lee", "instanceOf": ["Q12"], "attributes": [], "relations": []},
        },
    }
    folder = tmp_path_factory.mktemp("kqapro")
    (folder / "kb.json").write_text(json.dumps(kb), "utf-8")
    kgs.build("kqapro", folder / "kb.json", folder / "kg", store="oxigraph", progress=False)
    return KBQAToolbox(open_kg(folder / "kg"), folder / "kg", "kqapro")


HELD = "{ ?e <head_of_government> ?t . [ <pred:fact_h> ?e ; <pred:fact_r> <head_of_government> ; <pred:fact_t> ?t ]"
TOWN = '{ ?e <pred:name> "Old Town" . }'


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ('SearchNodes("town")', "['town | concept', 'Old Town | entity']"),
        (
            f"SearchGraphPatterns('SELECT ?e WHERE {TOWN}', semantic=\"population\")",
            "['?e <population> ?pv . ?pv <pred:value> \"1200\"^^xsd:double . ?pv <pred:unit> \"1\" .', ",
        ),
        (
            f"SearchGraphPatterns('SELECT ?e WHERE {TOWN}', semantic=\"inception\")",
            "['?e <inception> ?pv . ?pv <pred:year> 1066 .', ",
        ),
        (
            f"SearchGraphPatterns('SELECT ?e WHERE {TOWN}', semantic=\"government head\")",
            "['?e <head_of_government> ?t . ?t <pred:name> \"Ann Lee\" .', ",
        ),
        (
            "SearchGraphPatterns('SELECT ?e WHERE { ?e <pred:name> \"Ann Lee\" . }', semantic=\"government\")",
            "['?h <head_of_government> ?e . ?h <pred:name> \"Old Town\" .', ",
        ),
        ("SearchGraphPatterns('SELECT ?e WHERE {}', semantic=\"year of inception\")", "['<inception>', "),
        (f"ExecuteSPARQL('SELECT ?t WHERE {HELD} <start_time> ?q . }}')", "['Ann Lee']"),
        (f"ExecuteSPARQL('SELECT DISTINCT ?q WHERE {HELD} <start_time> ?q . }}')", "['\"1999-01-02\"^^xsd:date']"),
        (
            f"ExecuteSPARQL('SELECT DISTINCT ?p (SAMPLE(?v) AS ?v) WHERE {HELD} ?p ?v . }}')",
            "[('pred:fact_h', 'Old Town'), ('pred:fact_r', 'head_of_government'), ('pred:fact_t', 'Ann Lee'), "
            "('start_time', '\"1999-01-02\"^^xsd:date')]",
        ),
    ],
)  # fmt: skip
def test_kqapro(qualified, action, text):
    status, shown = said(qualified, action)
    assert (status, shown[: len(text)]) == ("ok", text)


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (f"SELECT ?pv WHERE {TOWN[:-1]} ?e <population> ?pv . }}", ("1200",)),
        (f"SELECT ?pv WHERE {TOWN[:-1]} ?e <elevation> ?pv . }}", ("7.5 metre",)),
        (f"SELECT ?pv WHERE {TOWN[:-1]} ?e <inception> ?pv . }}", ("1066",)),
        (f"ASK {TOWN}", ("yes",)),
    ],
)
def test_answers_as_kqapro_has_them(qualified, query, answer):
    assert qualified.run(f"ExecuteSPARQL('{query}')").executed.answer == answer
