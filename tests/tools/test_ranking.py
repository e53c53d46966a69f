"""Relations that share words with the question come first, whatever their number, case or joining."""

import pytest

from graphwalker.tools.ranking import RelationRanker, tokens

VOCABULARY = [
    "film.film.directed_by",
    "location.country.capital",
    "location.country.currency_used",
    "location.country.languages_spoken",
    "location.location.time_zones",
    "people.person.place_of_birth",
]


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("What is the capital of Ghana?", "location.country.capital"),
        ("which LANGUAGE do they speak", "location.country.languages_spoken"),
        ("what currencies are used there", "location.country.currency_used"),
        ("who directs this film", "film.film.directed_by"),
        ("birth place of Ann", "people.person.place_of_birth"),
    ],
)
def test_the_relation_asked_for_comes_first(question, first):
    assert RelationRanker(VOCABULARY).rank(question, VOCABULARY)[0] == first


def test_without_shared_words_the_order_is_by_name():
    ranker = RelationRanker(VOCABULARY)
    for question in ("", "?", "who are they", "xyzzy"):
        assert ranker.rank(question, reversed(VOCABULARY)) == VOCABULARY


def test_scores_agree_with_bm25s():
    import bm25s

    index = bm25s.BM25()
    index.index([tokens(relation) for relation in VOCABULARY], show_progress=False)
    expected = index.get_scores(["capital", "countri"])
    assert RelationRanker(VOCABULARY).scores("the capital of a country").tolist() == expected.tolist()


def test_an_unknown_relation_and_an_empty_vocabulary_are_no_errors():
    assert (
        RelationRanker(VOCABULARY).rank("capital", ["other.thing", "location.country.capital"])[0].endswith("capital")
    )
    assert RelationRanker([]).rank("capital", ["b", "a"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("placeOfBirth", ["plac", "birth"]),
        ("HTTPServer2Name", ["http", "server", "2", "nam"]),
        ("cities city City's", ["citi", "citi", "citi"]),
        ("出生地 Größe", ["出生地", "größ"]),
        ("", []),
    ],
)
def test_tokens(text, expected):
    assert tokens(text) == expected
