"""RDF in: formats, folders, blank nodes, and what the `rdf` profile makes of a graph without Freebase's habits."""

import gzip

from graphwalker.kg.build import build_kg
from graphwalker.kg.open import open_kg
from graphwalker.kg.rdf import read_rdf

TURTLE = """\
@prefix e: <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
e:Ada_Lovelace a e:Person ; e:bornIn e:London ; e:wrote [ e:title "Notes"@EN ; e:year 1843 ] .
e:London e:birthplaceOf e:Ada_Lovelace ; rdfs:label "London"@en , "Londres"@fr .
e:bornIn owl:inverseOf e:birthplaceOf .
<http://other.org/x> e:near e:London .
"""


def test_formats_give_the_same_triples(tmp_path):
    plain, zipped, triples = tmp_path / "a.ttl", tmp_path / "b.ttl.gz", tmp_path / "c.nt"
    plain.write_text(TURTLE, "utf-8")
    zipped.write_bytes(gzip.compress(TURTLE.encode()))
    found = list(read_rdf(plain))
    triples.write_text("".join(f"{s} {p} {o} .\n" for s, p, o in found), "utf-8")
    assert list(read_rdf(zipped)) == list(read_rdf(triples)) == found == list(read_rdf(plain))
    assert ("_:b0", "<http://example.org/title>", '"Notes"@en') in found
    assert ("_:b0", "<http://example.org/year>", '"1843"^^<http://www.w3.org/2001/XMLSchema#integer>') in found


def test_a_folder_is_read_whole_and_keeps_blank_nodes_apart(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("a.nt", "sub/b.nt", ".hidden"):
        (tmp_path / name).write_text(f'_:same <http://e.org/p> "{name}" .\n', "utf-8")
    assert list(read_rdf(tmp_path)) == [
        ("_:b0", "<http://e.org/p>", '"a.nt"'),
        ("_:b1", "<http://e.org/p>", '"sub/b.nt"'),
    ]


def test_plain_rdf_reads_well_without_labels(tmp_path):
    (tmp_path / "a.ttl").write_text(TURTLE, "utf-8")
    store = open_kg(build_kg(tmp_path / "a.ttl", tmp_path / "kg", progress=False))
    assert list(store.vocabulary()) == ["birthplaceOf", "bornIn", "near", "wrote.title", "wrote.year"]
    assert store.named("Ada Lovelace") == ["Ada_Lovelace"] and store.names(["Ada_Lovelace"]) == ["Ada Lovelace"]
    assert store.named("London") == ["London"] and store.named("Londres") == []
    assert store.types("Ada_Lovelace") == ["Person"] and store.names(["http://other.org/x"]) == ["x"]
    assert store.is_mediator("_:b0") and store.names(["_:b0"]) == [None]
    assert [(s.relation, s.inverse) for s in store.steps("London")] == [("birthplaceOf", False), ("near", True)]
    (work,) = store.expand("Ada_Lovelace", ["wrote.title"], 5)
    assert [t.tail for t in work.triples] == ['"Notes"@en']


def test_a_build_is_the_same_every_time(tmp_path, toy_nt):
    folders = [build_kg(toy_nt, tmp_path / name, "freebase", progress=False) for name in ("one", "two")]
    one, two = ({file.name: file.read_bytes() for file in folder.iterdir()} for folder in folders)
    assert one == two


def test_a_build_replaces_an_older_kg(tmp_path, toy_nt):
    (tmp_path / "a.ttl").write_text(TURTLE, "utf-8")
    out = tmp_path / "kg"
    build_kg(toy_nt, out, "freebase", progress=False)
    assert len(open_kg(build_kg(tmp_path / "a.ttl", out, progress=False))) == 10
