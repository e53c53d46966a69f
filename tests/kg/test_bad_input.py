"""A missing, half-built or damaged KG, broken RDF, a wrong schema, a full disk: one clear message, nothing left."""

import errno
import gzip
import json
import os

import numpy as np
import pytest

from graphwalker.cli import main
from graphwalker.errors import FileFormatError, UserError
from graphwalker.kg.build import build_from_triples, build_kg
from graphwalker.kg.open import is_built, open_kg
from graphwalker.kg.rdf import read_rdf
from graphwalker.kg.schema import load_schema
from graphwalker.kg.search import EntitySearch

GOOD = "<http://e.org/a> <http://e.org/p> <http://e.org/b> .\n"
TRIPLES = [("m.a", "r.p", "m.b"), ("m.a", "type.object.name", '"A"@en')]


def left_behind(folder):
    return sorted(item.name for item in folder.iterdir())


@pytest.mark.parametrize(
    "break_it",
    [
        "missing",
        "file",
        "no meta",
        "broken meta",
        "deep meta",
        "other version",
        "array gone",
        "array cut",
        "array empty",
        "array short",
        "no kinds",
    ],
)
@pytest.mark.parametrize("store", ["memory", "oxigraph"])
def test_what_is_no_whole_kg_is_refused(tmp_path, capsys, store, break_it):
    kg = build_from_triples(TRIPLES, tmp_path / "kg", store=store)
    meta = kg / "meta.json"
    if break_it == "missing":
        kg = tmp_path / "none"
    elif break_it == "file":
        kg = meta
    elif break_it == "no meta":
        meta.unlink()
    elif break_it == "broken meta":
        meta.write_text(meta.read_text("utf-8")[:40], "utf-8")
    elif break_it == "deep meta":
        meta.write_text("[" * 9999, "utf-8")
    elif break_it == "other version":
        meta.write_text(json.dumps(json.loads(meta.read_text("utf-8")) | {"layout": 1}), "utf-8")
    elif store == "oxigraph":
        (kg / "kinds.json").unlink()
    elif break_it == "array gone":
        (kg / "out_far.npy").unlink()
    elif break_it == "array cut":
        os.truncate(kg / "in_far.npy", 100)
    elif break_it == "array empty":
        os.truncate(kg / "hash.npy", 0)
    elif break_it == "array short":
        np.save(kg / "out_far.npy", np.load(kg / "out_far.npy")[:-1])
    else:
        (kg / "kinds.json").write_text("{}", "utf-8")
    with pytest.raises(UserError, match=str(kg)):
        open_kg(kg)
    assert not is_built(kg, {})
    assert main(["kg", "info", str(kg)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("graphwalker: error: ") and str(kg) in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.nt", GOOD * 3 + "<http://e.org/a> <http://e.org/p> .\n" + GOOD, 4),
        ("a.nt", GOOD + '<http://e.org/a> <http://e.org/p> "open .\n' + GOOD, 2),
        ("a.nt", GOOD + '"x" <http://e.org/p> <http://e.org/b> .\n', 2),
        ("a.ttl", "@prefix e: <http://e.org/> .\ne:a e:p e:b ;\n  e:q x:c .\n", 3),
        ("a.ttl.gz", "@prefix e: <http://e.org/> .\n\ne:a e:p .\n", 3),
    ],
)
def test_broken_rdf_is_named_by_file_and_line(tmp_path, capsys, name, text, line):
    source = tmp_path / name
    source.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    with pytest.raises(FileFormatError) as raised:
        list(read_rdf(source))
    assert str(raised.value).startswith(f"{source}:{line}: ")
    assert main(["kg", "build", str(source), str(tmp_path / "kg"), "--quiet"]) == 2
    assert f"{source}:{line}: " in capsys.readouterr().err
    assert left_behind(tmp_path) == [name]


@pytest.mark.parametrize("name", ["a.nt", "a.ttl", "a.ttl.gz"])
def test_rdf_may_begin_with_a_byte_order_mark(tmp_path, name):
    text = b"\xef\xbb\xbf" + GOOD.encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert list(read_rdf(tmp_path / name)) == [tuple(GOOD.split()[:3])]


def test_other_bad_sources(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.csv").write_text("a,b,c\n")
    (tmp_path / "cut.nt.gz").write_bytes(gzip.compress(GOOD.encode() * 99)[:-20])
    (tmp_path / "no.nt.gz").write_bytes(GOOD.encode())
    (tmp_path / "none.nt").write_text("# nothing here\n")
    (tmp_path / "star.ttl").write_text(GOOD + "<http://e.org/a> <http://e.org/p> <http://e.org/b> {| a <b:c> |} .\n")
    (tmp_path / "latin.nt").write_bytes(GOOD.encode() + b'<http://e.org/a> <http://e.org/p> "\xe9" .\n')
    for name, message in [
        ("missing.nt", "no such file"),
        ("empty", "no files"),
        ("a.csv", "not known as RDF"),
        ("cut.nt.gz", "broken gzip"),
        ("no.nt.gz", "broken gzip"),
        ("none.nt", "no triples"),
        ("latin.nt", "latin.nt:2: "),
        ("star.ttl", "star.ttl: <http://e.org/a> .* stands inside a triple"),
    ]:
        with pytest.raises(UserError, match=message):
            build_kg(tmp_path / name, tmp_path / "kg", progress=False)
        assert not (tmp_path / "kg").exists()


@pytest.mark.parametrize(
    "bad",
    [
        ("", "r", "m.b"),
        ("m.a", "", "m.b"),
        ("m.a", "r", ""),
        ("m a", "r", "m.b"),
        ("<m.a", "r", "m.b"),
        ('"x"', "r", "m.b"),
        ("m.a", '"r"', "m.b"),
        ("m.a", "r", '"open'),
        ("m.a", "r", '"x"@en@de'),
        ("m.a", "r", '"\\x"'),
        ("m.a", "r", '"\ud800"'),
        ("m.a", "r", "\ud800"),
        ("m.a", "r", None),
    ],
)
def test_a_malformed_triple_is_named(tmp_path, bad):
    with pytest.raises(UserError, match="triple 3: "):
        build_from_triples([*TRIPLES, bad], tmp_path / "kg")
    assert left_behind(tmp_path) == []


def test_a_literal_subject_is_refused_even_if_it_was_an_object(tmp_path):
    with pytest.raises(UserError, match="triple 3: "):
        build_from_triples([*TRIPLES, ('"A"@en', "r", "m.b")], tmp_path / "kg")


@pytest.mark.parametrize("store", ["memory", "oxigraph"])
def test_a_full_disk_leaves_the_old_kg_and_nothing_else(tmp_path, monkeypatch, store):
    kg = build_from_triples(TRIPLES, tmp_path / "kg", extra={"n": 1}, store=store)

    def full(*_args, **_kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("graphwalker.kg.layout.np.ascontiguousarray", full)
        patched.setattr("graphwalker.kg.oxigraph.ox.Quad", full)
        with pytest.raises(UserError, match="cannot write .*No space left"):
            build_from_triples(TRIPLES, kg, extra={"n": 2}, store=store)
    assert left_behind(tmp_path) == ["kg"] and is_built(kg, {"n": 1}) and len(open_kg(kg)) == 2


def test_a_folder_that_is_no_kg_is_never_replaced(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not delete")
    with pytest.raises(UserError, match="not a knowledge graph"):
        build_from_triples(TRIPLES, tmp_path / "mine")
    assert left_behind(tmp_path / "mine") == ["thesis.txt"]
    with pytest.raises(UserError, match="not a folder"):
        build_from_triples(TRIPLES, tmp_path / "mine" / "thesis.txt")


@pytest.mark.parametrize("store", ["memory", "oxigraph"])
def test_a_kg_is_built_again_but_not_over_files_that_are_not_its_own(tmp_path, store):
    kg = tmp_path / "kg"
    build_from_triples([("m.a", "b.c.d", "m.e")], kg, store=store)
    if store == "oxigraph":
        EntitySearch.open(open_kg(kg), kg)  # indexes are its own
    build_from_triples([("m.a", "b.c.d", "m.f")], kg, store=store)
    (kg / "train.jsonl").write_text("{}")
    with pytest.raises(UserError, match="also holds train.jsonl, and a build replaces the whole folder"):
        build_from_triples([("m.a", "b.c.d", "m.g")], kg, store=store)
    assert (kg / "train.jsonl").is_file() and open_kg(kg).has_node("m.f")


def test_a_failing_source_leaves_nothing(tmp_path):
    def broken():
        yield TRIPLES[0]
        raise FileFormatError("facts.txt", 2, "no tab")

    with pytest.raises(UserError, match="facts.txt:2"):
        build_from_triples(broken(), tmp_path / "kg")
    with pytest.raises(UserError, match="unknown store"):
        build_from_triples(TRIPLES, tmp_path / "kg", store="cloud")
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nam_predicates: [a]\n", "unknown key 'nam_predicates'"),
        ("name_predicates: a\n", "name_predicates: expected a list"),
        ("name_predicates: [1]\n", "name_predicates: expected a list"),
        ("mediators_unnamed: 1\n", "mediators_unnamed: expected true or false"),
        ("name: [x]\n", "name: expected a string"),
        ("namespaces: {a: b}\n", "namespaces: 'a': 'b'"),
        ("namespaces: [a]\n", "namespaces: expected prefixes"),
        ("id_pattern: '('\n", "id_pattern: not a regular expression"),
        ("a: b\nname: [x\n", ":3: not YAML"),
        ("- a\n", "expected a mapping"),
        ("extends: mine.yaml\n", "extends itself"),
    ],
)
def test_a_wrong_schema_is_named_by_key(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(UserError) as raised:
        load_schema(path)
    assert str(path) in str(raised.value) and message in str(raised.value)


def test_an_unknown_schema_lists_those_there_are():
    with pytest.raises(UserError, match="freebase, kqapro, rdf, wikidata"):
        load_schema("wikipedia")
