"""A query taken apart: patterns with their depth, what stands beside them, and what is refused."""

import pytest

from graphwalker.errors import QueryRefused
from graphwalker.kg.dialect import normal_tokens
from graphwalker.kg.sparql_patterns import query_parts
from graphwalker.kg.sparql_tokens import spell, tokenize

QUERY = """PREFIX : <http://e/> SELECT DISTINCT ?x WHERE {
FILTER (?x != :m) FILTER (!isLiteral(?x) OR lang(?x) = '') :m :a ?y ; :b [ :q ?z ; :r "u"@en ] , 5 . ?y :e/:f ?x
OPTIONAL { ?x :o ?p } FILTER(NOT EXISTS {?y :from ?s} || EXISTS {?y :from ?t . FILTER(?t <= 3)})
{?x :u ?a} UNION {?x :v ?a} MINUS { ?x :w 1 } VALUES ?z { 1 } BIND(2 AS ?two) . ?x :l ?l
} ORDER BY ?l LIMIT 1"""


def parts(query: str):
    return query_parts(normal_tokens(tokenize(query), dates=False))


def spelt(tokens) -> str:
    return spell(tokens).replace("<http://e/", ":").replace(">", "")


def test_patterns_with_their_depth():
    found = [(spelt(p.subject), spelt(p.predicate), spelt(p.object), p.depth) for p in parts(QUERY).patterns]
    assert found == [
        (":m", ":a", "?y", 1),
        (":m", ":b", "?blank1", 1),
        ("?blank1", ":q", "?z", 1),
        ("?blank1", ":r", '"u" @en', 1),
        (":m", ":b", "5", 1),
        ("?y", ":e / :f", "?x", 1),
        ("?x", ":o", "?p", 2),
        ("?y", ":from", "?s", 2),
        ("?y", ":from", "?t", 2),
        ("?x", ":u", "?a", 2),
        ("?x", ":v", "?a", 2),
        ("?x", ":w", "1", 2),
        ("?x", ":l", "?l", 1),
    ]


def test_what_stands_beside_them():
    query = parts(QUERY)
    assert spelt(query.head) == "SELECT DISTINCT ?x WHERE" and spelt(query.tail) == "ORDER BY ?l LIMIT 1"
    assert [spelt(part).split("(")[0].split(" {")[0] for part in query.rest] == [
        *["FILTER", "FILTER", "OPTIONAL", "FILTER", "{ ?x :u ?a } UNION", "MINUS", "VALUES ?z", "BIND"]
    ]
    assert spelt(query.rest[3]).count("EXISTS") == 2 and spelt(query.rest[-1]) == "BIND( 2 AS ?two )"


def test_a_query_in_a_query():
    query = parts("SELECT (COUNT(?x) AS ?n) { SELECT DISTINCT ?x { [] <http://e/a> ?x } LIMIT 2 }")
    assert [(spelt(p.predicate), p.depth) for p in query.patterns] == [(":a", 2)]
    assert [spelt(part) for part in query.rest] == ["SELECT DISTINCT ?x { [ ] :a ?x } LIMIT 2"]


@pytest.mark.parametrize(
    "query",
    ["SELECT ?x { ?x <http://e/a> (1 2) }", "SELECT ?x {", "DELETE WHERE { ?s ?p ?o }", "ASK { a . b . c }", ""],
)
def test_what_is_refused(query):
    with pytest.raises(QueryRefused):
        parts(query)
