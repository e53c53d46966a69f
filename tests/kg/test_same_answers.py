"""The stores answer alike on random graphs: by arrays, by SPARQL that works answers out, by edges read whole."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphwalker.kg import near
from graphwalker.kg.build import build_from_triples, build_kg
from graphwalker.kg.near import NearStore
from graphwalker.kg.open import open_kg
from graphwalker.kg.oxigraph import OxigraphStore
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


class Near(NearStore, OxigraphStore):
    """What an endpoint's store does, in this process."""

    def __init__(self, folder):
        super().__init__(folder, at_once=1)

    def _together(self, queries):
        return list(map(self.rows, queries))


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
        stores.append(Near(stores[1].path))
        for one, *others in zip(*map(answers, stores), strict=True):
            assert others == [one, one]
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


def test_entities_with_too_many_edges_are_told_from_those_read_beside_them(toy_nt, tmp_path, monkeypatch):
    store = Near(build_kg(toy_nt, tmp_path / "kg", "freebase", store="oxigraph", progress=False))
    nodes = sorted({t.head for t in store if not t.head.startswith("_:")})
    whole = dict(zip(nodes, store._read(nodes), strict=True))
    assert None not in whole.values() and not store._read(["m.none"])[0].known
    for bound in (1, 3, 6, 9, 30):
        monkeypatch.setattr(near, "EDGES", bound)
        few = {
            node for node in nodes if max(len(list(store.match(head=node))), len(list(store.match(tail=node)))) < bound
        }
        read = dict(zip(nodes, store._read(nodes), strict=True))
        assert {node for node in nodes if read[node]} == few
        assert all(read[node] == whole[node] for node in few)
        assert len(few) == {1: 0, 30: len(nodes)}.get(bound, len(few))
