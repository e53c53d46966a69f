"""The stores answer alike on random graphs: by arrays, by a query for each question, by one for several."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphwalker.kg import together
from graphwalker.kg.build import build_from_triples, build_kg
from graphwalker.kg.open import open_kg
from graphwalker.kg.oxigraph import OxigraphStore
from graphwalker.kg.sparql_store import SparqlStore
from graphwalker.kg.terms import XSD, literal
from graphwalker.kg.together import TogetherStore

NODES = ["m.a", "m.b", "m.c", "m.d", "_:x", "_:y", "<http://other.org/o>", "<http://other.org/Long_Name>"]
OTHERS = ["m.a", "m.b", "http://other.org/o"]
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


class Together(TogetherStore, OxigraphStore):
    """Asks about everything together with something else, as an endpoint's store does for several threads."""

    def __init__(self, folder):
        super().__init__(folder, at_once=1)

    def _fetch(self, sparql):
        return OxigraphStore.rows(self, sparql)

    def _rows_around(self, node):
        return self._ask_around(list(dict.fromkeys([node, *OTHERS])))[0]

    def _rows_of_ends(self, node, steps, most):
        return self._ask_ends([(other, tuple(steps)) for other in dict.fromkeys([node, *OTHERS])])[0]


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
        stores.append(Together(stores[1].path))
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


def test_each_of_several_gets_what_it_gets_alone(toy_nt, tmp_path, monkeypatch):
    store = Together(build_kg(toy_nt, tmp_path / "kg", "freebase", store="oxigraph", progress=False))
    nodes = [*sorted({t.head for t in store if not t.head.startswith("_:")}), "m.none"]

    def told(rows):
        return {tuple(sorted((key, text) for key, text in row.items() if key != "e")) for row in rows}

    alone = [told(SparqlStore._rows_around(store, node)) for node in nodes]
    asked = [(node, tuple(enumerate(steps, 3))) for node in nodes if (steps := store.walks(node))]
    ends = [told(SparqlStore._rows_of_ends(store, node, steps, 99)) for node, steps in asked]
    assert sum(map(len, alone)) > 30 and sum(map(len, ends)) > 20
    for bound in (30, 9, 3):  # with fewer rows allowed they are asked about in smaller groups
        monkeypatch.setattr(together, "HUB", bound)
        assert [told(rows) for rows in store._ask_ends(asked)] == ends
    monkeypatch.setattr(together, "HUB", 10_000)
    for most in (0, 20, 50):
        monkeypatch.setattr(store, "max_rows", most)
        assert list(map(told, store._ask_around(nodes))) == alone
