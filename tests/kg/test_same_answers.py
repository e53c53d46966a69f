"""Both stores answer alike on random graphs (the in-memory one by arrays, Oxigraph by SPARQL)."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphwalker.kg.build import build_from_triples
from graphwalker.kg.open import open_kg
from graphwalker.kg.terms import XSD, literal

NODES = ["m.a", "m.b", "m.c", "m.d", "_:x", "_:y", "<http://other.org/o>", "<http://other.org/Long_Name>"]
RELATIONS = ["r.one", "r.two", "r.three", "type.hidden", "r.one.r.two"]  # the last prints like a flattened pair
NAMES = ["Ann", "ann", "ANN", "Straße", "STRASSE", "", "m.a", 'q"\\\n', "東京"]
LITERALS = [
    literal("7", datatype=XSD + "integer"),
    literal("7"),
    literal("Ann", "en"),
    literal("Ann", "de"),
    literal(""),
]
node, relation = st.sampled_from(NODES), st.sampled_from(RELATIONS)
label = st.builds(literal, st.sampled_from(NAMES), st.sampled_from(["en", "", "de"]))
triple = st.one_of(
    st.tuples(node, relation, node),
    st.tuples(node, relation, node),
    st.tuples(node, relation, node | st.sampled_from(LITERALS)),
    st.tuples(node, st.sampled_from(["type.object.name", "common.topic.alias"]), label),
    st.tuples(node, st.just("type.object.type"), node),
    st.tuples(
        st.sampled_from(RELATIONS[:3]), st.just("type.property.reverse_property"), st.sampled_from(RELATIONS[:3])
    ),
)
FOLDED = {name: None for n in NAMES for name in (n, n.upper(), n.lower())}


def answers(store):
    """Everything a store can be asked about these terms."""
    terms = [n.strip("<>") for n in NODES] + LITERALS + ["m.none", "r.one"]
    relations = [*RELATIONS, *store.vocabulary(), "none"]
    yield "len", len(store)
    yield "triples", sorted((t.head, t.relation, t.tail) for t in store)
    yield "vocabulary", list(store.vocabulary())
    yield "names", store.names(terms)
    for name in FOLDED:
        yield name, store.named(name), store.named(name, ignore_case=True)
    for term in terms:
        yield term, store.has_node(term), store.is_mediator(term), store.types(term), store.aliases(term)
        yield term, store.steps(term)
        yield term, [store.expand(term, relations, limit) for limit in (0, 1, 5)]
        yield term, list(store.match(head=term)), list(store.match(tail=term))


quick = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
thorough = settings(quick, max_examples=100)
graphs = st.lists(triple, min_size=1, max_size=25)


def check(schema, triples):
    with tempfile.TemporaryDirectory() as folder:
        stores = [
            open_kg(build_from_triples(triples, Path(folder) / kind, schema, store=kind))
            for kind in ("memory", "oxigraph")
        ]
        for one, other in zip(*map(answers, stores), strict=True):
            assert one == other
        for store in stores:
            store.close()


@pytest.mark.parametrize("schema", ["freebase", "rdf"])
@quick
@given(triples=graphs)
def test_stores_answer_alike(schema, triples):
    check(schema, triples)


@pytest.mark.slow
@pytest.mark.parametrize("schema", ["freebase", "rdf"])
@thorough
@given(triples=graphs)
def test_stores_answer_alike_on_many_graphs(schema, triples):
    check(schema, triples)
