"""Shortest paths against a search without any cleverness, on random graphs, and what bounds them."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_pipelines.arg_paths import NO_PATH, NO_PATH_BUT_HUBS, SAME, PathSearch
from graphwalker.kg.hops import Hops
from graphwalker.kg.schema import Schema
from graphwalker.types import Triple


class Store:
    """A handful of triples; ``m…`` nodes are mediators."""

    schema = Schema()

    def __init__(self, triples):
        self.triples = [Triple(*t) for t in sorted(set(triples))]

    def match(self, head=None, relation=None, tail=None):
        wanted = (head, relation, tail)
        return (
            t
            for t in self.triples
            if all(w is None or w == v for w, v in zip(wanted, (t.head, t.relation, t.tail), strict=True))
        )

    def is_mediator(self, node):
        return True  # so that every edge is a hop, both ways

    def names(self, nodes):
        return list(nodes)


def _slow(store, topic, answer, most):
    """All walks of growing length; the first length at which any arrives."""
    walks = [((), topic)]
    for _ in range(most):
        longer = []
        for walk, node in walks:
            for t in store.triples:
                if t.head == node:
                    longer.append(((*walk, ((t.relation, False), t.tail)), t.tail))
                if t.tail == node:
                    longer.append(((*walk, ((t.relation, True), t.head)), t.head))
        walks = longer
        if found := {walk for walk, node in walks if node == answer}:
            return found
    return set()


TRIPLES = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("rs"), st.sampled_from("abcdef")), max_size=9)


@settings(max_examples=60)
@given(TRIPLES)
def test_all_shortest_paths_and_only_these(triples):
    store = Store(triples)
    search = PathSearch(Hops(store), max_hops=3)
    for topic, answer in product("ab", "bcd"):
        found = search.paths(topic, answer)
        paths = {tuple((hop.edge, hop.node) for hop in path) for path in found.paths}
        assert len(paths) == len(found.paths)
        if topic == answer:
            assert found.why == SAME
        else:
            assert paths == _slow(store, topic, answer, 3)
            assert bool(paths) != bool(found.why)


def test_paths_on_the_toy_graph_cross_its_mediator(toy_store):
    search = PathSearch(Hops(toy_store))
    paths = search.paths("m.fr", "m.es").paths
    assert {tuple(hop.node for hop in path) for path in paths} == {("m.cvt1", "m.es")}
    adjoin, adjoins = "location.location.adjoin_s", "location.adjoining_relationship.adjoins"
    assert ((adjoin, False), (adjoins, False)) in {tuple(hop.edge for hop in path) for path in paths}
    born = search.paths("m.fr", "m.ann2").paths
    assert {tuple(hop.edge for hop in path) for path in born} == {
        (("location.location.contains", False), ("people.person.place_of_birth", True))
    }


@pytest.mark.parametrize(("hub", "why"), [(2, NO_PATH_BUT_HUBS), (9, "")])
def test_no_path_leads_through_a_hub(hub, why):
    store = Store([("a", "r", "h"), ("b", "r", "h"), ("c", "r", "h"), ("d", "r", "h")])
    found = PathSearch(Hops(store), hub=hub).paths("a", "b")
    assert found.why == why and bool(found.paths) == (hub == 9)
    assert PathSearch(Hops(store), hub=hub).paths("a", "h").paths  # but to it


def test_what_cannot_be_reached_says_so():
    store = Store([("a", "r", "b"), ("c", "r", "d")])
    assert PathSearch(Hops(store)).paths("a", "d").why == NO_PATH
    assert PathSearch(Hops(store)).paths("a", "nowhere").why == NO_PATH


def test_many_paths_are_cut():
    store = Store([("a", "r", f"m{i}") for i in range(20)] + [(f"m{i}", "r", "z") for i in range(20)])
    assert len(PathSearch(Hops(store)).paths("a", "z").paths) == 20
    assert len(PathSearch(Hops(store), most=7).paths("a", "z").paths) == 7
