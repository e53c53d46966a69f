"""Relations by words and by vectors, and the candidates of several queries."""

import numpy as np
import pytest

from graphwalker.tools.paths import PathTools
from graphwalker.tools.retriever import BM25Retriever, DenseRetriever, candidates
from graphwalker.types import Entity, Question

RELATIONS = ["film.film.director", "^film.film.director", "people.person.place_of_birth", "location.location.contains"]


def test_by_words():
    ranked = BM25Retriever().rank("Who directed the film?", RELATIONS)
    assert ranked[:2] == ["^film.film.director", "film.film.director"] and sorted(ranked) == sorted(RELATIONS)
    assert BM25Retriever().rank("no word in common", []) == []


def test_by_vectors_a_relation_is_its_words():
    asked = []

    def embed(texts):
        asked.extend(texts)
        return np.array([[1.0, 0.0] if "birth" in text else [0.0, 1.0] for text in texts], dtype=np.float32)

    ranked = DenseRetriever(embed).rank("date of birth", RELATIONS)
    assert ranked[0] == "people.person.place_of_birth" and "people person place of birth" in asked
    assert "film film director" in asked and DenseRetriever(embed).rank("x", []) == []


def test_each_query_brings_in_its_best():
    found = candidates(BM25Retriever(), ["contains", "place of birth", "directed"], RELATIONS, 3)
    assert found == ["location.location.contains", "people.person.place_of_birth", "^film.film.director"]
    assert candidates(BM25Retriever(), ["contains"], RELATIONS, 99) == BM25Retriever().rank("contains", RELATIONS)
    assert candidates(BM25Retriever(), [], RELATIONS, 3) == []


def test_paths_on_a_graph(toy_store):
    tools = PathTools(toy_store)
    assert tools.relations("m.lyon") == ["location.location.containedby", "^people.person.place_of_birth"]
    assert tools.retrieve("m.fr", ["location.location.area", "capital"], 2) == [
        "location.location.area",  # a relation's own name finds it, whatever words others share
        "location.country.capital",
    ]
    through = tools.follow("m.fr", "location.location.adjoin_s")
    assert through.nodes == ("m.cvt1",) and tools.hops.name("m.cvt1") == "m.cvt1"
    ends = tools.ends("m.cvt1", ("location.adjoining_relationship.adjoins", False), 5, ["m.fr"])
    assert (ends.nodes, ends.names, ends.total) == (("m.es",), ("Spain",), 1)
    assert tools.ends("m.fr", ("location.location.contains", False), 1).total == 2
    assert tools.relations('"543965"^^<http://www.w3.org/2001/XMLSchema#decimal>') == []


@pytest.mark.parametrize(("entity", "found"), [(Entity("x", "m.fr"), "m.fr"), (Entity("Lyon"), "m.lyon")])
def test_topics_by_id_and_by_name(toy_store, entity, found):
    tools = PathTools(toy_store)
    assert tools.node_of(entity) == found
    question = Question("q", "?", (entity, Entity("Atlantis", "m.none")))
    assert tools.unknown_topics(question) == ["Atlantis"]
