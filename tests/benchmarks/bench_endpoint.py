"""Agent steps a second on Virtuoso: many episodes at once through the endpoint store, beside SPARQLWrapper one by one.

Virtuoso is started here (Debian's virtuoso-opensource-7) with the Freebase slice. The same calls, walks that begin at
the topics of WebQSP questions, are answered three times, and all must give the texts of the in-memory store:

- `endpoint`: the store, EPISODES at a time;
- `batched`: the queries of `SparqlStore`, one for a tool call, sent by SPARQLWrapper one after the other;
- `one by one`: a query for each way to leave an entity, for each relation and for each name, as the clients of earlier
  systems send them, by SPARQLWrapper one after the other.

    GRAPHWALKER_DATA=FOLDER python tests/benchmarks/bench_endpoint.py --out endpoint.json
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench_kg import Episode, opened, record
from SPARQLWrapper import JSON, POST, SPARQLWrapper

from data_pipelines.importers.counts import Counts
from data_pipelines.importers.importing import import_from
from graphwalker.files import write_json
from graphwalker.kg.connect import connect_kg
from graphwalker.kg.endpoint import EndpointStore, decoded
from graphwalker.kg.open import open_kg
from graphwalker.kg.sparql_http import Endpoint
from graphwalker.kg.sparql_results import Result
from graphwalker.kg.sparql_store import HUB, Row, SparqlStore
from graphwalker.kg.store import Expansion
from graphwalker.kg.terms import parse_literal
from graphwalker.tools.toolbox import Toolbox
from graphwalker.types import Question

AIM = 10.0
GRAPH = "http://freebase.com"
SCRIPT = Path(__file__).resolve().parents[2] / "launch" / "virtuoso" / "virtuoso.py"


class Batched(SparqlStore):
    """What the server can work out for a tool call in one query, by SPARQLWrapper, nothing kept."""

    def __init__(self, like: EndpointStore):
        super().__init__(like.schema, like.vocabulary(), like._reverses, like._spellings)
        self.sent = 0
        self._wrapper = SPARQLWrapper(like.endpoint.url)
        self._wrapper.addDefaultGraph(like.endpoint.graph)
        self._wrapper.setReturnFormat(JSON)
        self._wrapper.setMethod(POST)

    def rows(self, sparql: str) -> list[Row]:
        self.sent += 1
        self._wrapper.setQuery(sparql)
        answer: Any = self._wrapper.queryAndConvert()
        names = answer["head"]["vars"]
        rows = [[row.get(name) for name in names] for row in answer["results"]["bindings"]]
        return decoded(Result(names, rows, None, False), self._short)

    def execute(self, sparql: str, limits=None):
        raise NotImplementedError

    def _query(self, sparql: str) -> list[Row] | bool:
        return self.rows(sparql)

    def _scan(self, head, relation, tail) -> Iterator:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


class OneByOne(Batched):
    """A query for each question that can be asked alone; same answers."""

    def rows(self, sparql: str) -> list[Row]:
        if " UNION " not in sparql or not sparql.startswith("SELECT DISTINCT ?k ?p ?q ?n"):
            return super().rows(sparql)
        found: list[Row] = []
        body = sparql[sparql.index("{") + 1 : sparql.rindex("}")]
        for block in body.split(" UNION "):
            found += super().rows(f"SELECT DISTINCT ?k ?p ?q ?n {{ {block} }}")
        return found

    def expand(self, node: str, relations: Sequence[str], limit: int) -> list[Expansion]:
        return [super(OneByOne, self).expand(node, [relation], limit)[0] for relation in relations]

    def _ends(self, node, steps, most):
        ends: dict = {}
        capped: set = set()
        for numbered in steps:
            one, full = super()._ends(node, [numbered], most)
            ends, capped = ends | one, capped | full
        return ends, capped

    def _remember(self, names) -> None:
        """Names are asked for when they are printed."""

    def names(self, nodes: Sequence[str]) -> list[str | None]:
        return [super(OneByOne, self).names([node])[0] for node in nodes]


def play(store, episodes: list[Episode], at_once: int) -> tuple[float, list[list[str]]]:
    """Seconds and texts."""
    toolbox = Toolbox(store)

    def walk(episode: Episode) -> list[str]:
        session = toolbox.session(episode.question)
        return [session.run(query).text for query in episode.queries()]

    begin = time.perf_counter()
    if at_once == 1:
        texts = [walk(episode) for episode in episodes]
    else:
        with ThreadPoolExecutor(at_once) as pool:
            texts = list(pool.map(walk, episodes))
    return time.perf_counter() - begin, texts


def write_nt(store, path: Path) -> None:
    def term(node: str) -> str:
        return node if node[0] == '"' and parse_literal(node) else f"<{store.schema.expand(node)}>"

    with open(path, "w", encoding="utf-8") as handle:
        for t in store:
            handle.write(f"{term(t.head)} {term(t.relation)} {term(t.tail)} .\n")


def start_virtuoso(work: Path, nt: Path, port: int) -> subprocess.Popen:
    """A new server with the file loaded; the caller ends it."""
    home = work / "virtuoso"
    shutil.rmtree(home, ignore_errors=True)
    script = [sys.executable, str(SCRIPT)]
    ports = ["--http-port", str(port), "--sql-port", str(port + 1)]
    subprocess.run([*script, "ini", home, "--memory", "2G", *ports, "--data", nt.parent], check=True)
    server = subprocess.Popen([*script, "serve", home], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        subprocess.run([*script, "ready", home], check=True)
        subprocess.run([*script, "load", home, nt, "--graph", GRAPH], check=True)
    except BaseException:
        server.kill()
        raise
    return server


def measure(data: Path, work: Path, *, questions: int, at_once: int, port: int, seed: int) -> dict:
    memory = opened(data, work / "slice-memory", "memory")
    nt = work / "slice.nt"
    write_nt(memory, nt)
    imported = import_from("webqsp", data / "webqsp" / "WebQSP.train.json", Counts(), store=memory)
    asked = [question for question in imported if isinstance(question, Question)]
    drawn = random.Random(seed).sample(asked, min(2 * questions, len(asked)))
    warming, episodes = record(memory, drawn[1::2], seed), record(memory, drawn[::2], seed)
    steps = sum(len(episode.calls) for episode in episodes)
    _, right = play(memory, episodes, 1)
    server = start_virtuoso(work, nt, port)
    try:
        endpoint = Endpoint(f"http://127.0.0.1:{port}/sparql", GRAPH, connections=16, max_rows=100_000)
        behind = open_kg(connect_kg(endpoint, work / "endpoint", "freebase"))
        assert isinstance(behind, EndpointStore)
        # Virtuoso takes long for the first query with a predicate, and less for one whose text it has seen: so a run on
        # other episodes goes before, and the store whose texts `batched` repeats comes before it.
        play(Batched(behind), warming, 1)
        stores: dict[str, EndpointStore | Batched] = {
            "endpoint": behind,
            "one by one": OneByOne(behind),
            "batched": Batched(behind),
        }
        figures = {}
        for name, store in stores.items():
            seconds, texts = play(store, episodes, at_once if name == "endpoint" else 1)
            sent = store.client.counts["sent"] if isinstance(store, EndpointStore) else store.sent
            figures[name] = {
                "steps_per_second": round(steps / seconds, 1),
                "queries_per_step": round(sent / steps, 2),
                "texts_that_differ": sum(
                    a != b for x, y in zip(texts, right, strict=True) for a, b in zip(x, y, strict=True)
                ),
            }
        behind.close()
    finally:
        server.kill()
        server.wait()
    ratio = figures["endpoint"]["steps_per_second"] / figures["one by one"]["steps_per_second"]
    return {
        "triples": len(memory),
        "episodes": len(episodes),
        "steps": steps,
        "at_once": at_once,
        "hub": HUB,
        "stores": figures,
        "endpoint_over_one_by_one": round(ratio, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    parser.add_argument("--work", type=Path, default=Path("runs/bench/kg"), help="where stores are built and kept")
    parser.add_argument("--questions", type=int, default=200, help="walks")
    parser.add_argument("--at-once", type=int, default=64, help="episodes at a time")
    parser.add_argument("--port", type=int, default=28_990, help="for Virtuoso; the next one is used too")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    data = os.environ.get("GRAPHWALKER_DATA")
    if not data or not (Path(data) / "fb15k237").is_dir():
        print("skipped: set GRAPHWALKER_DATA to a folder with fb15k237 and webqsp")
        return 0
    if not shutil.which("virtuoso-t"):
        print("skipped: needs Virtuoso (`apt-get install virtuoso-opensource-7`)")
        return 0
    args.work.mkdir(parents=True, exist_ok=True)
    figures = measure(
        Path(data), args.work, questions=args.questions, at_once=args.at_once, port=args.port, seed=args.seed
    )
    print(f"{figures['steps']:,} agent steps of {figures['episodes']} episodes, {figures['triples']:,} triples")
    for name, found in figures["stores"].items():
        rate, queries = found["steps_per_second"], found["queries_per_step"]
        unlike = found["texts_that_differ"]
        print(f"  {name:<11} {rate:>9,.1f} steps/s {queries:>7.2f} queries a step   texts unlike memory's: {unlike}")
    print(f"  endpoint / one by one {figures['endpoint_over_one_by_one']:>6.1f}   aim: at least {AIM:g}")
    if args.out:
        write_json(args.out, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
