"""Virtuoso's SPARQL as standard SPARQL, and every gold query of the data sets at hand."""

import json
from collections import Counter

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwalker.errors import QueryRefused
from graphwalker.kg.dialect import normalise
from graphwalker.kg.sparql_grammar import structure
from graphwalker.kg.sparql_tokens import Token, spell, tokenize

NS = "http://rdf.freebase.com/ns/"
XSD = "http://www.w3.org/2001/XMLSchema#"


@pytest.mark.parametrize(
    ("written", "standard"),
    [
        ("PREFIX ns: <http://x/> SELECT ?x {?x ns:a.b.c ns:m.0_1}",
         "SELECT ?x { ?x <http://x/a.b.c> <http://x/m.0_1> }"),
        ("prefix : <http://x/> ask {?x :a ?y}", "ask { ?x <http://x/a> ?y }"),
        ("PREFIX <http://x/> SELECT ?x {?x people.a_b.c m.0}",
         "SELECT ?x { ?x <http://x/people.a_b.c> <http://x/m.0> }"),
        ("BASE <http://x/y> SELECT * {<z> a <#w>}", "SELECT * { <http://x/z> a <http://x/y#w> }"),
        ("SELECT ?x {?x a ?y FILTER(?x=1 OR ?x=2 and NOT(?x=3))}",
         "SELECT ?x { ?x a ?y FILTER( ?x = 1 || ?x = 2 && ! ( ?x = 3 ) ) }"),
        ("SELECT ?x {FILTER(NOT EXISTS {?x a ?y})}", "SELECT ?x { FILTER( NOT EXISTS { ?x a ?y } ) }"),
        ("SELECT COUNT(*) {?x a ?y}", "SELECT( COUNT( * ) AS ?count ) { ?x a ?y }"),
        ("SELECT distinct max(?x) as ?m {?x a ?y}", "SELECT( max( DISTINCT ?x ) AS ?m ) { ?x a ?y }"),
        ("SELECT ?x {?x a 'it''s' # OR\n}", "SELECT ?x { ?x a \"it\" \"s\" }"),
        ("SELECT ?x {?x a 'xsd:datetime(?y) OR ns:a.b', <http://x/OR>}",
         "SELECT ?x { ?x a \"xsd:datetime(?y) OR ns:a.b\" , <http://x/OR> }"),
        ('SELECT $x {?x a """a"b\nc""", \'\'\'d\'e\'\'\', \'f"g\\\'\', "h\\u0022\\u000A\\\\u0041"}',
         'SELECT ?x { ?x a "a\\"b\\nc" , "d\'e" , "f\\"g\'" , "h\\"\\n\\\\u0041" }'),
        ("SELECT ?x {?x a true.optional{?x a ?y}}", "SELECT ?x { ?x a true . optional { ?x a ?y } }"),
        ("SELECT ?x {?x ns:a\\-b -1.5e3, +2 FILTER(?x<?y && ?z>?w)}",
         f"SELECT ?x {{ ?x <{NS}a-b> -1.5e3 , +2 FILTER( ?x < ?y && ?z > ?w ) }}"),
        ('SELECT ?x {?x a "1982"^^xsd:datetime}', f'SELECT ?x {{ ?x a "1982" ^^ <{XSD}gYear> }}'),
        ('SELECT ?x {?x a "1982-05-06T00:00:00"^^xsd:dateTime}',
         f'SELECT ?x {{ ?x a "1982-05-06T00:00:00" ^^ <{XSD}dateTime> }}'),
    ],
)  # fmt: skip
def test_what_is_written_and_what_is_run(written, standard):
    assert normalise(written) == standard
    assert normalise(standard) == standard


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT ?x { ?x dbo:a ?y }", "the prefix 'dbo:' is not declared"),
        ("SELECT ?x { <a> a ?y }", "<a> is not a whole IRI"),
        ("SELECT ?x { ?x a 'open }", 'not SPARQL at "\'open }"'),
        ("SELECT ?x { ?x a '\\q' }", "unknown escape"),
        ("SELECT ?x { ?x a '\\u12' }", "broken escape"),
        ("SELECT ?x { ?x a '\\uD800' }", "surrogate"),
        ("SELECT ?x { ?x a '\0' }", "NUL"),
        ("PREFIX x SELECT", "PREFIX that declares nothing"),
        ("SELECT COUNT(?x {", "parenthesis"),
        ("SELECT COUNT", "parenthesis"),
    ],
)
def test_what_is_no_sparql_is_said_in_one_line(text, reason):
    with pytest.raises(QueryRefused, match=reason) as caught:
        normalise(text)
    assert "\n" not in str(caught.value)


DATES = {
    "y": ("1990", "gYear"),
    "m": ("1990-01", "gYearMonth"),
    "d": ("1990-07-01", "date"),
    "t": ("1991-01-01T00:00:00", "dateTime"),
    "old": ("1880-01-01", "date"),
}


@pytest.fixture(scope="module")
def dated():
    """A store of entities with dates as Freebase has them."""
    store = ox.Store()
    for name, (value, kind) in DATES.items():
        term = ox.Literal(value, datatype=ox.NamedNode(XSD + kind))
        store.add(ox.Quad(ox.NamedNode(NS + name), ox.NamedNode(NS + "p.q.r"), term))
    return store


def test_dates_are_ordered_as_in_virtuoso(dated):
    query = normalise("SELECT ?x { ?x ns:p.q.r ?d } ORDER BY DESC(xsd:datetime(?d)) xsd:datetime(?d)")
    ordered = [row[0].value[len(NS) :] for row in dated.query(query)]
    assert ordered[:2] == ["t", "d"] and ordered[-1] == "old"


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ('xsd:datetime(?d) <= "1990"^^xsd:dateTime', {"y", "m", "old"}),
        ('?d > "1990-06-01"^^xsd:dateTime', {"d", "t"}),
        ('"1990-06-01"^^xsd:dateTime > ?d', {"y", "m", "old"}),
        ('xsd:datetime(?d) = xsd:datetime("1990-01"^^xsd:gYearMonth)', {"y", "m"}),
        ("year(xsd:datetime(?d)) = 1990", {"y", "m", "d"}),
    ],
)
def test_dates_compare_as_in_virtuoso(dated, condition, found):
    query = normalise(f"SELECT ?x {{ ?x ns:p.q.r ?d FILTER({condition}) }}")
    assert {row[0].value[len(NS) :] for row in dated.query(query)} == found


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)


@settings(deadline=None)  # wall-clock time, which a busy machine stretches
@given(texts)
def test_a_string_survives_in_every_spelling(value):
    assert tokenize(spell([Token("STRING", value)])) == [Token("STRING", value)]
    escaped = "".join(f"\\U{ord(character):08x}" for character in value)
    assert tokenize(f'"{escaped}"') == tokenize(f"'''{escaped}'''") == [Token("STRING", value)]


@settings(deadline=None)
@given(st.text(st.sampled_from("abz:?$<>{}()[]\"'\\u0041#\n .,;|&^!=*/+-_@é"), max_size=40))
def test_spelling_a_query_again_changes_nothing(text):
    try:
        tokens = tokenize(text)
    except QueryRefused:
        return
    assert [t for t in tokenize(spell(tokens)) if t.kind != "DOTTED"] == [t for t in tokens if t.kind != "DOTTED"]


def gold_queries(folder):
    """(data set, query) for all gold SPARQL."""

    def strings(value):
        if isinstance(value, dict):
            for key, inner in value.items():
                if isinstance(inner, str) and "sparql" in key.lower():
                    yield inner
                else:
                    yield from strings(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from strings(inner)

    files = [folder / "webqsp/WebQSP.train.json", *sorted((folder / "samples").rglob("*.json"))]
    for file in filter(lambda f: f.is_file(), files):
        for query in strings(json.loads(file.read_text("utf-8"))):
            if "{" in query:
                yield file.name, query


def test_every_gold_query_parses_here_and_in_the_engine(data_dir):
    store, counts, failed = ox.Store(), Counter(), []
    for name, query in gold_queries(data_dir):
        counts[name] += 1
        try:
            standard = normalise(query)
            structure(tokenize(standard))
            store.query(standard)
        except (QueryRefused, SyntaxError) as error:
            failed.append((name, str(error), query))
    assert not failed
    assert len(counts) >= 6 and sum(counts.values()) > 1000
