"""Which questions the toy KG can answer, and with which gold."""

import json
from dataclasses import replace

import pytest

from data_pipelines.importers.counts import Counts
from data_pipelines.kg_check import LESS, MIXED, MORE, NEW, SAME, Checker, check, gold_runner
from graphwalker.cli import main
from graphwalker.errors import UserError
from graphwalker.files import read_jsonl, write_jsonl
from graphwalker.kg.build import build_kg
from graphwalker.kg.open import open_kg
from graphwalker.types import Entity, Question

FRANCE, PARIS, LYON = Entity("France", "m.fr"), Entity("Paris", "m.paris"), Entity("Lyon", "m.lyon")
CONTAINS, CAPITAL = (("location.location.contains",),), (("location.country.capital",),)
ASKED = Question("q", "which cities has France?", (FRANCE,), (PARIS, LYON), dataset="made-up", paths=CONTAINS)


@pytest.fixture
def checked(toy_store):
    def run(question, run_query=None):
        return Checker(toy_store, run_query).check(question)

    return run


def test_gold_is_recomputed_and_labelled(checked):
    for answers, note in (
        ((PARIS, LYON), SAME),
        ((PARIS,), MORE),
        ((PARIS, LYON, Entity("Nice", "m.nice")), LESS),
        ((PARIS, Entity("Nice", "m.nice")), MIXED),
        ((Entity("Paris"),), MORE),  # by its name
    ):
        found = checked(replace(ASKED, answers=answers))
        assert (found.reason, found.note, found.question.dataset) == ("", note, "made-up-closed-world")
        assert {answer.id for answer in found.question.answers} == {"m.paris", "m.lyon"}
    found = checked(replace(ASKED, answers=(), sparql="SELECT …"))
    assert found.note == NEW and len(found.question.answers) == 2
    assert checked(found.question).question == found.question  # checked again, it stays


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"topic_entities": (Entity("Atlantis", "m.gone"),)}, "its topic entity is not in the KG"),
        ({"topic_entities": (Entity("Atlantis"),)}, "its topic entity is not in the KG"),
        ({"topic_entities": (), "paths": ()}, "it has no topic entity"),
        ({"paths": ()}, "it has no gold path"),
        ({"paths": (), "sparql": "SELECT …"}, "it has no gold path (its gold query was not run)"),
        ({"paths": (("no.such.relation",),)}, "its gold path leads nowhere"),
        ({"answers": (Entity("Nice", "m.nice"),)}, "what the KG gives shares nothing with the published gold"),
        (
            {"answers": (Entity("Nice", "m.nice"),), "structure": "+constraints"},
            "its gold path leads to none of its answers",
        ),
    ],
)
def test_what_cannot_be_answered_says_why(checked, change, reason):
    assert checked(replace(ASKED, **change)).reason == reason


def test_of_a_path_with_constraints_only_the_published_gold_counts(checked):
    found = checked(replace(ASKED, answers=(PARIS, Entity("Nice", "m.nice")), structure="1-hop+constraints"))
    assert [answer.id for answer in found.question.answers] == ["m.paris"] and found.note == LESS


def test_gold_queries_run_where_something_runs_them(checked):
    queried = replace(ASKED, topic_entities=(), paths=(), sparql="SELECT ?x")
    found = checked(queried, lambda sparql: ["m.paris", "m.lyon"] if sparql == "SELECT ?x" else [])
    assert found.note == SAME and [a.name for a in found.question.answers] == ["Lyon", "Paris"]
    assert checked(queried, lambda sparql: []).reason == "its gold query finds nothing"
    values = checked(
        replace(queried, answers=(Entity("7"),)), lambda sparql: ['"7"^^<http://www.w3.org/2001/XMLSchema#int>']
    )
    assert values.note == SAME and values.question.answers == (Entity("7"),)

    def refuse(sparql):
        raise UserError("it has MINUS\nand more")

    assert checked(queried, refuse).reason == "its gold query does not run: it has MINUS"
    assert checked(replace(ASKED, sparql="SELECT ?x"), refuse).note == SAME  # by its path


def test_counts_and_the_command(toy_kg, toy_store, tmp_path, capsys):
    lost = replace(ASKED, id="lost", topic_entities=(Entity("Atlantis", "m.gone"),))
    counts = Counts()
    assert [q.id for q in check([ASKED, lost], Checker(toy_store), counts)] == ["q"]
    assert counts.to_json()["dropped"] == {"its topic entity is not in the KG": 1} and counts.notes == {SAME: 1}
    source, out = tmp_path / "asked.jsonl", tmp_path / "can.jsonl"
    write_jsonl(source, [ASKED, lost])
    assert main(["kg", "check", str(source), "--kg", str(toy_kg), "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "closed world" in shown and "read 2, kept 1, dropped 1" in shown and "(first: lost)" in shown
    (question,) = read_jsonl(out, Question)
    assert question.dataset == "made-up-closed-world"
    assert json.loads((tmp_path / "can.counts.json").read_text("utf-8"))["gold"] == "recomputed, closed world"


def test_nothing_to_answer_or_to_read(toy_kg, tmp_path, capsys):
    source, out = tmp_path / "asked.jsonl", tmp_path / "can.jsonl"
    write_jsonl(source, [replace(ASKED, paths=())])
    assert main(["kg", "check", str(source), "--kg", str(toy_kg), "--out", str(out)]) == 1
    assert "kept 0" in capsys.readouterr().out and not out.exists()
    assert main(["kg", "check", str(source), "--kg", str(toy_kg), "--out", str(source)]) == 2
    assert "onto the input" in capsys.readouterr().err
    source.write_text("", "utf-8")
    assert main(["kg", "check", str(source), "--kg", str(toy_kg)]) == 2
    assert "no questions" in capsys.readouterr().err


def test_gold_queries_run_where_the_store_has_sparql(toy_nt, tmp_path):
    build_kg(toy_nt, tmp_path / "kg", schema="freebase", store="oxigraph", progress=False)
    checker = Checker(store := open_kg(tmp_path / "kg"), gold_runner(store))
    ns = "PREFIX ns: <http://rdf.freebase.com/ns/> "
    asked = replace(
        ASKED, paths=(), sparql=ns + "SELECT DISTINCT ?x WHERE { ns:m.fr ns:location.location.contains ?x . }"
    )
    assert checker.check(asked).note == SAME
    capital = replace(asked, sparql=ns + "SELECT ?x WHERE { ns:m.fr ns:location.country.capital ?x }")
    assert checker.check(capital).note == LESS
    yes = replace(asked, answers=(Entity("yes"),), sparql=ns + "ASK { ns:m.fr ns:location.country.capital ns:m.paris }")
    assert checker.check(yes).note == SAME
    for query, reason in (
        ("DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }", "its gold query does not run: DELETE is not allowed"),
        (ns + "SELECT ?x { ns:m.fr ns:no.such.relation ?x }", "its gold query finds nothing"),
    ):
        assert checker.check(replace(asked, sparql=query)).reason.startswith(reason)
