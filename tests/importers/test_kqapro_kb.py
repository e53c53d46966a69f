"""KQA Pro's kb.json, made up after its description, as a KG that the published queries run on."""

import json
import re

import pytest

from data_pipelines.importers import kgs
from graphwalker.errors import FileFormatError
from graphwalker.kg.open import open_kg

QUALIFIED = {
    "point in time": [{"type": "date", "value": "1999-1-2"}],
    "source": [{"type": "string", "value": "census"}],
}
KB = {
    "concepts": {
        "Q10": {"name": "town", "instanceOf": ["Q11"]},
        "Q11": {"name": "place", "instanceOf": []},
        "Q12": {"name": "person", "subclassOf": []},
    },
    "entities": {
        "Q1": {
            "name": "Old  Town",
            "instanceOf": ["Q10"],
            "attributes": [
                {
                    "key": "population",
                    "value": {"type": "quantity", "value": 1200, "unit": "1"},
                    "qualifiers": QUALIFIED,
                },
                {"key": "elevation above sea level", "value": {"type": "quantity", "value": 7.5, "unit": "metre"}},
                {"key": "inception", "value": {"type": "year", "value": 1066}, "qualifiers": {}},
                {"key": "motto text", "value": {"type": "string", "value": 'Say "yes"'}, "qualifiers": {}},
            ],
            "relations": [
                {"predicate": "head of government", "object": "Q2", "direction": "forward", "qualifiers": QUALIFIED},
                {"predicate": "part of", "object": "Q11", "direction": "forward", "qualifiers": {}},
            ],
        },
        "Q2": {
            "name": "Ann Lee",
            "instanceOf": ["Q12"],
            "attributes": [
                {"key": "date of birth", "value": {"type": "date", "value": "1970-03-04"}, "qualifiers": {}}
            ],
            "relations": [
                {"relation": "head of government", "object": "Q1", "direction": "backward", "qualifiers": QUALIFIED}
            ],
        },
    },
}


@pytest.fixture(scope="module")
def kb(tmp_path_factory):
    path = tmp_path_factory.mktemp("kqapro") / "kb.json"
    path.write_text(json.dumps(KB, indent=1), "utf-8")
    return path


@pytest.fixture(scope="module", params=["memory", "oxigraph"])
def store(request, kb, tmp_path_factory):
    out = tmp_path_factory.mktemp("kg") / request.param
    kgs.build("kqapro", kb, out, store=request.param, progress=False)
    return open_kg(out)


def test_what_an_agent_sees(store):
    assert store.named("Old Town") == ["Q1"] and store.types("Q1") == ["Q10", "Q11"]
    relations = {step.relation for step in store.steps("Q1")}
    assert relations == {
        "elevation_above_sea_level.pred:unit",
        "elevation_above_sea_level.pred:value",
        "head_of_government",
        "inception.pred:year",
        "motto_text.pred:value",
        "part_of",
        "population.pred:unit",
        "population.pred:value",
        "pred:instance_of",
    }
    (height,) = store.expand("Q1", ["elevation_above_sea_level.pred:value"], 5)
    assert store.names([height.triples[0].tail]) == ["7.5"]
    (inhabited,) = store.expand("Q10", ["pred:instance_of"], 5)
    assert [triple.head for triple in inhabited.triples] == ["Q1"]


@pytest.mark.parametrize(
    ("sparql", "expected"),
    [
        ('SELECT ?c WHERE { ?e <pred:name> "Old Town" . ?e <pred:instance_of> ?c . ?c <pred:name> "town" . }', ["Q10"]),
        (
            'SELECT ?u WHERE { ?e <pred:name> "Old Town" . ?e <elevation_above_sea_level> ?pv . '
            '?pv <pred:value> "7.5"^^xsd:double . ?pv <pred:unit> ?u . }',
            ['"metre"'],
        ),
        ("SELECT ?e WHERE { ?e <inception> ?pv . ?pv <pred:year> 1066 . }", ["Q1"]),
        (
            "SELECT ?e WHERE { ?e <population> ?pv . ?pv <pred:value> ?v . "
            'FILTER ( ?v > "1000"^^xsd:double ) . '
            "[ <pred:fact_h> ?e ; <pred:fact_r> <population> ; <pred:fact_t> ?pv ] <point_in_time> ?q . "
            ' ?q <pred:date> "1999-01-02"^^xsd:date . }',
            ["Q1"],
        ),
        (
            "SELECT ?v WHERE { "
            "[ <pred:fact_h> ?e ; <pred:fact_r> <head_of_government> ; <pred:fact_t> ?t ] <source> ?q . "
            '?q <pred:value> ?v . ?t <pred:name> "Ann Lee" . }',
            ['"census"'],  # stated from both ends, there once
        ),
    ],
)
def test_published_queries_run(kb, tmp_path_factory, sparql, expected):
    out = tmp_path_factory.getbasetemp() / "queries"
    if not out.exists():
        kgs.build("kqapro", kb, out, store="oxigraph", progress=False)
    store = open_kg(out)
    base = store.schema.namespaces[""]
    whole = re.sub(r"<([^:<>]+)>", rf"<{base}\1>", sparql)  # relative to the KG's namespace
    rows = store.query(f"PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> {whole}")
    assert [next(iter(row.values())) for row in rows] == expected


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("attributes", 0, "value", "type"), "colour", r"field 'attributes\[0\].value': not a string"),
        (("attributes", 2, "value", "value"), "early", r"field 'attributes\[2\].value': .* year 'early'"),
        (
            ("attributes", 0, "qualifiers", "point in time", 0, "value"),
            "x",
            r"attributes\[0\].qualifiers.point in time\[0\]",
        ),
        (("relations", 0, "direction"), "up", r"field 'relations\[0\].direction': expected forward or backward"),
        (("relations", 0, "predicate"), None, r"field 'relations\[0\].predicate' is missing"),
        (("relations", 0, "object"), 5, r"field 'relations\[0\].object': Expected `str`"),
        (("name",), None, "field 'name': Expected `str`"),
    ],
)
def test_what_is_malformed_is_named_and_nothing_is_left(tmp_path, place, value, message):
    kb = json.loads(json.dumps(KB))
    here = kb["entities"]["Q1"]
    for key in place[:-1]:
        here = here[key]
    here[place[-1]] = value
    path = tmp_path / "kb.json"
    path.write_text(json.dumps(kb, indent=1), "utf-8")
    with pytest.raises(FileFormatError, match=rf"kb.json:\d+: record 1: .*{message}"):
        kgs.build("kqapro", path, tmp_path / "kg", progress=False)
    assert [p.name for p in tmp_path.iterdir()] == ["kb.json"]
