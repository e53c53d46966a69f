"""The in-memory store: adjacency arrays mapped from disk, shared by all processes that open the folder."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from operator import attrgetter
from pathlib import Path

import numpy as np

from graphwalker.errors import UserError
from graphwalker.files import parse_json
from graphwalker.kg.layout import KINDS, UNSEEN, check_lengths
from graphwalker.kg.mapped import CACHED, MappedTerms, place
from graphwalker.kg.meta import read_meta
from graphwalker.kg.numbering import crc, fold
from graphwalker.kg.relations import Relations
from graphwalker.kg.residency import Residency
from graphwalker.kg.schema import Schema
from graphwalker.kg.store import Expansion, Step
from graphwalker.kg.terms import literal_lang, literal_value
from graphwalker.types import Triple

_TERMS = ("blob", "offsets", "kind", "hash", "hash_term", "folded_hash", "folded_term")
_LISTS = ("out_ptr", "out_rel", "out_far", "in_ptr", "in_rel", "in_far")
_WALKED = 1 << 9  # entities whose ways are kept: an agent asks for triples where it asked for relations
_STEP_ORDER = attrgetter("relation", "inverse", "parts")


class MemoryStore:
    """A `KGStore` over a folder that `build` wrote. Opening maps the arrays; pages load as they are touched."""

    schema: Schema
    remote = False

    def __init__(self, folder: str | Path):
        """Open `folder`. Raises `UserError` when it is missing, half-built or damaged."""
        self.path = Path(folder)
        meta = read_meta(self.path, "memory")
        self.meta = meta
        self.schema = Schema.from_json(meta["profile"], str(self.path))
        try:
            self._array = {key: np.load(self.path / f"{key}.npy", mmap_mode="r") for key in _TERMS + _LISTS}
            check_lengths(self._array)
            kinds = parse_json((self.path / KINDS).read_bytes())
            self._first_mediator: int = kinds["first_mediator"]
            self._relations = Relations(kinds, self.schema)
        except (OSError, EOFError, ValueError, TypeError, LookupError) as error:
            raise UserError(f"{self.path} is damaged ({error}): build it again") from error
        # Scalars come out of a memoryview several times faster than out of an array.
        self._at = {key: memoryview(value) for key, value in self._array.items()}
        self.residency = Residency(self._array.values(), len(self))
        terms = MappedTerms(self._at, self.schema, self._first_mediator, self.residency.look)
        self._find, self._text, self._name = terms.find, terms.text, terms.name
        self._label = lru_cache(CACHED)(self._label_uncached)
        self._ways = lru_cache(_WALKED)(self._ways_uncached)

    @classmethod
    def open(cls, folder: str | Path) -> "MemoryStore":
        return cls(folder)

    def __reduce__(self):
        return type(self), (self.path,)

    def __len__(self) -> int:
        return self.meta["counts"]["triples"]

    def __iter__(self) -> Iterator[Triple]:
        return self.match()

    def __contains__(self, triple: object) -> bool:
        if isinstance(triple, Triple):
            triple = (triple.head, triple.relation, triple.tail)
        if not isinstance(triple, tuple) or len(triple) != 3 or not all(isinstance(x, str) for x in triple):
            return False
        s, p, o = self._find(triple[0]), self._relations.number.get(triple[1], -1), self._find(triple[2])
        if min(s, p, o) < 0:
            return False
        lo, hi = self._range("out", s, p)
        far = self._at["out_far"]
        return any((at := bisect_left(far, x, lo, hi)) < hi and far[at] == x for x in (o, o | UNSEEN))

    def match(self, head: str | None = None, relation: str | None = None, tail: str | None = None) -> Iterator[Triple]:
        """Raw triples, sorted by (head, relation, tail) where head or tail is given, else in stored order."""
        predicate = None if relation is None else self._relations.number.get(relation, -1)
        if predicate == -1:
            return iter(())
        if head is None and tail is None:
            return self._scan(predicate)
        side, near = ("in", tail) if head is None else ("out", head)
        i = self._find(near or "")
        if i < 0:
            return iter(())
        found = []
        for r, lo, hi in self._triples(side, i):
            if predicate is None or r == predicate:
                p = self._relations.predicates[r]
                for far in map(self._text, self._ends(side, lo, hi)):
                    found.append((head, p, far) if side == "out" else (far, p, tail))
        return iter([Triple(*t) for t in sorted(found) if tail is None or t[2] == tail])

    def has_node(self, node: str) -> bool:
        return self._find(node) >= 0

    def named(self, name: str, *, ignore_case: bool = False) -> list[str]:
        key = fold(name)
        wanted, hashes, found = crc(key), self._at["folded_hash"], []
        at = place(hashes, wanted)
        while at < len(hashes) and hashes[at] == wanted:
            entity = self._at["folded_term"][at]
            best = self._name(entity)
            own = (best, *self._names_of(entity)) if best != name else (name,)
            if name in own or (ignore_case and any(fold(other) == key for other in own if other)):
                found.append(self._text(entity))
            at += 1
        return sorted(found, key=lambda node: (-len(self.types(node)), node)) if len(found) > 1 else found

    def names(self, nodes: Sequence[str]) -> list[str | None]:
        return list(map(self._label, nodes))

    def aliases(self, node: str) -> list[str]:
        i = self._find(node)
        if i < 0 or node[:1] == '"':
            return []
        own = self._name(i)
        return sorted(
            {text for text in (*self._names_of(i), *self._literals(i, self.schema.alias_predicates)) if text != own}
        )

    def types(self, node: str) -> list[str]:
        i = self._find(node)
        number = self._relations.number
        ranges = [self._range("out", i, number.get(p, -1)) for p in self.schema.type_predicates if i >= 0]
        return sorted({self._text(t) for lo, hi in ranges for t in self._ends("out", lo, hi)})

    def is_mediator(self, node: str) -> bool:
        return self._find(node) >= self._first_mediator

    def vocabulary(self) -> Sequence[str]:
        return self._relations.vocabulary

    def steps(self, node: str) -> list[Step]:
        i, table = self._walker(node), self._relations
        out = {code: table.steps[code][0] for code in self._ways("out", i)}
        back = self._ways("in", i)
        found = [table.steps[code][1] for code in back if out.keys().isdisjoint(table.stated_by[code])]
        return sorted((*out.values(), *found), key=_STEP_ORDER)

    def expand(self, node: str, relations: Sequence[str], limit: int) -> list[Expansion]:
        i = self._walker(node)
        return [self._expand_one(i, node, relation, max(0, limit)) for relation in relations]

    def close(self) -> None:
        self._at, self._array = {}, {}

    # From here on terms are numbers.

    def _walker(self, node: str) -> int:
        """The number of an entity that can have steps, else -1."""
        i = -1 if node[:1] == '"' else self._find(node)
        return i if i < self._first_mediator else -1

    def _label_uncached(self, node: str) -> str | None:
        return literal_value(node) if node[:1] == '"' else self._name(self._find(node))

    def _names_of(self, i: int) -> list[str]:
        names = [text for text in self._literals(i, self.schema.name_predicates) if self.schema.is_name(text)]
        return names or [own for own in [self._name(i)] if own]

    def _literals(self, i: int, predicates: Sequence[str]) -> list[str]:
        """Literals in the schema's languages that an entity has under some predicates."""
        found = []
        for predicate in predicates:
            lo, hi = self._range("out", i, self._relations.number.get(predicate, -1))
            for text in map(self._text, self._ends("out", lo, hi)):
                if text[0] == '"' and literal_lang(text) in self.schema.languages:
                    found.append(literal_value(text))
        return found

    def _range(self, side: str, i: int, relation: int) -> tuple[int, int]:
        """Where a term's neighbours under one relation stand in `{side}_far`."""
        ptr, rel = self._at[side + "_ptr"], self._at[side + "_rel"]
        end = ptr[i + 1]
        lo = bisect_left(rel, relation, ptr[i], end)
        return (lo, bisect_right(rel, relation, lo, end)) if lo < end and rel[lo] == relation else (0, 0)

    def _ranges(self, side: str, i: int) -> list[tuple[int, int, int]]:
        """(relation, from, to) for each relation of a term, in order."""
        found: list[tuple[int, int, int]] = []
        if i < 0:
            return found
        ptr, rel = self._at[side + "_ptr"], self._at[side + "_rel"]
        at, end = ptr[i], ptr[i + 1]
        while at < end:
            relation, after = rel[at], at + 1
            if after < end and rel[after] == relation:
                after = bisect_right(rel, relation, after, end)
            found.append((relation, at, after))
            at = after
        return found

    def _ways_uncached(self, side: str, i: int) -> dict[int, tuple[int, int]]:
        """The relations that an agent can follow, in order, and where what it sees of each stands."""
        hidden, far = self._relations.hidden, self._at[side + "_far"]
        found = {}
        for relation, lo, hi in self._ranges(side, i):
            stop = hi if far[hi - 1] < UNSEEN else bisect_left(far, UNSEEN, lo, hi)
            if stop > lo and relation not in hidden:
                found[relation] = lo, stop
        return found

    def _triples(self, side: str, i: int) -> Iterator[tuple[int, int, int]]:
        """The relations that are predicates."""
        return takewhile(lambda found: found[0] < len(self._relations.predicates), self._ranges(side, i))

    def _ends(self, side: str, lo: int, hi: int) -> list[int]:
        return [far & ~UNSEEN for far in self._at[side + "_far"][lo:hi].tolist()]

    def _scan(self, predicate: int | None) -> Iterator[Triple]:
        for i in range(len(self._at["out_ptr"]) - 1):
            for r, lo, hi in self._triples("out", i):
                if predicate is None or r == predicate:
                    head, p = self._text(i), self._relations.predicates[r]
                    for far in self._ends("out", lo, hi):
                        yield Triple(head, p, self._text(far))

    def _expand_one(self, i: int, node: str, relation: str, limit: int) -> Expansion:
        """The triples of one relation, out then in, each sorted by the other end's name and id, names once."""
        out = self._followed("out", i, relation)
        back = self._followed("in", i, relation, bool(out))
        text, total = self._text, 0
        triples: list[Triple] = []
        for name, far, count in self._merged("out", out, limit):
            total += count
            triples += [Triple(node, name, text(j)) for j in far]
        for name, far, count in self._merged("in", back, limit - len(triples)):
            total += count
            triples += [Triple(text(j), name, node) for j in far]
        return Expansion(relation, tuple(triples), total)

    def _merged(self, side: str, ways: list[tuple[str, int, int]], limit: int) -> Iterable[tuple[str, list[int], int]]:
        """(printed name, at most `limit` other ends in order, how many there are) for ways of one direction."""
        fars = self._at[side + "_far"]
        if len(ways) < 2:
            return [(name, fars[lo : min(hi, lo + limit)].tolist(), hi - lo) for name, lo, hi in ways]
        rows = sorted((j, name) for name, lo, hi in ways for j in fars[lo : min(hi, lo + limit)].tolist())
        total = sum(hi - lo for _, lo, hi in ways)
        return [("", [], total), *((name, [j], 0) for j, name in rows[:limit])]

    def _followed(self, side: str, i: int, relation: str, is_out: bool = False) -> list[tuple[str, int, int]]:
        """The (printed name, range) that a relation stands for, out of a term or into it.

        A way in that `steps` leaves out as a declared reverse is followed only where there is no way out (`is_out`).
        """
        table = self._relations
        predicate = table.number.get(relation, -1)
        ways = self._ways(side, i)
        codes = [predicate, *table.printed.get(relation, ())]
        if side == "out" and predicate >= 0 and (halves := table.halves(predicate)):
            codes += [code for code in ways if code in halves]
        found = []
        for code in codes:
            if code in ways and not (is_out and not self._ways("out", i).keys().isdisjoint(table.stated_by[code])):
                found.append((table.steps[code][0].relation, *ways[code]))
        return found
