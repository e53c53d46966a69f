import json
import re

import pytest

from data_pipelines.demo_kg import REVERSE, build_demo_kg, capital_of, demo_rows


def only(store, name: str, kind: str) -> str:
    """The entity of this name and type."""
    (found,) = [node for node in store.named(name) if kind in store.types(node)]
    return found


def tails(store, node: str, relation: str) -> list[str]:
    (expansion,) = store.expand(node, [relation], 1000)
    return sorted(store.names([t.tail if t.head == node else t.head for t in expansion.triples]))


@pytest.mark.parametrize(
    ("country", "capital", "zone"),
    [
        ("United States", "Washington", "America/New_York"),
        ("Jamaica", "Kingston", "America/Jamaica"),
        ("Norfolk Island", "Kingston", "Pacific/Norfolk"),
        ("Austria", "Vienna", "Europe/Vienna"),
        ("Costa Rica", "San José", "America/Costa_Rica"),
        ("Brazil", "Brasília", "America/Sao_Paulo"),
        ("Kazakhstan", "Astana", "Asia/Almaty"),
        ("Curacao", "Willemstad", "America/Curacao"),
    ],
)
def test_the_capital_is_the_right_city_of_that_country(demo_store, country, capital, zone):
    node = only(demo_store, country, "location.country")
    (triple,) = demo_store.match(node, "location.country.capital", None)
    assert demo_store.names([triple.tail]) == [capital]
    assert tails(demo_store, triple.tail, "location.location.containedby") == [country]
    assert tails(demo_store, triple.tail, "location.location.time_zones") == [zone]


def test_every_capital_lies_in_its_country(demo_store):
    capitals = list(demo_store.match(None, "location.country.capital", None))
    assert len(capitals) > 240
    for triple in capitals:
        assert next(demo_store.match(triple.tail, "location.location.containedby", triple.head), None)


def test_an_unresolvable_capital_is_left_out_rather_than_guessed():
    cities = [{"name": "Koror", "alternatenames": ["Oreor"], "population": 14000, "geonameid": 1}]
    assert capital_of({"capital": "Melekeok"}, cities) is None
    assert capital_of({"capital": ""}, cities) is None


def test_codes_are_spelled_out(demo_store):
    switzerland = only(demo_store, "Switzerland", "location.country")
    assert tails(demo_store, switzerland, "location.country.currency_used") == ["Swiss Franc"]
    assert tails(demo_store, switzerland, "location.country.languages_spoken") == [
        "French", "German", "Italian", "Romansh",
    ]  # fmt: skip
    assert tails(demo_store, switzerland, "location.country.calling_code") == ["+41"]
    assert tails(demo_store, switzerland, "location.country.internet_tld") == [".ch"]
    assert tails(demo_store, switzerland, "base.locations.countries.continent") == ["Europe"]


def test_neighbours_and_population_sit_behind_mediators(demo_store):
    portugal = only(demo_store, "Portugal", "location.country")
    adjoins = "location.location.adjoin_s.location.adjoining_relationship.adjoins"
    number = "location.statistical_region.population.measurement_unit.dated_integer.number"
    assert tails(demo_store, portugal, adjoins) == ["Spain"]
    (count,) = tails(demo_store, portugal, number)
    assert count.isdecimal()
    for relation in ("location.location.adjoin_s", "location.statistical_region.population"):
        assert all(demo_store.is_mediator(t.tail) for t in demo_store.match(None, relation, None))


def test_facts_with_a_reverse_property_stand_both_ways(demo_store):
    for relation, reverse in REVERSE.items():
        forward = {(t.head, t.tail) for t in demo_store.match(None, relation, None)}
        assert forward and forward == {(t.tail, t.head) for t in demo_store.match(None, reverse, None)}, relation


def test_ids_are_freebase_shaped_and_no_entity_has_two_names(demo_store):
    names = [t.head for t in demo_store.match(None, "type.object.name", None)]
    assert len(names) == len(set(names)) > 4000
    nodes = {t.head for t in demo_store if t.relation != "type.property.reverse_property"}
    assert all(re.fullmatch(r"[mg]\.[0-9a-z_]+", node) for node in nodes)


def test_nothing_is_dated(demo_store):
    predicates = {t.relation for t in demo_store}
    assert not [p for p in predicates if re.search(r"date$|year|from$|_to$", p)]


def test_aliases_are_few_and_never_the_name_again(demo_store):
    aliases: dict[str, list[str]] = {}
    for triple in demo_store.match(None, "common.topic.alias", None):
        aliases.setdefault(triple.head, []).append(triple.tail)
    assert aliases and max(map(len, aliases.values())) <= 2
    for node in list(aliases)[:200]:
        assert demo_store.names([node])[0].casefold() not in {a.casefold() for a in demo_store.aliases(node)}


def test_a_built_kg_is_reused_and_one_of_another_recipe_is_not(tmp_path):
    out = tmp_path / "kg"
    build_demo_kg(out, min_population=5_000_000, progress=False)
    meta = out / "meta.json"
    before = meta.stat().st_mtime_ns
    build_demo_kg(out, min_population=5_000_000, progress=False)
    assert meta.stat().st_mtime_ns == before
    broken = json.loads(meta.read_text("utf-8"))
    broken["extra"]["demo_kg"] = -1
    meta.write_text(json.dumps(broken), "utf-8")
    build_demo_kg(out, min_population=5_000_000, progress=False)
    assert json.loads(meta.read_text("utf-8"))["extra"]["demo_kg"] != -1


@pytest.mark.slow
def test_the_whole_demo_kg_has_a_few_hundred_thousand_triples():
    rows = list(demo_rows())
    assert 300_000 < len(rows) == len(set(rows)) < 500_000
