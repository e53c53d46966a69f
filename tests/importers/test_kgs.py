"""Published KBs as KGs: PathQuestion's, and the subgraphs that come with RoG's and GRAFT-Net's records."""

import json

import pytest

from data_pipelines.importers import kgs
from data_pipelines.importers.counts import Counts
from data_pipelines.importers.importing import import_from
from graphwalker.cli import main
from graphwalker.errors import FileFormatError, UserError
from graphwalker.kg.open import open_kg

CVT = "m.0_cvt1"
ROG = [
    {
        "id": "q1",
        "question": "whom did Ann Lee marry?",
        "answer": ["Bo Ek"],
        "q_entity": ["Ann Lee"],
        "graph": [["Ann Lee", "people.person.spouse_s", CVT], [CVT, "people.marriage.spouse", "Bo Ek"]],
    },
    {
        "id": "q2",
        "question": "where?",
        "answer": ["Old Town"],
        "q_entity": ["Bo Ek"],
        "graph": [["Bo Ek", "born in", "Old Town"]],
    },
]


@pytest.fixture
def rog(tmp_path):
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in ROG), "utf-8")
    return path


def test_pathquestion_and_its_kb(tmp_path):
    (tmp_path / "2H-kb.txt").write_text("a_b\tparents\tc_d\nc_d\tchildren\ta_b\nc_d\tchildren\te_f\n", "utf-8")
    (tmp_path / "PQ-2H.txt").write_text(
        "who is child of a_b 's parent ?\te_f(e_f/a_b/)\ta_b#parents#c_d#children#e_f#<end>#e_f\n", "utf-8"
    )
    lines = kgs.build("pathquestion", tmp_path / "2H-kb.txt", tmp_path / "kg", progress=False)
    assert "3 facts over 2 relations, 3 named entities" in lines[0]
    store, counts = open_kg(tmp_path / "kg"), Counts()
    (question,) = import_from("pathquestion", tmp_path / "PQ-2H.txt", counts, store=store, only_exact=True)
    assert question.topic_entities[0].id == "a%20b" and counts.kept == 1  # its gold has the topic itself, too
    (tmp_path / "2H-kb.txt").write_text("a_b\tparents\n", "utf-8")
    with pytest.raises(FileFormatError, match="2H-kb.txt:1: expected head, relation, tail"):
        kgs.build("pathquestion", tmp_path / "2H-kb.txt", tmp_path / "other", progress=False)


def test_one_records_subgraph_is_a_kg(rog, tmp_path):
    kgs.build("rog", rog, tmp_path / "q1", record="q1", progress=False)
    store = open_kg(tmp_path / "q1")
    assert store.is_mediator(CVT) and store.named("Old Town") == []
    assert [step.relation for step in store.steps("Ann%20Lee")] == ["people.person.spouse_s.people.marriage.spouse"]
    (question,) = import_from("rog", rog, Counts(), store=store)
    assert question.id == "q1" and question.answers[0].id == "Bo%20Ek"  # the other's topic and answer are not there
    with pytest.raises(UserError, match="no record has the id 'q9'"):
        kgs.build("rog", rog, tmp_path / "q9", record="q9", progress=False)
    with pytest.raises(UserError, match="only rog has records"):
        kgs.build("metaqa", rog, tmp_path / "q9", record="q9", progress=False)


def test_all_subgraphs_together(rog, tmp_path, capsys):
    assert main(["data", "import-kg", "rog", str(rog), str(tmp_path / "kg")]) == 0
    assert "3 named entities, 1 mediators" in capsys.readouterr().out
    store = open_kg(tmp_path / "kg")
    assert {step.relation for step in store.steps("Bo%20Ek")} == {
        "born%20in",
        "people.person.spouse_s.people.marriage.spouse",
    }


def test_graftnets_and_nsms_subgraphs(tmp_path):
    path = tmp_path / "train.json"
    edge = [
        {"kb_id": "<fb:m.a>", "text": "Ann"},
        {"rel_id": "<fb:r.s>", "text": "r.s"},
        {"kb_id": "<fb:m.b>", "text": "m.b"},
    ]
    record = {"id": "q", "question": "?", "answers": [], "entities": [], "subgraph": {"tuples": [edge]}}
    path.write_text(json.dumps(record), "utf-8")
    kgs.build("rog", path, tmp_path / "graft", progress=False)
    store = open_kg(tmp_path / "graft")
    assert store.names(["m.a", "m.b"]) == ["Ann", None] and store.is_mediator("m.b")
    (tmp_path / "entities.txt").write_text("m.a\nBo\n", "utf-8")
    (tmp_path / "relations.txt").write_text("r.s\n", "utf-8")
    path.write_text(json.dumps({**record, "subgraph": {"tuples": [[0, 0, 1]]}}), "utf-8")
    kgs.build("rog", path, tmp_path / "nsm", progress=False)
    assert [tuple(t) for t in _triples(open_kg(tmp_path / "nsm"))] == [("m.a", "r.s", "Bo")]
    path.write_text(json.dumps({"id": "q", "question": "?", "answers": []}), "utf-8")
    with pytest.raises(FileFormatError, match="train.json:1: record 1: field 'graph' .RoG. or 'subgraph'"):
        kgs.build("rog", path, tmp_path / "none", progress=False)


def _triples(store):
    return [(t.head, t.relation, t.tail) for t in store.match(relation="r.s")]
