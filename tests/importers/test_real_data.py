"""The importers and the oracle on the real files; skipped without GRAPHWALKER_DATA."""

import csv

import pytest

from data_pipelines.importers import kgs
from data_pipelines.importers.counts import Counts
from data_pipelines.importers.freebase_slice import read_slice
from data_pipelines.importers.importing import import_from
from data_pipelines.importers.on_kg import GOLD_IS_PART
from data_pipelines.oracle import Oracle, summarise
from envs.kg_env import KGEnv
from graphwalker.kg.open import open_kg
from graphwalker.rewards import em, em_set
from graphwalker.tools.toolbox import Toolbox

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def slice_store(data_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("slice") / "kg"
    kgs.build("freebase-slice", data_dir / "fb15k237", folder, progress=False)
    return open_kg(folder)


@pytest.fixture(scope="module")
def exact(data_dir, slice_store):
    file = data_dir / "webqsp" / "WebQSP.train.json"
    return list(import_from("webqsp", file, Counts(), store=slice_store, only_exact=True))


def test_the_slice_has_the_counts_its_description_states(data_dir):
    part = read_slice(data_dir / "fb15k237")
    assert (len(part.facts), part.relations, len(part.types), len(part.names)) == (952_119, 445, 58_018, 14_541)


def test_the_slice_as_a_kg(slice_store):
    assert len(slice_store) == 952_119 + 58_018 + 14_541 + 366
    assert len(slice_store.named("Jamaica")) == 2


def test_exact_questions_are_those_of_the_list_beside_them(data_dir, exact):
    with open(data_dir / "webqsp" / "answerable_on_fb15k237.tsv", encoding="utf-8", newline="") as handle:
        listed = {
            row["qid"]
            for row in csv.DictReader(handle, delimiter="\t")
            if row["exact"] == "True" and row["constraints"] == "0" and int(row["chain_len"]) >= 1
        }
    assert {question.id for question in exact} == listed and len(listed) == 283


def test_the_oracle_is_right_on_every_exact_question(slice_store, exact):
    oracle = Oracle(KGEnv(Toolbox(slice_store, strict=False)))
    replays = [oracle.replay(question) for question in exact]
    given = [(replay.trajectory.answer or (), replay.trajectory.question.answers) for replay in replays]
    assert all(em(*pair) == 1 for pair in given)
    few = [pair for pair in given if len(pair[1]) <= 5]
    assert len(few) == 274 and all(em_set(*pair) == 1 for pair in few)
    found = summarise(replays, 20)
    assert found["gold_relation_in_top"]["20"] >= 212  # what a plain BM25 had
    assert found["gold_relation_missing"] == 0


def test_webqsp_as_a_whole(data_dir, slice_store):
    counts = Counts()
    found = list(
        import_from("webqsp", data_dir / "webqsp" / "WebQSP.train.json", counts, store=slice_store, closed_world=True)
    )
    assert counts.read == 750 and counts.kept == len(found) and counts.dropped["no answer is in the KG"]
    assert all(slice_store.has_node(answer.id) for question in found for answer in question.answers if answer.id)


def test_metaqa_as_a_whole(data_dir, tmp_path):
    kgs.build("metaqa", data_dir / "metaqa", tmp_path / "kg", progress=False)
    store, counts = open_kg(tmp_path / "kg"), Counts()
    hops = [question.hops for question in import_from("metaqa", data_dir / "metaqa", counts, store=store)]
    assert [hops.count(n) for n in (1, 2, 3)] == [9_992, 14_872, 14_274]
    assert not counts.dropped
    assert counts.notes == {
        GOLD_IS_PART: 512,
        "an answer that stood split at its comma was put together": 2,
    }


@pytest.mark.parametrize(
    ("form", "file", "read", "kept", "without_path"),
    [
        ("agentbench", "samples/agentbench_kg.json", 60, 60, 0),
        ("cwq", "samples/cwq_clear_format.json", 80, 80, 0),
        ("cwq", "samples/cwq_tog_format.json", 100, 100, 3),
        ("grailqa", "samples/grailqa.json", 100, 100, 0),
        ("lcquad1", "samples/lcquad1.json", 50, 50, 2),
        ("pathquestion", "pathquestion/PQ-2H.txt", 1_908, 1_908, 0),
        ("qald", "samples/qald10_en.json", 50, 50, 8),
        ("simplequestions", "samples/simplequestions_freebase.txt", 200, 200, 0),
        ("simplequestions", "samples/simplequestions_wikidata.txt", 200, 200, 0),
        ("webqsp", "webqsp/WebQSP.train.json", 750, 749, 13),
        ("interactive-kbqa", "samples/interactive_kbqa/dialogues/cwq_gpt4o_60.json", 60, 44, 0),
        ("interactive-kbqa", "samples/interactive_kbqa/fewshot", 48, 48, 0),
    ],
)
def test_every_sample_has_the_counts_of_the_documentation(data_dir, form, file, read, kept, without_path):
    counts = Counts()
    found = list(import_from(form, data_dir / file, counts))
    assert (counts.read, counts.kept, len(found)) == (read, kept, kept)
    assert counts.notes["it has no gold path"] == without_path


def test_pathquestions_gold_is_exactly_what_its_paths_give(data_dir, tmp_path):
    for hops, questions in ((2, 1_908), (3, 5_198)):
        kgs.build("pathquestion", data_dir / "pathquestion" / f"{hops}H-kb.txt", tmp_path / str(hops), progress=False)
        store, counts = open_kg(tmp_path / str(hops)), Counts()
        file = data_dir / "pathquestion" / f"PQ-{hops}H.txt"
        assert len(list(import_from("pathquestion", file, counts, store=store, only_exact=True))) == questions
