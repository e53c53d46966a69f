"""Facts across mediators, made of joins over integer arrays.

`KGStore.steps` and `KGStore.expand` say what is wanted.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from graphwalker.errors import UserError
from graphwalker.kg.dictionary import Dictionary
from graphwalker.kg.numbering import Numbering
from graphwalker.kg.sorting import Aligned, RowSorter, distinct_rows
from graphwalker.kg.store import Step
from graphwalker.kg.table import TripleTable, pairs
from graphwalker.kg.workspace import Workspace

MAX_PAIRS = 2**34  # edges into a mediator times edges out of it, over all mediators


class Fan(NamedTuple):
    """How many pairs of edges meet at mediators, and the mediator where the most do."""

    total: int
    most: int
    mediator: int
    into: int
    outof: int

    @classmethod
    def widest(cls, into: np.ndarray, outof: np.ndarray) -> "Fan":
        """`into` and `outof`, sorted, hold (mediator, predicate, term)."""
        if not len(into):
            return cls(0, 0, 0, 0, 0)
        mediators, ins = np.unique(into[:, 0], return_counts=True)
        outs = np.searchsorted(outof[:, 0], mediators, "right") - np.searchsorted(outof[:, 0], mediators, "left")
        at = int((ins * outs).argmax())
        return cls(int((ins * outs).sum()), int(ins[at] * outs[at]), int(mediators[at]), int(ins[at]), int(outs[at]))

    def plus(self, other: "Fan") -> "Fan":
        return max(self, other, key=lambda fan: fan.most)._replace(total=self.total + other.total)

    def error(self, mediator: str) -> UserError:
        return UserError(
            f"flattening across mediators gives more than {MAX_PAIRS:,} pairs; the worst is {mediator!r} with "
            f"{self.into:,} edges in and {self.outof:,} out: "
            "give such nodes names, or narrow the schema's rule for mediators"
        )


def flatten(
    into: RowSorter,
    outof: RowSorter,
    terms: Numbering,
    forward: RowSorter,
    inverse: RowSorter,
    table: Dictionary,
    work: Workspace,
) -> np.ndarray:
    """Add every fact across a mediator to `forward` (head, relation, tail) and, turned, to `inverse`.

    `into` and `outof` hold (mediator, predicate, term). Returns (n, 2), the pairs of predicates that occur, sorted:
    pair k is the relation `predicates + k`. Raises `UserError` when there are too many, naming the worst mediator.
    """
    found, fan = work.rows("flattened", 4), Fan(0, 0, 0, 0, 0)
    seen = np.empty((0, 2), np.uint32)
    with work.bar("flattening", into.added, "edges") as bar:
        for ins, outs in _by_mediator(into, outof):
            fan = fan.plus(Fan.widest(ins, outs))
            if fan.total > MAX_PAIRS:
                raise fan.error(terms.text(fan.mediator, table))
            for rows in across(ins, outs, work.memory // 256):
                found.append(rows)
                seen = distinct_rows(np.concatenate([seen, rows[:, 1:3]]))
            bar.update(len(ins))
    predicates = len(table.predicates)
    codes = seen[:, 0].astype(np.int64) * predicates + seen[:, 1]
    with work.bar("sorting the flattened", len(found), "facts") as bar:
        for rows in found.pieces(max(4, work.memory // 256)):
            code = predicates + np.searchsorted(codes, rows[:, 1].astype(np.int64) * predicates + rows[:, 2])
            rows = np.column_stack([rows[:, 0], code.astype(np.uint32), rows[:, 3]])
            forward.add(rows)
            inverse.add(rows[~terms.literals[rows[:, 2]]][:, ::-1])
            bar.update(len(rows))
    found.close()
    return seen


def _by_mediator(into: Iterable[np.ndarray], outof: Iterable[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The edges into and out of the same mediators, whole."""
    others: Aligned[np.ndarray] = Aligned(iter(outof))
    for ins in _whole_groups(into):
        outs = others.below(int(ins[-1, 0]) + 1)
        if outs:
            yield ins, np.concatenate(outs)


def _whole_groups(pieces: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Sorted rows in pieces that never part rows of one first number."""
    held: list[np.ndarray] = []
    for rows in pieces:
        cut = int(np.searchsorted(rows[:, 0], rows[-1, 0]))
        if cut or (held and held[0][0, 0] != rows[0, 0]):
            yield np.concatenate([*held, rows[:cut]])
            held = []
        held.append(rows[cut:])
    if held:
        yield np.concatenate(held)


def across(into: np.ndarray, outof: np.ndarray, most: int) -> Iterator[np.ndarray]:
    """Pieces of (m, 4) head, first predicate, second predicate, tail.

    The ways across each mediator, but not back to where they came from. `into` and `outof`, sorted, hold (mediator,
    predicate, term); a piece is made of `most` pairs, or of one edge and all that go on from it.
    """
    begin = np.searchsorted(outof[:, 0], into[:, 0], "left")
    count = np.searchsorted(outof[:, 0], into[:, 0], "right") - begin
    ends = np.cumsum(count)
    start = 0
    while start < len(into):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + most, "right")))
        some = count[start:stop]
        left = np.repeat(np.arange(start, stop), some)
        right = np.repeat(begin[start:stop] - (np.cumsum(some) - some), some) + np.arange(len(left))
        rows = np.column_stack([into[left, 2], into[left, 1], outof[right, 1], outof[right, 2]])
        rows = rows[rows[:, 0] != rows[:, 3]]
        if len(rows):
            yield rows
        start = stop


class Walks(NamedTuple):
    """What an agent can walk in a whole graph."""

    steps: list[Step]  # sorted; those that run out of an entity: the ways in state the same facts


def all_walks(table: TripleTable, mediators: np.ndarray, rank: np.ndarray) -> Walks:
    """Every visible step of a table in memory; `mediators` is (terms,) bool. Raises `UserError` as `flatten` does."""
    visible = np.array([table.schema.is_visible(p) for p in table.predicates], bool)
    rows = table.rows[visible[table.rows[:, 1]]]
    from_mediator, to_mediator = mediators[rows[:, 0]], mediators[rows[:, 2]]
    into = distinct_rows(rows[~from_mediator & to_mediator][:, ::-1])
    outof = distinct_rows(rows[from_mediator & ~to_mediator])
    fan = Fan.widest(into, outof)
    if fan.total > MAX_PAIRS:
        raise fan.error(table.terms[fan.mediator])
    found = {(p,) for p in np.unique(rows[~from_mediator & ~to_mediator, 1]).tolist()}
    for crossed in across(into, outof, 1 << 22):
        found |= set(map(tuple, distinct_rows(crossed[:, 1:3]).tolist()))
    every = (tuple(table.predicates[p] for p in key) for key in found)
    return Walks(sorted(Step(".".join(parts), False, parts) for parts in every))


def reverses(table: TripleTable) -> dict[str, set[str]]:
    """Relation -> its declared reverses, both ways."""
    reverses: dict[str, set[str]] = defaultdict(set)
    for predicate in table.schema.reverse_predicates:
        for s, o in pairs(table, predicate):
            reverses[table.terms[s]].add(table.terms[o])
            reverses[table.terms[o]].add(table.terms[s])
    return reverses


def reversed_parts(parts: tuple[str, ...], reverses: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """The relation paths that state the same facts from the other end."""
    if len(parts) == 1:
        return [(q,) for q in sorted(reverses.get(parts[0], ()))]
    return [(b, a) for a in sorted(reverses.get(parts[0], ())) for b in sorted(reverses.get(parts[1], ()))]
