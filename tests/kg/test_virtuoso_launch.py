"""The files of launch/virtuoso: settings by memory, what is refused, and that container and script fit together."""

import configparser
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

LAUNCH = Path(__file__).resolve().parents[2] / "launch" / "virtuoso"


def run(*words):
    command = [sys.executable, str(LAUNCH / "virtuoso.py"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def ini(folder):
    parser = configparser.ConfigParser(comment_prefixes=(";", "#"))
    parser.read(folder / "virtuoso.ini")
    return parser


@pytest.mark.parametrize(("memory", "buffers"), [("2G", 164_558), ("32G", 2_632_930), ("1M", 2_000)])
def test_two_thirds_of_the_memory_are_buffers(tmp_path, memory, buffers):
    assert run("ini", tmp_path, "--memory", memory, "--data", tmp_path / "dump").returncode == 0
    settings = ini(tmp_path)
    assert int(settings["Parameters"]["NumberOfBuffers"]) == buffers
    assert int(settings["Parameters"]["MaxDirtyBuffers"]) == buffers * 3 // 4
    assert settings["Parameters"]["DirsAllowed"] == str(tmp_path / "dump")
    assert settings["HTTPServer"]["ServerPort"] == "127.0.0.1:8890"  # not the whole network
    assert settings["Database"]["DatabaseFile"] == f"{tmp_path}/virtuoso.db"


def test_settings_for_the_container(tmp_path):
    done = run("ini", tmp_path, "--memory", "8G", "--seen-as", "/database", "--host", "0.0.0.0")
    assert done.returncode == 0, done.stderr
    assert ini(tmp_path)["Database"]["DatabaseFile"] == "/database/virtuoso.db"
    service = yaml.safe_load((LAUNCH / "compose.yaml").read_text())["services"]["virtuoso"]
    inside = [volume.rpartition(":ro")[0] or volume for volume in service["volumes"]]
    assert {path.rpartition(":")[2] for path in inside} == {"/database", "/load.sql", "/dump"}
    assert service["ports"] == ["127.0.0.1:8890:8890"] and "ask" in service["healthcheck"]["test"][1]
    assert "/dump" in (LAUNCH / "load.sql").read_text() and ini(tmp_path)["Parameters"]["DirsAllowed"] == "/dump"


def test_what_cannot_be_is_said(tmp_path):
    assert "32G" in run("ini", tmp_path, "--memory", "much").stderr
    assert "run `ini` first" in run("ready", tmp_path, "--seconds", "1").stderr
    run("ini", tmp_path, "--memory", "1G", "--http-port", "9")
    done = run("ready", tmp_path, "--seconds", "1")
    assert done.returncode == 1 and "no answer" in done.stderr


def test_a_missing_file_is_not_loaded(tmp_path):
    run("ini", tmp_path, "--memory", "1G")
    done = run("load", tmp_path, tmp_path / "none.nt", "--graph", "http://g")
    assert done.returncode == 1 and ("none.nt" in done.stderr or "isql" in done.stderr)


@pytest.mark.virtuoso
def test_a_broken_file_is_named(tmp_path_factory, sparql_server, toy_nt):
    server = sparql_server("virtuoso", toy_nt)
    broken = toy_nt.parent / "broken.nt"
    broken.write_text("<http://a> <http://b> .\n")
    done = run("load", server.home, broken, "--graph", "http://broken")
    assert done.returncode == 1 and "broken.nt" in done.stderr
