"""Wikidata's profile on a few made-up items: statements mediate, instance-of is a type that is shown."""

import pytest

from graphwalker.kg.build import build_kg
from graphwalker.kg.open import open_kg

W = "http://www.wikidata.org/"
PREFIXES = f"""
@prefix wd: <{W}entity/> .
@prefix wds: <{W}entity/statement/> .
@prefix wdt: <{W}prop/direct/> .
@prefix p: <{W}prop/> .
@prefix ps: <{W}prop/statement/> .
@prefix pq: <{W}prop/qualifier/> .
@prefix pqv: <{W}prop/qualifier/value/> .
@prefix pr: <{W}prop/reference/> .
@prefix prov: <http://www.w3.org/ns/prov#> .
@prefix wikibase: <http://wikiba.se/ontology#> .
@prefix schema: <http://schema.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""
ITEMS = """
wd:Q1 rdfs:label "Ann Lee"@en, "Anna Li"@de ; skos:altLabel "A. Lee"@en ; schema:description "a mayor"@en ;
  wdt:P31 wd:Q5 ; wdt:P39 wd:Q7 ; wdt:P569 "1970-01-02T00:00:00Z"^^xsd:dateTime ; p:P39 wds:Q1-abc .
wds:Q1-abc a wikibase:Statement ; wikibase:rank wikibase:NormalRank ; ps:P39 wd:Q7 ;
  pq:P580 "1999-01-01T00:00:00Z"^^xsd:dateTime ; pq:P642 wd:Q8 ; pqv:P580 wd:V1 ; prov:wasDerivedFrom wd:R1 .
wd:Q5 rdfs:label "human"@en . wd:Q7 rdfs:label "mayor"@en . wd:Q8 rdfs:label "Old Town"@mul .
wd:Q9 rdfs:label "Ann Lee"@en .
"""


@pytest.fixture(scope="module", params=["memory", "oxigraph"])
def store(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wikidata")
    (folder / "items.ttl").write_text(PREFIXES + ITEMS, "utf-8")
    return open_kg(
        build_kg(folder / "items.ttl", folder / request.param, "wikidata", store=request.param, progress=False)
    )


def test_names_ids_and_types(store):
    assert store.names(["Q1", "Q7", "Q8"]) == ["Ann Lee", "mayor", "Old Town"] and store.aliases("Q1") == ["A. Lee"]
    assert store.named("Ann Lee") == ["Q1", "Q9"] and store.types("Q1") == ["Q5"]  # the one that has a type first
    assert store.is_mediator("wds:Q1-abc") and not store.is_mediator("Q7")


def test_statements_are_walked_through(store):
    assert [step.relation for step in store.steps("Q1")] == [
        "p:P39.pq:P580",
        "p:P39.pq:P642",
        "p:P39.ps:P39",
        "wdt:P31",
        "wdt:P39",
        "wdt:P569",
    ]
    place, since = store.expand("Q1", ["p:P39.pq:P642", "p:P39.pq:P580"], 5)
    assert [triple.tail for triple in place.triples] == ["Q8"]
    assert store.names([since.triples[0].tail]) == ["1999-01-01T00:00:00Z"]
    (humans,) = store.expand("Q5", ["wdt:P31"], 5)
    assert [triple.head for triple in humans.triples] == ["Q1"]
    assert [step.relation for step in store.steps("Q8")] == ["p:P39.pq:P642"]
