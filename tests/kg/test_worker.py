"""SPARQL in a worker that can be killed."""

import os
import resource
import signal
import threading

import pytest

from graphwalker.errors import KGUnavailable, QueryRefused, UserError
from graphwalker.kg.build import build_kg
from graphwalker.kg.guard import QueryLimits
from graphwalker.kg.open import open_kg
from graphwalker.kg.worker import QueryWorker, execute

EXPENSIVE = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . ?m ?n1 ?o . ?p ?q ?r }"
DOUBLED = " ".join(f"BIND(CONCAT(?v{i}, ?v{i}) AS ?v{i + 1})" for i in range(40))


@pytest.fixture(scope="module")
def oxigraph_kg(toy_nt, tmp_path_factory):
    return build_kg(toy_nt, tmp_path_factory.mktemp("worker") / "kg", "freebase", store="oxigraph", progress=False)


@pytest.fixture(scope="module")
def worker(oxigraph_kg):
    worker = QueryWorker(oxigraph_kg)
    yield worker
    worker.close()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ?s ?p ?o { ?s ?p ?o } ORDER BY ?s ?p ?o",
        "SELECT ?x ?n { :m.fr :location.location.contains ?x OPTIONAL { ?x :common.topic.alias ?n } } ORDER BY ?x",
        "SELECT ?x { ?x ns:type.object.name 'Ann Lee'@en } ORDER BY ?x",
        "SELECT ?a { ?x ns:location.location.area ?a }",
        "SELECT ?x { ?x a <http://nothing> }",
    ],
)
def test_answers_are_those_of_the_database_itself(worker, oxigraph_kg, query):
    from graphwalker.kg.dialect import normalise

    store = open_kg(oxigraph_kg)
    answer = worker.execute(query)
    inside = store.query(normalise(query, store.schema.namespaces))
    assert list(answer.rows) == inside
    assert not answer.truncated and answer.boolean is None
    assert store.execute(query) == answer == execute(oxigraph_kg, query)


def test_ask(worker):
    assert worker.execute("ASK { :m.fr ?p :m.paris }").boolean is True
    assert worker.execute("ASK { :m.paris ?p :m.es }").boolean is False


def test_rows_are_cut_and_said_to_be(worker):
    some = worker.execute("SELECT * { ?s ?p ?o }", QueryLimits(rows=3))
    assert len(some.rows) == 3 and some.truncated
    exactly = worker.execute("SELECT * { ?s ?p ?o } LIMIT 3", QueryLimits(rows=3))
    assert len(exactly.rows) == 3 and not exactly.truncated


def test_a_query_past_its_time_is_killed_and_the_next_one_answered(worker):
    with pytest.raises(KGUnavailable, match="no answer within 0.5 s") as caught:
        worker.execute(EXPENSIVE, QueryLimits(seconds=0.5))
    assert caught.value.status == "kg_timeout"
    starts = worker.starts
    assert worker.execute("ASK { :m.fr ?p :m.paris }").boolean is True
    assert worker.starts == starts + 1


def test_a_query_past_its_memory_is_refused_and_the_next_one_answered(worker):
    query = f"SELECT (STRLEN(?v40) AS ?n) {{ BIND('0123456789' AS ?v0) {DOUBLED} }}"
    limits = QueryLimits(memory_mb=256, seconds=60)
    with pytest.raises(QueryRefused, match="more than the 256 MiB of memory"):
        worker.execute(query, limits)
    assert worker.execute("ASK { :m.fr ?p :m.paris }", limits).boolean is True


def test_what_the_guard_refuses_never_reaches_the_worker(oxigraph_kg):
    worker = QueryWorker(oxigraph_kg)
    with pytest.raises(QueryRefused, match="SERVICE is not allowed"):
        worker.execute("SELECT * { SERVICE <http://localhost:1/> { ?s ?p ?o } }")
    assert worker.starts == 0


def test_what_the_engine_refuses_is_refused(worker):
    with pytest.raises(QueryRefused, match="SPARQL: "):
        worker.execute("SELECT (STRLEN(1, 2, 3) AS ?x) { }")


def test_a_worker_that_died_is_started_again(worker):
    worker.execute("ASK { }")
    os.kill(worker._process.pid, 9)
    worker._process.wait()
    assert worker.execute("ASK { }").boolean is True


def test_threads_wait_for_each_other(worker):
    answers = []
    threads = [
        threading.Thread(target=lambda i=i: answers.append((i, worker.execute(f"SELECT ({i} AS ?n) {{ }}").rows)))
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    integer = "http://www.w3.org/2001/XMLSchema#integer"
    assert sorted(answers) == [(i, ({"n": f'"{i}"^^<{integer}>'},)) for i in range(8)]


def test_a_store_without_sparql_says_what_to_do(toy_kg, oxigraph_kg, tmp_path):
    with pytest.raises(UserError, match="memory store, which has no SPARQL.*--store oxigraph.*import-kg"):
        execute(toy_kg, "ASK { }")
    with pytest.raises(UserError, match="no such knowledge graph"):
        execute(tmp_path / "none", "ASK { }")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "meta.json").write_bytes((oxigraph_kg / "meta.json").read_bytes())
    with pytest.raises(KGUnavailable, match="cannot be opened"):
        execute(broken, "ASK { }")


def test_it_answers_where_a_thousand_files_are_open(oxigraph_kg):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1200:
        pytest.skip("the system lets no process open so many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1050)]
    worker = QueryWorker(oxigraph_kg)
    try:
        assert worker.execute("ASK { }").boolean is True
    finally:
        worker.close()
        for handle in opened:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_worker_that_takes_nothing_is_given_up_in_time(worker):
    worker.execute("ASK { }")
    os.kill(worker._process.pid, signal.SIGSTOP)
    long = f"PREFIX p: <http://{'y' * 1900}/> SELECT * {{ ?a p: ?b {'; p: ?c ' * 80} }}"  # more than a pipe holds
    with pytest.raises(KGUnavailable, match="no answer within 1 s"):
        worker.execute(long, QueryLimits(seconds=1))
    assert worker.execute(long).rows == ()
