"""The paths that published SPARQL spells."""

import pytest

from data_pipelines.importers.patterns import NoPath, branches, constants, named_constants, read_pattern, topics_in

NS = "PREFIX ns: <http://rdf.freebase.com/ns/>\n"
LANG = "FILTER (!isLiteral(?x) OR lang(?x) = '' OR langMatches(lang(?x), 'en'))"


def paths(sparql, *prefixes):
    pattern = read_pattern(sparql)
    found = branches(
        pattern.edges, pattern.answer, topics_in(pattern.edges, prefixes or ("m.", "Q")), pattern.constraints
    )
    return dict(zip(found.topics, found.paths, strict=True)), found.constraints


@pytest.mark.parametrize(
    ("sparql", "expected", "constraints"),
    [
        (NS + "SELECT DISTINCT ?x WHERE { ns:m.1 ns:a.b.c ?x . }", {"m.1": ("a.b.c",)}, False),
        (NS + f"SELECT ?x WHERE {{ FILTER (?x != ns:m.1) {LANG} ns:m.1 ns:a.b ?x }}", {"m.1": ("a.b",)}, False),
        (
            NS + "SELECT ?x { ?c ns:r ns:m.1 . ?c ns:s ?x . ?x ns:t ?d . ?d ns:u ns:m.2 }",
            {"m.1": ("^r", "s"), "m.2": ("^u", "^t")},
            False,
        ),
        (
            NS + "SELECT ?x { ns:m.1 ns:r ?c . ?c ns:s ?x . ?c ns:t ns:m.2 }",
            {"m.1": ("r", "s"), "m.2": ("^t", "s")},
            True,
        ),
        (NS + 'SELECT ?x { ns:m.1 ns:r ?x . ?x ns:n ?v . FILTER (?v > "3"^^xsd:int) }', {"m.1": ("r",)}, True),
        (NS + "SELECT ?x { ns:m.1 ns:r ?x } ORDER BY DESC(?x) LIMIT 1", {"m.1": ("r",)}, True),
        (NS + "SELECT ?x { ns:m.1 ns:r ?x OPTIONAL { ?x ns:s ?y } }", {"m.1": ("r",)}, False),
        ("SELECT (COUNT(DISTINCT ?x) AS ?n) { wd:Q1 wdt:P2 ?x . }", {"Q1": ("wdt:P2",)}, True),
        ("select distinct ?o where { wd:Q1 wdt:P2 ?o . ?o wdt:P31 wd:Q3 }", {"Q1": ("wdt:P2",)}, True),
        ("SELECT ?x { wd:Q1 p:P39/ps:P39 ?x ; wdt:P1 ?x , wd:Q4 . }", {"Q1": ("wdt:P1",)}, True),
        ("SELECT ?x { wd:Q1 p:P39/ps:P39 ?x }", {"Q1": ("p:P39", "ps:P39")}, False),
    ],
)
def test_paths(sparql, expected, constraints):
    assert paths(sparql) == (expected, constraints)


def test_dbpedia_terms_stay_whole():
    base = "http://dbpedia.org/"
    found, _ = paths(
        f"SELECT DISTINCT ?uri WHERE {{?uri <{base}ontology/a> <{base}resource/B_(c)> . }}", base + "resource/"
    )
    assert found == {base + "resource/B_(c)": (f"^{base}ontology/a",)}


@pytest.mark.parametrize(
    ("sparql", "why"),
    [
        ("ASK { wd:Q1 wdt:P2 wd:Q3 }", "form ASK"),
        ("SELECT ?x { { wd:Q1 wdt:P2 ?x } UNION { wd:Q1 wdt:P3 ?x } }", "a group"),
        ("SELECT ?x { wd:Q1 wdt:P31/wdt:P279* ?x }", "property path"),
        ("SELECT ?x ?y { ?x wdt:P2 ?y }", "2 variables"),
        ("SELECT ?x { ?x wdt:P2", "cut off"),
        ("SELECT ?x { other:Q1 wdt:P2 ?x }", "prefix 'other'"),
        ("", "cut off"),
        ("SELECT ?p { wd:Q1 ?p wd:Q2 }", "asks for a relation"),
    ],
)
def test_what_spells_no_path_says_why(sparql, why):
    with pytest.raises(NoPath, match=why):
        read_pattern(sparql)


def test_constants_and_names():
    assert constants("ASK { wd:Q1 wdt:P2 wd:Q3 . wd:Q1 wdt:P4 'wd:Q9' }", ("Q",)) == ["Q1", "Q3"]
    raw = NS + "SELECT ?x { ns:m.1 ns:r ?x . ?x ns:s ns:m.2 }"
    named = (
        NS
        + 'SELECT ?x { ?e0 ns:type.object.name "A"@en . ?e0 ns:r ?x . '
        + '?e1 ns:type.object.name "B \\" C"@en . ?x ns:s ?e1 }'
    )
    assert named_constants(named, raw, ["m.1", "m.2"]) == {"m.1": "A", "m.2": 'B \\" C'}
