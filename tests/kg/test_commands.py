"""`graphwalker kg build | info | query` as a user types them."""

import json

import pytest

from graphwalker.cli import main


def test_build_info_query(tmp_path, toy_nt, capsys):
    kg = str(tmp_path / "kg")
    assert main(["kg", "build", str(toy_nt), kg, "--schema", "freebase"]) == 0
    printed = capsys.readouterr()
    assert "triples                  28" in printed.out and "reading" in printed.err  # a progress bar
    assert main(["kg", "info", kg]) == 0
    assert "schema    freebase" in capsys.readouterr().out
    assert main(["kg", "info", kg, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["mediators"] >= 1
    assert main(["kg", "query", kg, 'get_relations("France")', "--question", "What is the capital of France?"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "location.country.capital"
    assert main(["kg", "query", kg, 'get_triples("France", ["location.location.contains"])', "--triples", "1"]) == 0
    assert "[France, location.location.contains, Lyon]" in capsys.readouterr().out


@pytest.mark.parametrize("query", ['get_relations("Atlantis")', "nonsense", 'get_triples("France", ["no.such"])'])
def test_an_error_observation_is_printed_and_fails(toy_kg, capsys, query):
    assert main(["kg", "query", str(toy_kg), query]) == 1
    assert "Error:" in capsys.readouterr().out


def test_bad_options_are_refused(toy_kg, capsys):
    assert main(["kg", "query", str(toy_kg), 'get_relations("France")', "--top-k", "0"]) == 2
    assert "--top-k" in capsys.readouterr().err


def test_the_oxigraph_store_answers_the_same(tmp_path, toy_nt, toy_kg, capsys):
    assert (
        main(
            ["kg", "build", str(toy_nt), str(tmp_path / "ox"), "--schema", "freebase", "--store", "oxigraph", "--quiet"]
        )
        == 0
    )
    capsys.readouterr()
    for query in ('get_relations("Paris")', 'get_triples("Paris", ["people.person.place_of_birth"])'):
        answers = []
        for kg in (toy_kg, tmp_path / "ox"):
            assert main(["kg", "query", str(kg), query]) == 0
            answers.append(capsys.readouterr().out)
        assert answers[0] == answers[1]


def test_a_call_of_the_kbqa_tools(toy_sparql_kg, toy_kg, capsys):
    assert main(["kg", "query", str(toy_sparql_kg), 'SearchNodes("France")']) == 0
    assert capsys.readouterr().out.startswith('[\'"France" | Description')
    assert main(["kg", "query", str(toy_sparql_kg), "ExecuteSPARQL('DROP ALL')"]) == 1
    assert "DROP is not allowed" in capsys.readouterr().out
    assert main(["kg", "query", str(toy_kg), 'SearchNodes("France")']) == 2
    assert "--store oxigraph" in capsys.readouterr().err
