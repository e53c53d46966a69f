"""What is special to the in-memory store: mapped, small, quick to open, guarded against exploding mediators."""

import json
import subprocess
import sys

import pytest

from graphwalker.errors import UserError
from graphwalker.kg import residency, steps
from graphwalker.kg.build import build_from_triples
from graphwalker.kg.open import open_kg
from graphwalker.kg.terms import literal


def named(node):
    return node, "type.object.name", literal(node[2:], "en")


def test_long_lists_are_sorted_by_name_each_name_once(tmp_path):
    tails = [f"m.{i}" for i in range(200)]
    rows = [("m.hub", "r.has", tail) for tail in tails] + [named("m.hub")]
    rows += [(tail, "type.object.name", literal(f"name {i // 2:03}", "en")) for i, tail in enumerate(tails)]
    store = open_kg(build_from_triples(rows, tmp_path / "kg"))
    (found,) = store.expand("m.hub", ["r.has"], 3)
    assert found.total == 100 and [t.tail for t in found.triples] == ["m.0", "m.2", "m.4"]
    (found,) = store.expand("m.hub", ["r.has"], 1000)
    assert [store.names([t.tail])[0] for t in found.triples] == [f"name {i:03}" for i in range(100)]


def test_a_bare_half_merges_its_flattened_relations_by_name(tmp_path):
    rows = [("m.a", "r.x", "m.c"), ("m.c", "r.z", "m.b1"), ("m.c", "r.y", "m.b2"), ("m.c", "r.y", "m.b3")]
    rows += [named(node) for node in ("m.a", "m.b1", "m.b2", "m.b3")]
    store = open_kg(build_from_triples(rows, tmp_path / "kg"))
    (found,) = store.expand("m.a", ["r.x"], 2)
    assert [(t.relation, t.tail) for t in found.triples] == [
        ("r.x.r.z", "m.b1"),
        ("r.x.r.y", "m.b2"),
    ] and found.total == 3


def test_a_mediator_that_joins_too_much_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "MAX_PAIRS", 20)
    rows = [(f"m.h{i}", "r.x", "m.cvt") for i in range(5)] + [("m.cvt", "r.y", f"m.t{i}") for i in range(5)]
    rows += [named(f"m.{side}{i}") for side in "ht" for i in range(5)]
    with pytest.raises(UserError, match=r"'m\.cvt' with 5 edges in and 5 out"):
        build_from_triples(rows, tmp_path / "kg")


def test_a_kg_without_names_or_visible_facts_opens(tmp_path):
    store = open_kg(build_from_triples([("m.a", "type.object.type", "m.b")], tmp_path / "kg"))
    assert store.steps("m.a") == [] and list(store.vocabulary()) == [] and store.named("a") == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_pages_are_given_back_and_answers_stay(toy_kg, monkeypatch):
    def answers(store):
        nodes = sorted({end for t in store for end in (t.head, t.tail)})
        return [(store.steps(node), store.names([node]), store.aliases(node)) for node in nodes]

    expected = answers(open_kg(toy_kg))
    for setting in ("LEAST", "PER_TRIPLE"):
        monkeypatch.setattr(residency, setting, -(1 << 40))  # always too much
    monkeypatch.setattr(residency, "EVERY", 1)
    store = open_kg(toy_kg)
    assert answers(store) == expected and store.residency.given_back > 20


PROBE = """
import json, sys
import graphwalker.kg.memory
from graphwalker.kg.open import open_kg
def resident(): return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmRSS")) / 1024
before = resident()
store = open_kg(sys.argv[1])
for node in json.loads(sys.argv[2]):
    for found in store.expand(node, [s.relation for s in store.steps(node)], 5):
        store.names([t.tail for t in found.triples])
print(resident() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_freebase_slice_stays_small(data_dir, tmp_path):
    freebase_slice = pytest.importorskip("data_pipelines.importers.freebase_slice")
    triples = list(freebase_slice.triples(freebase_slice.read_slice(data_dir / "fb15k237")))
    kg = build_from_triples(triples, tmp_path / "kg", "freebase")
    nodes = sorted({t[0] for t in triples if t[1] == "type.object.name"})[::7]
    out = subprocess.run(
        [sys.executable, "-c", PROBE, str(kg), json.dumps(nodes)], capture_output=True, text=True, check=True
    )
    assert float(out.stdout) < 200, "MB above the import"
    assert len(open_kg(kg)) == len(set(triples))
