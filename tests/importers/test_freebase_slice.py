"""FB15k-237 as a slice of Freebase, on a hand-made one of four entities."""

import pytest

from data_pipelines.importers import kgs
from data_pipelines.importers.freebase_slice import read_slice
from graphwalker.errors import FileFormatError, UserError
from graphwalker.kg.open import open_kg

FILES = {
    "entity2id.txt": "4\n/m/0fr\t0\n/m/0paris\t1\n/m/0ann\t2\n/m/0euro\t3\n",
    "relation2id.txt": "3\n/location/country/capital\t0\n"
    "/people/person/places_lived./people/place_lived/location\t1\n/location/location/containedby\t2\n",
    "FB15k_mid2name.txt": "/m/0fr\tFrance\n/m/0paris\tParis_France\n/m/0ann\tAnn_Lee\n/m/0else\tElsewhere\n",
    "reverse_properties": "location.location.containedby\tlocation.location.contains\n"
    "film.film.directed_by\tfilm.director.film\n"
    "people.place_lived.location\tlocation.location.people_lived\n",
    "train2id.txt": "3\n0 1 0\n2 1 1\n1 0 2\n",
    "valid2id.txt": "1\n2 0 1\n",
    "test2id.txt": "1\n1 0 2\n",
}


@pytest.fixture
def folder(tmp_path):
    home = tmp_path / "fb15k237"
    home.mkdir()
    for name, text in FILES.items():
        (home / name).write_text(text, "utf-8")
    return home


def test_facts_mediators_reverses_types_and_names(folder):
    part = read_slice(folder)
    assert set(part.facts) == {
        ("m.0fr", "location.country.capital", "m.0paris"),
        ("m.0paris", "location.location.containedby", "m.0fr"),  # twice in the files
        ("m.0fr", "location.location.contains", "m.0paris"),
        ("m.0ann", "people.person.places_lived", "cvt.0"),
        ("cvt.0", "people.place_lived.location", "m.0paris"),
        ("m.0paris", "location.location.people_lived", "cvt.0"),
        ("m.0ann", "people.person.places_lived", "cvt.1"),
        ("cvt.1", "people.place_lived.location", "m.0fr"),
        ("m.0fr", "location.location.people_lived", "cvt.1"),
    }
    assert len(part.facts) == 9 and part.relations == 6
    assert {(h, t) for h, _, t in part.types} == {
        ("m.0fr", "location.country"),
        ("m.0fr", "location.location"),
        ("m.0paris", "location.location"),
        ("m.0ann", "people.person"),
    }
    assert part.names == {"m.0fr": "France", "m.0paris": "Paris France", "m.0ann": "Ann Lee"}
    assert (
        "location.location.contains",
        "type.property.reverse_property",
        "location.location.containedby",
    ) in part.reverses
    assert len(part.reverses) == 4  # both ways, of the properties in use


def test_the_slice_as_a_kg(folder, tmp_path):
    lines = kgs.build("freebase-slice", folder, tmp_path / "kg", progress=False)
    store = open_kg(tmp_path / "kg")
    assert "9 facts over 6 relations" in lines[0]
    assert store.named("Paris France") == ["m.0paris"] and store.is_mediator("cvt.0")
    lived = "people.person.places_lived.people.place_lived.location"
    assert [step.relation for step in store.steps("m.0ann")] == [lived]
    assert [t.tail for t in store.expand("m.0ann", [lived], 5)[0].triples] == ["m.0fr", "m.0paris"]
    # the way in by contains is left out: the slice declares it the reverse of the way out
    steps = [(step.relation, step.inverse) for step in store.steps("m.0paris")]
    assert ("location.location.containedby", False) in steps and ("location.location.contains", True) not in steps


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("entity2id.txt", "x\n", "entity2id.txt:1: expected the number of rows"),
        ("entity2id.txt", "4\n/m/0fr 0\n/m/0paris\n", "entity2id.txt:3: expected name, number"),
        ("entity2id.txt", "9\n/m/0fr 0\n", "entity2id.txt: its first line announces 9 rows, it has 1"),
        ("train2id.txt", "1\n0 1\n", "train2id.txt:2: expected head, tail, relation"),
        ("train2id.txt", "1\n0 7 0\n", "train2id.txt:2: entity 7 is not in"),
        ("train2id.txt", "1\n0 1 9\n", "train2id.txt:2: relation 9 is not in"),
        ("train2id.txt", "2\n0 1 0\n", "announces 2 rows, it has 1"),
        ("train2id.txt", "0 1 0\n", "train2id.txt:1: expected the number of rows"),
        ("reverse_properties", "a b c\n", "reverse_properties:1: expected property, reverse property"),
        ("FB15k_mid2name.txt", "/m/0fr France\n", "mid2name.txt:1: expected MID, tab, name"),
    ],
)
def test_a_broken_file_is_named_and_nothing_is_left(folder, tmp_path, name, text, message):
    (folder / name).write_text(text, "utf-8")
    with pytest.raises(UserError, match=message):
        kgs.build("freebase-slice", folder, tmp_path / "kg", progress=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fb15k237"]


def test_what_is_missing_is_named(folder, tmp_path):
    (folder / "valid2id.txt").unlink()
    with pytest.raises(UserError, match="valid2id.txt: no such file"):
        read_slice(folder)
    with pytest.raises(UserError, match="no such folder"):
        read_slice(tmp_path / "none")
    with pytest.raises(UserError, match="unknown KG format 'dbpedia'"):
        kgs.build("dbpedia", folder, tmp_path / "kg")
    assert issubclass(FileFormatError, UserError)
