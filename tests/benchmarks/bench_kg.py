"""Agent steps per second on the Freebase slice: the in-memory store, SPARQL on Oxigraph, and bare dicts.

An agent step is one tool call as the environment runs it, from the query's text to the observation's text. One list of
calls, recorded from walks over WebQSP's topic entities and questions (per question up to three entities, each asked for
its relations and then for the triples of up to two of them), is run on all three, and all three must give the same
texts. The dicts hold everything ready: names to ids, ids to relations, and per relation the names to print; they only
look up, rank with the same ranker, and format.

    GRAPHWALKER_DATA=FOLDER python tests/benchmarks/bench_kg.py --out kg.json
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from data_pipelines.importers import kgs
from data_pipelines.importers.counts import Counts
from data_pipelines.importers.importing import import_from
from graphwalker.errors import UserError
from graphwalker.files import write_json
from graphwalker.kg.memory import MemoryStore
from graphwalker.kg.open import open_kg
from graphwalker.kg.store import KGStore
from graphwalker.protocol.parse import GET_RELATIONS, GET_TRIPLES
from graphwalker.protocol.render import format_query, format_triple
from graphwalker.tools.toolbox import Toolbox
from graphwalker.types import Question

AIMS = {"over_oxigraph": 50.0, "of_dict": 0.2, "open_seconds": 1.0, "resident_mb": 200.0}
TOP_K, LIMIT = 20, 5

# Run in a fresh process: what opening costs beside the import, and how much stays resident after all the calls.
PROBE = """
import json, sys, time
from graphwalker.kg.memory import MemoryStore
from graphwalker.kg.open import open_kg
from graphwalker.tools.toolbox import Toolbox
def resident(): return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmRSS")) / 1024
before = resident()
start = time.perf_counter(); store = open_kg(sys.argv[1]); opened = time.perf_counter() - start
after_open = resident()
toolbox = Toolbox(store)
for question, queries in json.load(open(sys.argv[2])):
    session = toolbox.session(question)
    for query in queries: session.run(query)
print(json.dumps({"open_seconds": opened, "resident_mb": resident() - before, "opened_mb": after_open - before}))
"""


class Call(NamedTuple):
    """One step: the node and its name, and the relations asked for (none for get_relations)."""

    node: str
    name: str
    relations: tuple[str, ...]


class Episode(NamedTuple):
    question: Question
    calls: list[Call]

    def queries(self) -> list[str]:
        return [format_query(GET_TRIPLES if c.relations else GET_RELATIONS, c.name, c.relations) for c in self.calls]


def record(store: KGStore, questions: list[Question], seed: int) -> list[Episode]:
    """The calls of one walk per question, its choices drawn at random from what the tools show."""
    toolbox, episodes = Toolbox(store, top_k=TOP_K, triples_per_relation=LIMIT), []
    for question in questions:
        draw = random.Random(f"{seed} {question.id}")
        session, calls = toolbox.session(question), []
        node, name = question.topic_entities[0].id or "", question.topic_entities[0].name
        for _ in range(3):
            shown = session.run(format_query(GET_RELATIONS, name)).relations
            calls.append(Call(node, name, ()))
            if not shown:
                break
            chosen = tuple(draw.sample(shown, min(len(shown), draw.randint(1, 2))))
            session.run(format_query(GET_TRIPLES, name, chosen))
            calls.append(Call(node, name, chosen))
            ends = {t.tail if t.head == node else t.head for e in store.expand(node, chosen, LIMIT) for t in e.triples}
            names = {end: text for end, text in zip(sorted(ends), store.names(sorted(ends)), strict=True) if text}
            onward = [end for end, text in names.items() if end[0] != '"' and session.resolve(text) == end]
            if not onward:
                break
            node = draw.choice(onward)
            name = names[node]
        episodes.append(Episode(question, calls))
    return episodes


def by_store(store: KGStore, episodes: list[Episode]) -> Callable[[], Iterator[str]]:
    """The calls as the environment runs them; each run begins with the toolbox's caches empty."""
    queries = [(episode.question, episode.queries()) for episode in episodes]
    toolbox = Toolbox(store, top_k=TOP_K, triples_per_relation=LIMIT)

    def run() -> Iterator[str]:
        for cache in (
            toolbox.resolve,
            toolbox.relations_at,
            toolbox._incident,
            toolbox._triples,
            toolbox.ranker._scores,
        ):
            cache.cache_clear()
        if isinstance(store, MemoryStore):
            store._ways.cache_clear()
        for question, asked in queries:
            session = toolbox.session(question)
            for query in asked:
                yield session.run(query).text

    return run


def by_dict(store: KGStore, episodes: list[Episode]) -> Callable[[], Iterator[str]]:
    """The same texts from dicts that hold every entity's relations and rows."""
    names: dict[str, str] = {}
    relations: dict[str, list[str]] = {}
    rows: dict[tuple[str, str], tuple[list[tuple[str, str, str]], int]] = {}
    for node in {triple.head for triple in store}:
        name = store.names([node])[0]
        steps = list(dict.fromkeys(step.relation for step in store.steps(node)))
        if name is None or not steps:
            continue
        names[node] = name
        relations[node] = steps
        for found in store.expand(node, steps, LIMIT):
            heads = store.names([t.head for t in found.triples])
            tails = store.names([t.tail for t in found.triples])
            lines = [(str(h), t.relation, str(x)) for h, t, x in zip(heads, found.triples, tails, strict=True)]
            rows[node, found.relation] = lines, found.total
    ranker = Toolbox(store).ranker

    def run() -> Iterator[str]:
        ranker._scores.cache_clear()
        for episode in episodes:
            for node, _, asked in episode.calls:
                yield triples(node, asked) if asked else listing(node, episode.question.text)

    def listing(node: str, question: str) -> str:
        ranked = ranker.rank(question, relations[node])
        more = [f"... {len(ranked) - TOP_K} more relations"] if len(ranked) > TOP_K else []
        return "\n".join(ranked[:TOP_K] + more)

    def triples(node: str, asked: tuple[str, ...]) -> str:
        lines = []
        for relation in asked:
            shown, total = rows[node, relation]
            lines += [format_triple(*row) for row in shown]
            if total > len(shown):
                lines.append(f"... {total - len(shown)} more triples of {relation}")
        return "\n".join(lines)

    return run


class Timing(NamedTuple):
    """The best of the rounds: the others are slower by what else the machine did."""

    seconds: float  # of a whole run
    middle: float  # of a step, the median of a run's steps
    texts: list[str]


def timed(runs: dict[str, Callable[[], Iterator[str]]], rounds: int) -> dict[str, Timing]:
    """Time every step, in turns, so that what else the machine does falls on all runs alike."""
    taken: dict[str, list[Timing]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            taken[name].append(_one_round(run()))
    return {
        name: Timing(min(t.seconds for t in rounds), min(t.middle for t in rounds), rounds[0].texts)
        for name, rounds in taken.items()
    }


def _one_round(steps: Iterator[str]) -> Timing:
    seconds: list[float] = []
    texts: list[str] = []
    while True:
        start = time.perf_counter()
        text = next(steps, None)
        end = time.perf_counter()
        if text is None:
            return Timing(sum(seconds), statistics.median(seconds), texts)
        seconds.append(end - start)
        texts.append(text)


def probe(kg: Path, episodes: list[Episode], folder: Path) -> dict[str, float]:
    """Opening time and resident memory, the median of five fresh processes."""
    calls = folder / "calls.json"
    write_json(calls, [(episode.question.text, episode.queries()) for episode in episodes])
    command = [sys.executable, "-c", PROBE, str(kg), str(calls)]
    runs = [json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(5)]
    return {key: round(statistics.median(run[key] for run in runs), 4) for key in runs[0]}


def opened(data: Path, folder: Path, store: str) -> KGStore:
    """The slice in one store, built where it is not there or an older version's."""
    try:
        return open_kg(folder)
    except UserError:
        print(f"building {folder}", flush=True)
        kgs.build("freebase-slice", data / "fb15k237", folder, store=store)
        return open_kg(folder)


def measure(data: Path, work: Path, *, questions: int, rounds: int, seed: int) -> dict:
    memory, oxigraph = (opened(data, work / f"slice-{store}", store) for store in ("memory", "oxigraph"))
    imported = import_from("webqsp", data / "webqsp" / "WebQSP.train.json", Counts(), store=memory)
    asked = [question for question in imported if isinstance(question, Question)]
    episodes = record(memory, random.Random(seed).sample(asked, min(questions, len(asked))), seed)
    steps = sum(len(episode.calls) for episode in episodes)
    timings = timed({"memory": by_store(memory, episodes), "dict": by_dict(memory, episodes)}, rounds)
    timings |= timed({"oxigraph": by_store(oxigraph, episodes)}, 1)  # a round takes it a minute
    different = {
        name: sum(one != other for one, other in zip(timing.texts, timings["memory"].texts, strict=True))
        for name, timing in timings.items()
    }
    rate = {name: steps / timing.seconds for name, timing in timings.items()}
    return {
        "triples": len(memory),
        "episodes": len(episodes),
        "steps": steps,
        "steps_per_second": {name: round(value, 1) for name, value in rate.items()},
        "median_step_microseconds": {name: round(1e6 * timing.middle, 1) for name, timing in timings.items()},
        "texts_that_differ_from_memory": different,
        "over_oxigraph": round(rate["memory"] / rate["oxigraph"], 1),
        "over_oxigraph_by_median_step": round(timings["oxigraph"].middle / timings["memory"].middle, 1),
        "of_dict": round(rate["memory"] / rate["dict"], 3),
        **probe(work / "slice-memory", episodes, work),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    parser.add_argument(
        "--work", type=Path, default=Path("runs/bench/kg"), help="where the two stores are built and kept"
    )
    parser.add_argument("--questions", type=int, default=60, help="walks (SPARQL takes minutes for a few hundred)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    data = os.environ.get("GRAPHWALKER_DATA")
    if not data or not (Path(data) / "fb15k237").is_dir():
        print("skipped: set GRAPHWALKER_DATA to a folder with fb15k237 and webqsp")
        return 0
    args.work.mkdir(parents=True, exist_ok=True)
    figures = measure(Path(data), args.work, questions=args.questions, rounds=args.rounds, seed=args.seed)
    print(f"{figures['steps']:,} agent steps of {figures['episodes']} episodes, {figures['triples']:,} triples")
    for name, rate in figures["steps_per_second"].items():
        middle, unlike = figures["median_step_microseconds"][name], figures["texts_that_differ_from_memory"][name]
        print(f"  {name:<9} {rate:>12,.1f} steps/s   median step {middle:>10,.1f} us   texts unlike memory's: {unlike}")
    print(f"  memory / oxigraph  {figures['over_oxigraph']:>8.1f}   aim: at least {AIMS['over_oxigraph']:g}")
    print(f"    by median step   {figures['over_oxigraph_by_median_step']:>8.1f}")
    print(f"  memory / dict      {figures['of_dict']:>8.3f}   aim: at least {AIMS['of_dict']:g}")
    print(f"  open (s)           {figures['open_seconds']:>8.4f}   aim: under {AIMS['open_seconds']:g}")
    print(f"  resident (MB)      {figures['resident_mb']:>8.1f}   aim: under {AIMS['resident_mb']:g}")
    if args.out:
        write_json(args.out, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
