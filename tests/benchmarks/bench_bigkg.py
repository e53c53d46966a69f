"""Graphs larger than RAM: building and walking Freebase-shaped graphs of growing size.

For each size a graph is made (`freebase_shaped.py`, kept for the next run), built in a process of its own within a
budget of memory, and walked in another: from topics drawn by popularity and evenly, in turns, an agent asks for a
topic's relations and for the triples of up to two, then goes on to an end of one of them, all through the toolbox.
The latencies are those of the second half of the calls, by the wall clock and by the CPU (for a machine that does other
work); no question is asked twice.

    python tests/benchmarks/bench_bigkg.py --sizes 1M 3M 10M 30M --memory 2G --out bigkg.json
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from graphwalker.files import write_json
from graphwalker.kg.build import parse_memory
from graphwalker.kg.numbering import LITERAL

sys.path.insert(0, str(Path(__file__).parent))

import freebase_shaped  # noqa: E402 (a script beside this one)

AIMS = {"p50_growth": 1.5, "disk_bytes": 24.0, "warm_bytes": 8.0, "open_seconds": 2.0}
SIZES = ["1M"]  # what `make bench` runs
CALLS, WALK = 8_000, 3
MIB = 1 << 20


def resident(key: str = "VmRSS") -> float:
    """MiB of this process; VmHWM is the most it had."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(key + ":")) / 1024


def build(source: str, out: str, memory: str, progress: str) -> dict[str, Any]:
    """Build, in a fresh process."""
    import pyarrow.compute  # noqa: F401 (so that it counts as a library, not as the build's)

    from graphwalker.kg.build import build_kg
    from graphwalker.kg.meta import read_meta

    before, start, cpu = resident(), time.perf_counter(), time.process_time()
    with most_on_disk(Path(out)) as scratch:
        build_kg(source, out, "freebase", progress=bool(progress), memory=parse_memory(memory))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    triples = read_meta(out)["counts"]["triples"]
    return {
        "triples": triples,
        "terms": read_meta(out)["counts"]["entities"] + read_meta(out)["counts"]["literals"],
        "build_seconds": seconds,
        "build_cpu_seconds": cpu,
        "build_mib": resident("VmHWM") - before,
        "scratch_bytes": max(scratch) / triples,
        **{f"{key}_bytes": size / triples for key, size in on_disk(Path(out)).items()},
    }


@contextmanager
def most_on_disk(out: Path) -> Iterator[list[int]]:
    """Look twice a second at what a build has written so far."""
    sizes, done = [0], threading.Event()

    def look() -> None:
        while not done.wait(0.5):
            with suppress(FileNotFoundError):
                found = out.parent.glob(f".{out.name}.*/**/*")
                sizes.append(sum(file.stat().st_blocks * 512 for file in found if file.is_file()))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield sizes
    finally:
        done.set()
        thread.join()


def on_disk(folder: Path) -> dict[str, int]:
    """Bytes for adjacency and ids (an entity's text among them), and for names and other text."""
    sizes = {file.stem: file.stat().st_size for file in folder.iterdir()}
    offsets, kind = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("offsets", "kind"))
    ids = sum(
        int(np.diff(offsets[at : at + MIB + 1])[kind[at : at + MIB] & LITERAL == 0].sum())
        for at in range(0, len(kind), MIB)
    )
    text = sizes["blob"] - ids + sizes["folded_hash"] + sizes["folded_term"]
    return {"disk": sum(sizes.values()) - text, "text": text}


def walk(kg: str, seed: str, size: str, calls: str) -> dict[str, Any]:
    """Open and walk, in a fresh process."""
    from graphwalker.kg.open import open_kg
    from graphwalker.protocol.parse import GET_RELATIONS, GET_TRIPLES
    from graphwalker.protocol.render import format_query
    from graphwalker.tools.toolbox import Toolbox

    before, start = resident(), time.perf_counter()
    store = open_kg(kg)
    opened, opened_mib = time.perf_counter() - start, resident() - before
    graph, toolbox = freebase_shaped.Graph(int(size), int(seed)), Toolbox(store)
    toolbox_mib = resident() - before
    draw, seconds, cpu_seconds = random.Random(int(seed)), [], []

    def timed(session, query: str):
        start, cpu = time.perf_counter(), time.thread_time()
        observation = session.run(query)
        seconds.append(time.perf_counter() - start)
        cpu_seconds.append(time.thread_time() - cpu)
        assert observation.status in ("ok", "empty", "truncated"), observation
        return observation

    while len(seconds) < int(calls):
        even = len(seconds) % 2
        name = graph.name(int(graph.topics * (draw.random() if even else draw.random() ** 3)))
        session = toolbox.session(f"Which {name} is it, number {len(seconds)}?")
        for _ in range(WALK):
            shown = timed(session, format_query(GET_RELATIONS, name)).relations
            if not shown:
                break
            chosen = draw.sample(shown, min(2, len(shown)))
            lines = timed(session, format_query(GET_TRIPLES, name, chosen)).text.splitlines()
            ends = {end for line in lines if line[0] == "[" for end in line[1:-1].split(", ")[::2]} - {name}
            ends = {end for end in ends if end[0].isupper()}
            if not ends:
                break
            name = draw.choice(sorted(ends))
    late, late_cpu = (sorted(taken[len(taken) // 2 :]) for taken in (seconds, cpu_seconds))
    parts = {key: resident(key) for key in ("RssAnon", "RssFile")}
    return {
        "open_seconds": opened,
        "open_mib": opened_mib,
        "toolbox_mib": toolbox_mib,
        "warm_mib": resident() - before,
        "warm_anon_mib": parts["RssAnon"],
        "p50_us": 1e6 * statistics.median(late),
        "p99_us": 1e6 * late[int(0.99 * len(late))],
        "p50_cpu_us": 1e6 * statistics.median(late_cpu),
        "p99_cpu_us": 1e6 * late_cpu[int(0.99 * len(late_cpu))],
    }


def fresh(*args: str) -> dict[str, Any]:
    """Call a function of this file in a process of its own."""
    command = [sys.executable, __file__, "--call", *args]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(output.splitlines()[-1])


def measure(size: str, work: Path, memory: str, seed: int, calls: int, again: bool) -> dict[str, Any]:
    triples = freebase_shaped.read_size(size)
    source, kg, known = (work / f"{size}-{seed}{end}" for end in (".nt.gz", "", ".json"))
    if not source.is_file():
        freebase_shaped.write_graph(source, triples, seed)
    if again or not known.is_file() or not kg.is_dir():
        write_json(known, fresh("build", str(source), str(kg), memory, "yes" if sys.stderr.isatty() else ""))
    figures = json.loads(known.read_text("utf-8"))
    figures |= fresh("walk", str(kg), str(seed), str(triples), str(calls))
    return figures | {"size": size, "warm_bytes": figures["warm_mib"] * MIB / figures["triples"]}


COLUMNS = [  # title, figure, format
    ("triples", "triples", ",.0f"),
    ("build s", "build_seconds", ",.0f"),
    ("CPU s", "build_cpu_seconds", ",.0f"),
    ("triples/s", "rate", ",.0f"),
    ("build MiB", "build_mib", ",.0f"),
    ("B/triple scratch", "scratch_bytes", ".0f"),
    ("B/triple adj.+ids", "disk_bytes", ".1f"),
    ("B/triple text", "text_bytes", ".1f"),
    ("open s", "open_seconds", ".3f"),
    ("open MiB", "open_mib", ",.1f"),
    ("warm MiB", "warm_mib", ",.0f"),
    ("B/triple warm", "warm_bytes", ".1f"),
    ("p50 us", "p50_us", ",.0f"),
    ("p99 us", "p99_us", ",.0f"),
    ("p50 CPU us", "p50_cpu_us", ",.0f"),
    ("p99 CPU us", "p99_cpu_us", ",.0f"),
]


def table(rows: list[dict[str, Any]]) -> str:
    """The figures in Markdown."""
    lines = ["| " + " | ".join(title for title, _, _ in COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    for row in rows:
        values = row | {"rate": row["triples"] / row["build_seconds"]}
        lines.append("| " + " | ".join(format(values[key], form) for _, key, form in COLUMNS) + " |")
    return "\n".join(lines)


def main() -> int:
    if sys.argv[1:2] == ["--call"]:
        print(json.dumps({"build": build, "walk": walk}[sys.argv[2]](*sys.argv[3:])))
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    parser.add_argument("--work", type=Path, default=Path("runs/bench/bigkg"), help="where graphs are made and kept")
    parser.add_argument("--sizes", nargs="+", default=SIZES, help="triples, such as 300K 1M 3M 10M 30M")
    parser.add_argument("--memory", default="2G", help="for the build")
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", action="store_true", help="build again what is built already")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    rows = [measure(size, args.work, args.memory, args.seed, args.calls, args.again) for size in args.sizes]
    print(table(rows))
    print(f"aims: {AIMS}; p50 of the largest is {rows[-1]['p50_us'] / rows[0]['p50_us']:.2f} times that of the first")
    if args.out:
        write_json(args.out, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
