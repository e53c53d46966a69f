"""Building with less memory than the graph takes: the same files, bit for bit, and nothing left where it fails."""

import errno
import gzip
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphwalker.cli import main
from graphwalker.errors import FileFormatError, UserError
from graphwalker.kg.build import build_from_triples, build_kg, parse_memory
from graphwalker.kg.sorting import Aligned, RowSorter, distinct_rows
from graphwalker.kg.terms import literal


def files(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def random_graph(seed, size=200):
    """Hubs, mediators, shared names, several names each, literals, repeated triples, every way to write an id."""
    draw = random.Random(seed)
    nodes = [f"m.{i:02x}" for i in range(60)] + ["_:b", "<http://rdf.freebase.com/ns/m.01>", "<http://o.org/!x>"]
    relations = ["r.one", "r.two", "r.three", "common.topic.image"]
    rows = [(r, "type.property.reverse_property", "r.two") for r in ("r.one", "r.three")]
    for _ in range(size):
        node, other = (nodes[min(int(draw.paretovariate(0.5)), len(nodes)) - 1] for _ in range(2))
        name = literal(draw.choice(["Ann", "ann", "Bob", 'q"', "", "m.01", "Zoë"]), draw.choice(["en", "", "de"]))
        rows += draw.choice(
            [
                [(node, draw.choice(relations), other)],
                [(node, draw.choice(relations), other), (other, draw.choice(relations), node)],
                [(node, "type.object.name", name)] if draw.random() < 0.3 else [],
                [(node, "common.topic.alias", name), (node, "r.two", literal(str(draw.randrange(9))))],
                [(node, "type.object.type", f"type.t{draw.randrange(4)}")],
            ]
        )
    return rows


@pytest.mark.parametrize("schema", ["freebase", "rdf"])
def test_a_tiny_memory_gives_the_same_files(tmp_path, schema):
    rows = random_graph(1)
    whole = files(build_from_triples(rows, tmp_path / "whole", schema))
    for memory in (6_000, 40_000):
        assert files(build_from_triples(rows, tmp_path / str(memory), schema, memory=memory)) == whole


def test_the_order_of_the_triples_does_not_matter(tmp_path):
    rows = random_graph(2)
    whole = files(build_from_triples(rows, tmp_path / "one"))
    random.Random(0).shuffle(rows)
    assert files(build_from_triples(rows, tmp_path / "other", memory=30_000)) == whole


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(*[st.integers(0, 9) | st.integers(2**31, 2**32 - 1)] * 3)), st.integers(1, 300))
def test_rows_come_out_sorted_each_once(tmp_path_factory, rows, memory):
    with open(tmp_path_factory.mktemp("sort") / "rows", "w+b") as handle:
        sorter = RowSorter(handle, 3, memory)
        for at in range(0, len(rows), 5):
            sorter.add(np.array(rows[at : at + 5], np.uint32))
        pieces = list(sorter)
    assert [tuple(row) for piece in pieces for row in piece.tolist()] == sorted(set(rows))
    assert distinct_rows(np.array(rows, np.uint32).reshape(-1, 3)).tolist() == list(map(list, sorted(set(rows))))
    aligned, bounds = Aligned(iter(pieces)), sorted({row[0] for row in rows})
    for bound in bounds:
        got = [tuple(row) for piece in aligned.below(bound + 1) for row in piece.tolist()]
        assert got == sorted({row for row in rows if row[0] == bound})


def test_memory_is_read_as_people_write_it(tmp_path, toy_nt, capsys):
    assert parse_memory("2G") == 2 << 30 and parse_memory("512m") == 512 << 20 and parse_memory("1.5 GiB") == 3 << 29
    for text in ("2", "lots", "-1G", "1M", ""):
        with pytest.raises(UserError, match="memory"):
            parse_memory(text)
    assert main(["kg", "build", str(toy_nt), str(tmp_path / "kg"), "--memory", "1M"]) == 2
    assert "at least 64M" in capsys.readouterr().err and not (tmp_path / "kg").exists()
    assert main(["kg", "build", str(toy_nt), str(tmp_path / "kg"), "--memory", "64M", "--quiet"]) == 0


def lines(count):
    return "".join(f"<http://e.org/s{i % 97}> <http://e.org/p{i % 7}> <http://e.org/o{i}> .\n" for i in range(count))


def test_a_broken_line_late_in_the_file_leaves_nothing(tmp_path):
    source = tmp_path / "a.nt.gz"
    source.write_bytes(gzip.compress((lines(600) + "<http://e.org/a> <oops .\n" + lines(10)).encode()))
    with pytest.raises(FileFormatError, match="a.nt.gz:601: "):
        build_kg(source, tmp_path / "kg", memory=20_000, progress=False)
    assert [item.name for item in tmp_path.iterdir()] == ["a.nt.gz"]


@pytest.mark.parametrize("writes", [1, 12, 30])
def test_a_disk_that_fills_up_leaves_nothing(tmp_path, monkeypatch, writes):
    done, real = [], np.ascontiguousarray

    def filling(*args, **kwargs):
        done.append(1)
        if len(done) > writes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr("graphwalker.kg.layout.np.ascontiguousarray", filling)
        with pytest.raises(UserError, match="cannot write .*No space left"):
            build_from_triples(random_graph(3), tmp_path / "kg", memory=30_000)
    assert not list(tmp_path.iterdir())


def test_a_source_that_fails_is_not_called_a_full_disk(tmp_path):
    def failing():
        yield "m.a", "r", "m.b"
        raise PermissionError(errno.EACCES, "not yours")

    with pytest.raises(PermissionError, match="not yours"):
        build_from_triples(failing(), tmp_path / "kg")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
@pytest.mark.parametrize(
    ("phase", "by", "status"),
    [("reading", signal.SIGINT, 130), ("sorting terms", signal.SIGTERM, 143), ("writing out", signal.SIGINT, 130)],
)
def test_an_interrupt_leaves_nothing(tmp_path, phase, by, status):
    source = tmp_path / "a.nt"
    source.write_text(lines(400_000), "utf-8")
    command = [sys.executable, "-m", "graphwalker.cli", "kg", "build", str(source), str(tmp_path / "kg")]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        bufsize=0,
        # tests that run in the background of a shell ignore SIGINT, and what they start would, too
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    seen = b""
    while phase.encode() not in seen:
        seen += process.stderr.read(64)
        assert process.poll() is None or phase.encode() in seen, seen
    process.send_signal(by)
    process.stderr.read()
    assert process.wait(30) == status
    time.sleep(0.1)
    assert [item.name for item in tmp_path.iterdir()] == ["a.nt"]
