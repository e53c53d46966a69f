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
