"""Schema profiles: built-in ones, a user's own, and ids that print short and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwalker.errors import UserError
from graphwalker.kg.build import build_from_triples
from graphwalker.kg.open import open_kg
from graphwalker.kg.schema import Schema, builtin_schemas, load_schema
from graphwalker.kg.terms import literal, literal_lang, literal_value, parse_literal


@pytest.mark.parametrize("name", builtin_schemas())
def test_built_in_profiles_survive_json(name):
    schema = load_schema(name)
    assert schema.name == name and Schema.from_json(schema.to_json()) == schema


@given(
    st.sampled_from(
        ["", "http://rdf.freebase.com/ns/", "http://www.w3.org/2000/01/rdf-schema#", "http://e.org/", "urn:x:"]
    ),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zs"]), max_size=12),
    st.sampled_from(["freebase", "rdf"]),
)
def test_a_short_id_always_means_its_iri(base, local, name):
    schema, iri = load_schema(name), (base or "http://e.org/") + local
    assert schema.expand(schema.compact(iri)) == iri


@given(st.text(st.characters(codec="utf-8")), st.sampled_from(["", "en", "zh-hans"]))
def test_a_literal_has_one_spelling_and_keeps_its_text(text, lang):
    term = literal(text, lang)
    assert parse_literal(term) == (text, lang, "") and literal(*parse_literal(term)) == term
    assert literal_value(term) == text and literal_lang(term) == lang


def test_a_users_own_profile(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\n"
        'namespaces: {"": "http://hospital.org/", s: "http://hospital.org/statement/"}\n'
        "name_predicates: [title, label]\n"
        "type_predicates: [kind]\n"
        'languages: [de, ""]\n'
        'mediator_prefixes: ["s:"]\n'
        "hidden_predicates: [secret]\n"
        "visible_predicates: [treats, dose, drug, secret]\n",
        "utf-8",
    )
    rows = [
        ("<http://hospital.org/d1>", "label", literal("Aspirin", "en")),
        ("d1", "label", literal("Aspirin (DE)", "de")),
        ("d1", "label", literal("ASS")),
        ("d1", "treats", "<http://hospital.org/statement/7>"),
        ("s:7", "dose", literal("500 mg")),
        ("s:7", "drug", "d1"),
        ("d1", "secret", "d2"),
        ("d1", "other", "d2"),
        ("d2", "title", literal("Z")),
        ("d2", "label", literal("A")),
    ]
    store = open_kg(build_from_triples(rows, tmp_path / "kg", path))
    assert store.names(["d1", "d2"]) == ["Aspirin (DE)", "Z"] and store.aliases("d1") == ["ASS"]
    assert store.named("ASS") == ["d1"] and store.named("Aspirin") == [] and store.named("A") == ["d2"]
    assert store.is_mediator("s:7") and not store.is_mediator("d2")
    assert list(store.vocabulary()) == ["treats.dose"]
    assert [s.relation for s in store.steps("d1")] == ["treats.dose"]


def test_an_id_for_a_name_is_no_name(tmp_path):
    rows = [("m.a", "r.x", "m.0cvt"), ("m.0cvt", "r.y", "m.b"), ("m.0cvt", "type.object.name", literal("m.0cvt", "en"))]
    rows += [(node, "type.object.name", literal(node.upper(), "en")) for node in ("m.a", "m.b")]
    store = open_kg(build_from_triples(rows, tmp_path / "kg"))
    assert store.is_mediator("m.0cvt") and [s.relation for s in store.steps("m.a")] == ["r.x.r.y"]


def test_a_profile_extends_another_and_reads_lists_from_files(tmp_path):
    (tmp_path / "relations.txt").write_text("# of films\nfilm.film.directed_by\n\npeople.person.gender # one more\n")
    profile = tmp_path / "films.yaml"
    profile.write_text("extends: freebase\nname: films\nvisible_predicates: {file: relations.txt}\n")
    schema = load_schema(profile)
    assert schema.visible_predicates == ("film.film.directed_by", "people.person.gender")
    assert schema.is_visible("people.person.gender") and not schema.is_visible("people.person.height")
    assert schema.mediators_unnamed and schema.name == "films"
    profile.write_text("extends: freebase\nvisible_predicates: {file: none.txt}\n")
    with pytest.raises(UserError, match="none.txt"):
        load_schema(profile)
    profile.write_text("extends: nothing\n")
    with pytest.raises(UserError, match="nothing"):
        load_schema(profile)
