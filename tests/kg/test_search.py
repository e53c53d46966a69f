"""Entity search: whole names first, then folded ones, then mistakes; ranked by what the graph knows."""

import json
import random

import pytest

from graphwalker.cli import main
from graphwalker.errors import UserError
from graphwalker.kg.build import build_from_triples
from graphwalker.kg.open import open_kg
from graphwalker.kg.search import EntitySearch
from graphwalker.kg.search_index import INDEX, build_index
from graphwalker.kg.terms import literal

NAME, ALIAS, TYPE, ABOUT = "type.object.name", "common.topic.alias", "type.object.type", "common.topic.description"
ENTITIES = {
    "m.zurich": ("Zürich", ["Zurigo", "ZRH"], ["location.city"], "The largest city of Switzerland."),
    "m.zug": ("Zug", [], ["location.city"], "A small town of Switzerland."),
    "m.obama": ("Barack Obama", ["Barack H. Obama II"], ["people.person", "us.president"], "An American politician."),
    "m.michelle": ("Michelle Obama", [], ["people.person"], "An American lawyer, married to Barack Obama."),
    "m.jamaica1": ("Jamaica", [], ["location.country", "location.location"], "A country in the Caribbean."),
    "m.jamaica2": ("Jamaica", [], ["location.location"], "A place in New York."),
    "m.tokyo": ("東京", ["Tōkyō"], ["location.city"], "日本の首都。"),
    "m.odd": ('O\'Neill "AND" OR*', [], ["people.person"], 'He said "NOT" (twice).'),
    "m.upper": ("PARIS", [], [], ""),
    "m.paris": ("Paris", [], ["location.city"], ""),
}  # fmt: skip


def triples():
    for node, (name, aliases, types, about) in ENTITIES.items():
        yield node, NAME, literal(name, "en")
        yield node, NAME, literal(f"{name} auf Deutsch", "de")
        for alias in aliases:
            yield node, ALIAS, literal(alias, "en")
        for kind in types:
            yield node, TYPE, kind
        if about:
            yield node, ABOUT, literal(about, "en")
        yield node, "people.person.place_of_birth", "m.zug"
    yield "m.jamaica1", "location.country.capital", "m.zug"


@pytest.fixture(scope="module", params=["memory", "oxigraph"])
def kg(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("search") / request.param
    return build_from_triples(triples(), folder, "freebase", store=request.param)


@pytest.fixture(scope="module")
def search(kg):
    return EntitySearch.open(open_kg(kg), kg)


@pytest.mark.parametrize(
    ("query", "first", "match"),
    [
        ("Zürich", "m.zurich", "exact"),
        ("zurich", "m.zurich", "folded"),
        ("ZURIGO", "m.zurich", "folded alias"),
        ("Zurigo", "m.zurich", "alias"),
        ("Zuerich", "m.zurich", "fuzzy"),
        ("Barak Obbama", "m.obama", "fuzzy"),
        ("Obama, Barack", "m.obama", "fuzzy"),
        ("東京", "m.tokyo", "exact"),
        ("東", "m.tokyo", "fuzzy"),
        ("tokyo", "m.tokyo", "folded alias"),
        ("Zu", "m.zug", "fuzzy"),
        ('O\'Neill "AND" OR*', "m.odd", "exact"),
        ('neill "and" or', "m.odd", "fuzzy"),
        ("Paris", "m.paris", "exact"),
        ("paris", "m.paris", "folded"),
        ("  Zug ", "m.zug", "folded"),
        ("Jamaica", "m.jamaica1", "exact"),
    ],
)
def test_the_best_entity_comes_first(search, query, first, match):
    hit = search.names(query)[0]
    assert (hit.id, hit.match) == (first, match)
    assert hit.name == ENTITIES[first][0] and set(hit.types) == set(ENTITIES[first][2])


def test_better_matches_come_before_worse_ones_and_each_entity_once(search):
    hits = search.names("paris")
    assert [(h.id, h.match) for h in hits[:2]] == [("m.paris", "folded"), ("m.upper", "folded")]
    jamaica = search.names("Jamaica")
    assert [h.id for h in jamaica[:2]] == ["m.jamaica1", "m.jamaica2"]
    assert jamaica[0].relations == 2 and jamaica[1].relations == 1
    for query in ("Obama", "Jamaica", "Z", "a"):
        ids = [hit.id for hit in search.names(query)]
        assert len(ids) == len(set(ids))


def test_limits_types_and_what_is_not_there(search):
    assert len(search.names("Obama", limit=1)) == 1
    assert [h.id for h in search.names("Jamaica", type="location.country")] == ["m.jamaica1"]
    assert search.names("Jamaica", type="people.person") == []
    assert search.names("qqqqqq") == search.names("") == search.names(" \0 ") == []
    assert search.names("x" * 100_000) == []
    assert "auf Deutsch" not in {hit.text for hit in search.names("Zug auf Deutsch")}


def test_descriptions(search):
    assert [h.id for h in search.descriptions("largest city, Switzerland")][:2] == ["m.zurich", "m.zug"]
    assert search.descriptions("american LAWYER")[0].id == "m.michelle"
    assert search.descriptions('"NOT" (twice)*')[0].id == "m.odd"
    assert search.descriptions("American", type="us.president")[0].id == "m.obama"
    assert search.descriptions("") == search.descriptions("nothing") == []


def test_stores_agree(tmp_path):
    found = []
    for store in ("memory", "oxigraph"):
        folder = build_from_triples(triples(), tmp_path / store, "freebase", store=store)
        search = EntitySearch.open(open_kg(folder), folder)
        found.append([search.names(q) for q in ("obama", "Jamaca", "zur")] + [search.descriptions("city country")])
    assert found[0] == found[1]


def test_entities_that_their_ids_name(tmp_path):
    rows = [("<http://x/Big_Ben>", "<http://x/in>", "<http://x/London>")]
    kg = build_from_triples(rows, tmp_path / "kg", "rdf")
    assert [(h.id, h.match) for h in EntitySearch.open(open_kg(kg), kg).names("big ben")][:1] == [("Big_Ben", "folded")]


def test_an_index_is_whole_and_of_this_graph(tmp_path):
    kg = build_from_triples(triples(), tmp_path / "kg", "freebase")
    store = open_kg(kg)
    with pytest.raises(UserError, match="no search index: build it with `graphwalker kg index"):
        EntitySearch(store, kg)
    build_index(store, kg)
    before = {p.name for p in kg.iterdir()}
    assert INDEX in before and not [name for name in before if name.startswith(".")]
    (kg / "meta.json").write_text((kg / "meta.json").read_text() + " ")
    with pytest.raises(UserError, match="made for another build"):
        EntitySearch(store, kg)
    assert EntitySearch.open(store, kg).names("Zug")[0].id == "m.zug"  # built again
    (kg / INDEX).write_text("nonsense")
    with pytest.raises(UserError, match="is no search index"):
        EntitySearch(store, kg)
    with pytest.raises(UserError, match="not a built knowledge graph"):
        build_index(store, tmp_path)


def test_candidates_survive_a_crowd(tmp_path):
    """The right name among thousands that share its common parts, with a typing mistake anywhere in it."""
    rng = random.Random(0)
    parts = ["an", "ber", "con", "dar", "el", "for", "gan", "hol", "in", "jor", "kel", "lam", "mor", "nal", "os"]
    names = sorted({" ".join("".join(rng.choices(parts, k=3)).title() for _ in range(2)) for _ in range(3000)})
    kg = build_from_triples(
        ((f"m.{i}", NAME, literal(n, "en")) for i, n in enumerate(names)), tmp_path / "kg", "freebase"
    )
    search = EntitySearch.open(open_kg(kg), kg)
    right = 0
    for i in rng.sample(range(len(names)), 40):
        at = rng.randrange(1, len(names[i]) - 1)
        right += search.names(names[i][:at] + "x" + names[i][at + 1 :])[0].id == f"m.{i}"
    assert right >= 36


def test_the_commands(tmp_path, capsys):
    memory = build_from_triples(triples(), tmp_path / "memory", "freebase")
    oxigraph = build_from_triples(triples(), tmp_path / "oxigraph", "freebase", store="oxigraph")
    assert main(["kg", "index", str(memory), "--quiet"]) == 0
    assert main(["kg", "search", str(memory), "zurich", "--limit", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["id"] == "m.zurich"
    assert main(["kg", "search", str(memory), "Switzerland", "--descriptions", "--type", "location.city"]) == 0
    assert capsys.readouterr().out.startswith("m.zu")
    assert main(["kg", "search", str(memory), "qqqqq"]) == 1
    assert main(["kg", "search", str(memory), "x", "--limit", "0"]) == 2
    assert (
        main(["kg", "sparql", str(oxigraph), "SELECT ?n { :m.zug ns:type.object.name ?n FILTER(lang(?n)='en') }"]) == 0
    )
    assert capsys.readouterr().out == '?n\n"Zug"@en\n'
    assert main(["kg", "sparql", str(oxigraph), "SELECT * { ?s ?p ?o }", "--rows", "1"]) == 0
    assert "more than 1 rows" in capsys.readouterr().out
    assert main(["kg", "sparql", str(oxigraph), "DROP ALL"]) == 2
    assert "DROP is not allowed" in capsys.readouterr().err
    assert main(["kg", "sparql", str(memory), "ASK {}"]) == 2
    assert "has no SPARQL" in capsys.readouterr().err


NASTY = ["\ud800France", "France\0", "\0", "\ud800", '"', '""', "'; DROP TABLE text; --", "x' OR 1=1", "NEAR(a b, 2)"]
NASTY += ["a AND NOT b*", "{folded}:a", "^a", "%_%", "(", "-", "\ufdfa" * 300, "a" * 1_000_000, "France " * 100_000, ""]


@pytest.mark.parametrize("query", NASTY, ids=range(len(NASTY)))
def test_no_query_breaks_the_search(search, query):
    for find in (search.names, search.descriptions):
        assert len(find(query, limit=3)) <= 3
