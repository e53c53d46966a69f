"""A made-up graph in the shape of Freebase, written as N-Triples as fast as it is made: 30 million triples need no RAM.

Topics with a name (one in seven shares it with others; some also in German), types, a key, aliases, descriptions and
dates; facts between topics, most of them with the declared reverse beside them; mediators (CVTs) that join two or three
topics and a date. Popularity has a heavy tail: of n topics the most popular one is the object of n ** (-1/3) of all
facts. A topic takes about 13 triples. The same size and seed always give the same bytes.

    python tests/benchmarks/freebase_shaped.py 1M graph.nt.gz --seed 0
"""

import argparse
import gzip
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
from tqdm import tqdm

NS = "http://rdf.freebase.com/ns/"
PER_TOPIC = 13.1  # triples
DOMAINS, TYPES, RELATIONS = 80, 5, 24  # RELATIONS and a quarter as many mediated ones per domain
BLOCK = 5_000  # topics made at once
_LETTERS = "0123456789bcdfghjklmnpqrstvwxyz_"
_SYLLABLES = [
    "ba",
    "ra",
    "no",
    "ti",
    "lo",
    "ken",
    "mar",
    "vel",
    "su",
    "da",
    "gri",
    "pon",
    "tha",
    "el",
    "is",
    "or",
    "wen",
    "ky",
    "fa",
]
_SYLLABLES += ["zu", "mi", "ste", "bro", "qua", "lin"]
_DATE = "^^<http://www.w3.org/2001/XMLSchema#date>"


@lru_cache(1 << 16)
def word(number: int, syllables: int = 2) -> str:
    """A word of its own for each number below 25 ** syllables."""
    parts = []
    for _ in range(syllables):
        number, part = divmod(number, len(_SYLLABLES))
        parts.append(_SYLLABLES[part])
    return "".join(parts)


def mid(number: int) -> str:
    """A Freebase id; those of neighbouring numbers are far apart."""
    mixed = number * 0x2545F491 % 2**30
    return "m.0" + "".join(_LETTERS[mixed >> shift & 31] for shift in range(25, -1, -5))


@cache
def relation(domain: int, number: int) -> str:
    return f"{word(domain)}.{word(domain * TYPES + number % TYPES, 3)}.{word(number)}_{word(domain + 7 * number)}"


class Graph:
    """`topics` topics; their mediators are numbered on from there."""

    def __init__(self, triples: int, seed: int):
        self.topics = max(10, round(triples / PER_TOPIC))
        self.seed = seed
        self.names = max(10, self.topics // 100)  # those that are shared

    def popular(self, draw: np.random.Generator, count: int) -> np.ndarray:
        """Topics by popularity: number 0 is the most popular."""
        return (self.topics * draw.random(count) ** 3).astype(np.int64)

    def name(self, topic: int) -> str:
        """A topic's English name."""
        draw = topic * 0x9E3779B1 % 2**32
        if draw % 7 == 0:
            number = int(self.names * (draw / 2**32) ** 2)
            return f"{word(number).capitalize()} {word(number // 625, 3).capitalize()}"
        middle = word(draw % 625).capitalize()
        return f"{word(topic % 15625, 3).capitalize()} {middle} {word(topic // 15625 + 3, 2).capitalize()}"

    def lines(self) -> Iterator[str]:
        """Blocks of lines."""
        yield "".join(
            _edge(relation(d, r), "type.property.reverse_property", relation(d, r) + "_of")
            for d in range(DOMAINS)
            for r in range(RELATIONS + RELATIONS // 4)
            if r % 4
        )
        mediators = self.topics
        for number, first in enumerate(range(0, self.topics, BLOCK)):
            draw = np.random.default_rng([self.seed, number])
            topics = range(first, min(first + BLOCK, self.topics))
            lines = [line for topic in topics for line in self._topic(topic)]
            lines += self._facts(topics, draw)
            mediated = self._mediated(topics, draw, mediators)
            mediators += sum(line.count("type.object.type") for line in mediated)
            yield "".join(lines + mediated)

    def _topic(self, topic: int) -> Iterator[str]:
        node, draw, domain = mid(topic), topic * 0x9E3779B1 % 2**32, topic % DOMAINS
        name = self.name(topic)
        yield _value(node, "type.object.name", f'"{name}"@en')
        if draw % 4 == 0:
            yield _value(node, "type.object.name", f'"{name} ({word(draw % 625)})"@de')
        yield _edge(node, "type.object.type", "common.topic")
        for k in range(1 + draw % 3):
            yield _edge(node, "type.object.type", f"{word(domain)}.{word(domain * TYPES + k, 3)}")
        yield _value(node, "type.object.key", f'"/wikipedia/en/{name.replace(" ", "_")}${topic:04X}"')
        if draw % 6 == 0:
            yield _value(node, "common.topic.alias", f'"{name.split()[-1]} {word(draw % 15625, 3)}"@en')
        if draw % 10 == 0:
            about = " ".join(word(draw * k % 15625, 3) for k in range(3, 40))
            yield _value(node, "common.topic.description", f'"{name} is \\"{about}\\".\\nMore."@en')
        if draw % 3:
            yield _value(
                node, relation(domain, 0), f'"{1500 + draw % 520}-{1 + draw % 12:02}-{1 + draw % 28:02}"{_DATE}'
            )

    def _facts(self, topics: range, draw: np.random.Generator) -> list[str]:
        """Facts between topics: a topic has 2.4 on average, a few have hundreds."""
        count = np.minimum(draw.pareto(1.3, len(topics)) * 0.8, 300).astype(np.int64) + 1
        heads = np.repeat(np.arange(topics.start, topics.stop), count)
        tails = self.popular(draw, len(heads))
        kinds = (RELATIONS * draw.random(len(heads)) ** 2).astype(np.int64)
        lines = []
        for head, tail, kind in zip(heads.tolist(), tails.tolist(), kinds.tolist(), strict=True):
            s, p, o = mid(head), relation(head % DOMAINS, kind), mid(tail)
            lines.append(_edge(s, p, o))
            if kind % 4:
                lines.append(_edge(o, p + "_of", s))
        return lines

    def _mediated(self, topics: range, draw: np.random.Generator, number: int) -> list[str]:
        """Facts across mediators: one for every third topic, a few have hundreds."""
        count = np.minimum(draw.pareto(1.2, len(topics)) * 0.12, 300).astype(np.int64)
        heads = np.repeat(np.arange(topics.start, topics.stop), count)
        tails = self.popular(draw, 2 * len(heads)).reshape(-1, 2)
        kinds = draw.integers(0, RELATIONS // 4, len(heads))
        dates = draw.integers(0, 2**16, len(heads))
        lines = []
        for head, ends, kind, date in zip(heads.tolist(), tails.tolist(), kinds.tolist(), dates.tolist(), strict=True):
            node, domain, p = mid(number), head % DOMAINS, relation(head % DOMAINS, RELATIONS + kind)
            number += 1
            lines.append(_edge(node, "type.object.type", f"{word(domain)}.{word(kind, 3)}_cvt"))
            lines += [_edge(mid(head), p, node), _edge(node, p + "_of", mid(head))]
            for place, tail in enumerate(ends[: 1 + date % 2]):
                q = f"{p}_{word(place)}"
                lines += [_edge(node, q, mid(tail)), _edge(mid(tail), q + "_of", node)]
            if date % 3:
                lines.append(_value(node, p + "_from", f'"{1500 + date % 520}-{1 + date % 12:02}"{_DATE}'))
        return lines


def _edge(s: str, p: str, o: str) -> str:
    return f"<{NS}{s}>\t<{NS}{p}>\t<{NS}{o}>\t.\n"


def _value(s: str, p: str, o: str) -> str:
    return f"<{NS}{s}>\t<{NS}{p}>\t{o}\t.\n"


def write_graph(path: Path, triples: int, seed: int = 0, progress: bool = True) -> int:
    """Write about `triples` triples; returns how many."""
    graph, count = Graph(triples, seed), 0
    with (
        _opened(path) as out,
        tqdm(total=triples, desc="making", unit=" triples", unit_scale=True, disable=not progress) as bar,
    ):
        for lines in graph.lines():
            out.write(lines.encode())
            new = lines.count("\n")
            count += new
            bar.update(new)
    return count


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """A file that takes its name when it is whole."""
    part = path.with_name(path.name + ".part")
    try:
        with open(part, "wb") as raw:
            if path.suffix == ".gz":
                with gzip.GzipFile("", "wb", 1, raw, mtime=0) as out:
                    yield out  # type: ignore[misc]
            else:
                yield raw
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read_size(text: str) -> int:
    """`300K`, `1M` or a plain number."""
    factor = {"K": 1_000, "M": 1_000_000}.get(text[-1:].upper(), 1)
    return round(float(text[:-1] if factor > 1 else text) * factor)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("triples", type=read_size, help="about how many, such as 300K or 30M")
    parser.add_argument("out", type=Path, help="an .nt or .nt.gz file")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(f"{write_graph(args.out, args.triples, args.seed):,} triples in {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
