"""`graphwalker kg connect` as a user types it."""

import json

import pytest

from graphwalker.cli import main


@pytest.fixture(scope="module")
def url(sparql_server, toy_nt):
    return sparql_server("oxigraph", toy_nt).url


def test_connect_info_query(url, tmp_path, capsys):
    kg = str(tmp_path / "kg")
    assert main(["kg", "connect", url, kg, "--schema", "freebase", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "triples                  28" in out and "relations                 6" in out and "names" in out
    settings = json.loads((tmp_path / "kg" / "meta.json").read_text())
    assert (
        settings["store"] == "endpoint" and settings["endpoint"]["url"] == url and settings["endpoint"]["params"] == {}
    )
    assert main(["kg", "info", kg]) == 0
    assert main(["kg", "query", kg, 'get_triples("france", ["location.country.capital"])']) == 0
    assert "[France, location.country.capital, Paris]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        (["http://user:secret@localhost/sparql"], 2, "GRAPHWALKER_SPARQL_USER"),
        (["localhost:8890"], 2, "URL"),
        (["http://127.0.0.1:9/sparql"], 1, "cannot connect"),
        ([None, "--graph", "http://no.such/graph"], 2, "--graph"),
        ([None, "--schema", "rdf", "--timeout", "0"], 2, "timeout"),
        ([None, "--schema", "SCHEMA"], 2, "--schema"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(url, tmp_path, capsys, change, status, said):
    other = tmp_path / "other.yaml"
    other.write_text("name: other\nnamespaces: {ns: 'http://other/'}\nname_predicates: ['ns:name']\n")
    address, *options = [str(other) if word == "SCHEMA" else word for word in change]
    command = ["kg", "connect", address or url, str(tmp_path / "kg"), "--schema", "freebase", "--quiet", *options]
    assert main(command) == status
    error = capsys.readouterr().err
    assert said in error and "secret" not in error and error.count("\n") == 1
    assert not (tmp_path / "kg").exists()


def test_wrong_settings_in_the_folder_are_named(url, tmp_path, capsys):
    kg = tmp_path / "kg"
    assert main(["kg", "connect", url, str(kg), "--schema", "freebase", "--quiet"]) == 0
    meta = json.loads((kg / "meta.json").read_text())
    meta["endpoint"]["conections"] = 3
    (kg / "meta.json").write_text(json.dumps(meta))
    assert main(["kg", "query", str(kg), 'get_relations("France")']) == 2
    assert "conections" in capsys.readouterr().err
