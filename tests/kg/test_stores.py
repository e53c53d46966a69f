"""One class of tests that every store passes with the same answers."""

import pickle

import pytest

from graphwalker.kg.build import build_kg
from graphwalker.kg.open import open_kg
from graphwalker.kg.store import Step
from graphwalker.types import Triple

CONTAINS, WITHIN = "location.location.contains", "location.location.containedby"
ADJOINS = "location.location.adjoin_s.location.adjoining_relationship.adjoins"
BORN, AREA = "people.person.place_of_birth", "location.location.area"


@pytest.fixture(
    scope="module",
    params=[
        "memory",
        "oxigraph",
        "oxigraph server",
        pytest.param("virtuoso server", marks=pytest.mark.virtuoso),
    ],
)
def store(request, toy_nt, tmp_path_factory, connected):
    kind, _, server = request.param.partition(" ")
    if server:
        folder = connected(kind, toy_nt)
    else:
        folder = build_kg(toy_nt, tmp_path_factory.mktemp("kg") / "kg", "freebase", store=kind, progress=False)
    opened = open_kg(folder)
    yield opened
    opened.close()


def found(store, node, relation, limit=99):
    (expansion,) = store.expand(node, [relation], limit)
    return [(t.head, t.relation, t.tail) for t in expansion.triples], expansion.total


class TestStore:
    def test_is_a_container_of_triples(self, store):
        triples = list(store)
        assert len(store) == len(triples) == len(set(triples)) == 28
        assert all(triple in store for triple in triples)
        assert ("m.fr", "location.country.capital", "m.paris") in store
        assert Triple("m.fr", "location.country.capital", "m.lyon") not in store
        assert ("m.fr", "nothing", "m.paris") not in store and "m.fr" not in store

    def test_match_takes_wildcards_and_hides_nothing(self, store):
        assert [t.tail for t in store.match("m.fr", CONTAINS)] == ["m.lyon", "m.paris"]
        assert [t.head for t in store.match(None, BORN, "m.paris")] == ["m.ann1", "m.odd"]
        assert [t.relation for t in store.match("m.fr", None, "m.paris")] == ["location.country.capital", CONTAINS]
        assert len(list(store.match("m.fr", "type.object.name"))) == 2
        assert len(list(store.match(relation="type.object.name"))) == 8
        assert [t.head for t in store.match(tail='"Spain"@en')] == ["m.es"]
        for nothing in (
            {"head": "m.none"},
            {"relation": "none"},
            {"tail": "not an id"},
            {"head": '"Spain"@en'},
            {"head": ""},
        ):
            assert list(store.match(**nothing)) == []

    def test_names(self, store):
        assert store.names(["m.fr", "m.cvt1", "m.none", '"543"^^<http://www.w3.org/2001/XMLSchema#decimal>', ""]) == [
            "France", None, None, "543", None]  # fmt: skip
        assert store.names(["m.odd"]) == ['A "B", </information> \\ (東京)']
        assert store.names([]) == []
        assert store.aliases("m.fr") == ["French Republic"] and store.aliases("m.none") == []

    def test_named_prefers_most_types(self, store):
        assert store.named("Ann Lee") == ["m.ann2", "m.ann1"]
        assert store.named("ann lee") == [] and store.named("aNN lee", ignore_case=True) == ["m.ann2", "m.ann1"]
        assert store.named('A "B", </information> \\ (東京)') == ["m.odd"]
        assert store.named("Frankreich") == store.named("French Republic") == store.named("") == []

    def test_types_and_mediators(self, store):
        assert store.types("m.fr") == ["location.country", "location.location"] and store.types("m.none") == []
        assert store.is_mediator("m.cvt1")
        assert not any(map(store.is_mediator, ["m.fr", "m.none", '"Spain"@en', ""]))
        assert store.has_node("m.cvt1") and store.has_node('"Spain"@en') and store.has_node("location.country")
        assert not any(map(store.has_node, ["m.none", '"Spain"', "a b", "", '"broken']))

    def test_vocabulary_is_visible_sorted_and_flattened(self, store):
        assert list(store.vocabulary()) == ["location.country.capital", ADJOINS, AREA, WITHIN, CONTAINS, BORN]

    def test_steps_go_both_ways_without_declared_reverses(self, store):
        parts = ("location.location.adjoin_s", "location.adjoining_relationship.adjoins")
        assert store.steps("m.fr") == [
            Step("location.country.capital", False, ("location.country.capital",)),
            Step(ADJOINS, False, parts),
            Step(ADJOINS, True, parts),
            Step(AREA, False, (AREA,)),
            Step(CONTAINS, False, (CONTAINS,)),
        ]
        assert [(s.relation, s.inverse) for s in store.steps("m.paris")] == [
            ("location.country.capital", True), (WITHIN, False), (BORN, True)]  # fmt: skip
        for nothing in ("m.none", "m.cvt1", '"Spain"@en', ""):
            assert store.steps(nothing) == []

    def test_expand_sorts_by_direction_and_name(self, store):
        assert found(store, "m.fr", CONTAINS) == ([("m.fr", CONTAINS, "m.lyon"), ("m.fr", CONTAINS, "m.paris")], 2)
        assert found(store, "m.fr", CONTAINS, limit=1) == ([("m.fr", CONTAINS, "m.lyon")], 2)
        assert found(store, "m.fr", CONTAINS, limit=0) == ([], 2)
        assert found(store, "m.paris", BORN) == ([("m.odd", BORN, "m.paris"), ("m.ann1", BORN, "m.paris")], 2)
        assert found(store, "m.fr", AREA) == (
            [("m.fr", AREA, '"543965"^^<http://www.w3.org/2001/XMLSchema#decimal>')],
            1,
        )

    def test_expand_crosses_mediators_but_never_back(self, store):
        both = [("m.fr", ADJOINS, "m.es"), ("m.es", ADJOINS, "m.fr")]
        assert found(store, "m.fr", ADJOINS) == (both, 2)
        assert found(store, "m.fr", "location.location.adjoin_s") == (both[:1], 1)  # a bare first half

    def test_expand_follows_a_left_out_reverse_when_asked(self, store):
        assert found(store, "m.paris", CONTAINS) == ([("m.fr", CONTAINS, "m.paris")], 1)

    def test_expand_of_what_is_not_there(self, store):
        expansions = store.expand("m.fr", ["none", "type.object.name", BORN, CONTAINS], 5)
        assert [(e.relation, e.total) for e in expansions] == [
            ("none", 0),
            ("type.object.name", 0),
            (BORN, 0),
            (CONTAINS, 2),
        ]
        assert store.expand("m.fr", [], 5) == [] and found(store, "m.none", CONTAINS) == ([], 0)

    def test_travels_to_another_process(self, store):
        copy = pickle.loads(pickle.dumps(store))
        assert copy.steps("m.fr") == store.steps("m.fr")
