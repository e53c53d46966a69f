import random

import pytest

from data_pipelines.phrases import generic_phrase, load_phrases, short_name
from graphwalker.errors import UserError

METAQA = (
    "directed_by written_by starred_actors release_year in_language has_tags has_genre has_imdb_votes has_imdb_rating"
)  # fmt: skip


def test_every_relation_of_the_demo_kg_has_a_wording_of_its_own(demo_store):
    phrases = load_phrases()
    assert [relation for relation in demo_store.vocabulary() if relation not in phrases] == []


@pytest.mark.parametrize("relation", METAQA.split())
def test_metaqa_relations_are_worded_in_both_directions_however_the_backward_one_is_written(relation):
    phrases = load_phrases()
    assert phrases[f"^{relation}"] == phrases[f"{relation}_reverse"] != phrases[relation]
    assert phrases[relation] == phrases[f"^{relation}_reverse"]


def test_a_chain_names_only_its_topic():
    path = ["location.location.containedby", "location.country.capital", "location.location.time_zones"]
    for seed in range(20):
        text = load_phrases().chain("Ghazni", path, random.Random(seed))
        assert "Ghazni" in text and "capital" in text and "zone" in text and text.endswith("?")
        assert "{" not in text and "the the" not in text


def test_a_conjunction_is_one_sentence_with_both_topics():
    path = [["finance.currency.countries_used"], ["language.human_language.countries_spoken_in"]]
    text = load_phrases().conjunction(["Euro", "Greek"], path, random.Random(1))
    assert text.count("?") == 1 and " and " in text and "Euro" in text and "Greek" in text and "country" in text


def test_an_unknown_relation_is_read_off_its_id():
    phrases = load_phrases()
    text = phrases.chain("Rome", ["http://example.org/ns#bornIn"], random.Random(0))
    assert text == "What is the born in of Rome?"
    assert short_name("location.location.adjoin_s.location.adjoining_relationship.adjoins") == "adjoins"
    assert "{x}" in generic_phrase("^a.b.c").ask[0]


def test_a_name_with_braces_is_not_a_placeholder():
    text = load_phrases().chain("{x} {0}", ["directed_by", "written_by_reverse"], random.Random(0))
    assert "{x} {0}" in text


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("relations: {r: {noun: n, np: ['a {x}'], ask: ['b {x}?'], pred: ['c {x}'], extra: 1}}", "unknown key 'extra'"),
        ("relations: {r: {noun: n}}", "needs each of"),
        ("relations: {r: {noun: n, np: ['a'], ask: ['b {x}?'], pred: ['c {x}']}}", "{x}"),
        ("relations: [", "p.yaml"),
        ("relations: 3", "expected a mapping"),
    ],
)
def test_a_broken_phrase_file_is_refused_with_its_name_and_key(tmp_path, content, problem):
    path = tmp_path / "p.yaml"
    path.write_text(content, "utf-8")
    with pytest.raises(UserError, match="p.yaml") as caught:
        load_phrases(path)
    assert problem in str(caught.value)


def test_a_missing_phrase_file_is_refused(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        load_phrases(tmp_path / "none.yaml")


def test_a_users_phrases_stand_over_the_built_in_ones(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("relations: {r: {noun: n, np: ['the r of {x}'], ask: ['R of {x}?'], pred: ['rs {x}']}}", "utf-8")
    assert load_phrases(path).chain("A", ["r"], random.Random(0)) == "R of A?"
    assert "directed_by" in load_phrases(path) and "r" not in load_phrases()
