"""The gold SPARQL of WebQSP on the Freebase slice, in the worker; skipped without GRAPHWALKER_DATA."""

import csv
import json

import pytest

from data_pipelines.importers import kgs
from graphwalker.errors import KGUnavailable, QueryRefused
from graphwalker.kg.guard import QueryLimits
from graphwalker.kg.worker import QueryWorker

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def worker(data_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("slice") / "kg"
    kgs.build("freebase-slice", data_dir / "fb15k237", folder, store="oxigraph", progress=False)
    worker = QueryWorker(folder)
    yield worker
    worker.close()


def run(worker, query):
    """The values of the first variable, or why there are none."""
    try:
        answer = worker.execute(query, QueryLimits(rows=50_000, seconds=120))
    except (QueryRefused, KGUnavailable) as error:
        return None, str(error)
    assert not answer.truncated
    return {next(iter(row.values())) for row in answer.rows if row}, ""


def test_gold_queries_run_and_give_the_recorded_answers(data_dir, worker):
    """`n_kg` and `exact` beside WebQSP were computed by other means, from the first parse on the same slice."""
    with open(data_dir / "webqsp/answerable_on_fb15k237.tsv", encoding="utf-8", newline="") as handle:
        recorded = {row["qid"]: row for row in csv.DictReader(handle, delimiter="\t")}
    questions = json.loads((data_dir / "webqsp/WebQSP.train.json").read_text("utf-8"))["Questions"]
    failed, wrong, exact = [], [], 0
    for question in questions:
        parse = question["Parses"][0]
        found, reason = run(worker, parse["Sparql"])
        row = recorded.get(question["QuestionId"])
        if found is None:
            failed.append((question["QuestionId"], reason))
        elif row is not None:
            gold = {answer["AnswerArgument"] for answer in parse["Answers"]}
            exact += found == gold
            if len(found) != int(row["n_kg"]) or (found == gold) != (row["exact"] == "True") or not found & gold:
                wrong.append((question["QuestionId"], len(found), row))
    assert not failed
    assert not wrong
    assert exact == 296


def test_the_gold_queries_of_the_samples_run(data_dir, worker):
    queries = []
    for name in ("cwq_tog_format.json", "cwq_clear_format.json", "grailqa.json"):
        for row in json.loads((data_dir / "samples" / name).read_text("utf-8")):
            queries += [(name, row[key]) for key in ("sparql", "raw_sparql", "sparql_query") if row.get(key)]
    outcomes = [(name, query, *run(worker, query)) for name, query in queries]
    assert not [(name, query, reason) for name, query, found, reason in outcomes if found is None]
    assert sum(bool(found) for _, _, found, _ in outcomes) >= 10 and len(queries) > 300
