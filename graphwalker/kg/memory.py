"""The in-memory store: adjacency arrays mapped from disk, shared by all processes that open the folder."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from graphwalker.errors import UserError
from graphwalker.files import parse_json
from graphwalker.kg.layout import NAME_FROM_ID, crc, fold
from graphwalker.kg.meta import read_meta
from graphwalker.kg.schema import Schema
from graphwalker.kg.store import Expansion, Step
from graphwalker.kg.terms import literal_lang, literal_value
from graphwalker.types import Triple

_ARRAYS = (
    ("blob", "offsets", "hash", "hash_term", "name", "mediator")
    + ("out_ptr", "out_rel", "out_beg", "out_term", "in_ptr", "in_rel", "in_beg", "in_term")
    + ("step_ptr", "step", "step_shown", "step_beg", "fact")
    + ("named_hash", "named_term", "folded_hash", "folded_term")
)
_CACHED = 1 << 14  # entries of each small cache: some MB in all


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
            self._array = {key: np.load(self.path / f"{key}.npy", mmap_mode="r") for key in _ARRAYS}
            kinds = parse_json((self.path / "kinds.json").read_bytes())
        except (OSError, ValueError) as error:
            raise UserError(f"{self.path} is damaged ({error}): build it again") from error
        # Scalars come out of a memoryview several times faster than out of an array.
        self._at = {key: memoryview(value) for key, value in self._array.items()}
        self._step_ptr, self._step, self._step_shown = (self._at[key] for key in ("step_ptr", "step", "step_shown"))
        self._step_beg, self._fact = self._at["step_beg"], self._at["fact"]
        self._predicates: list[str] = kinds["predicates"]
        self._predicate = {text: i for i, text in enumerate(self._predicates)}
        self._steps = [Step(".".join(parts), inverse, tuple(parts)) for parts, inverse in kinds["steps"]]
        self._forward: dict[str, list[int]] = defaultdict(list)  # also by the first half of a flattened relation
        self._backward: dict[str, list[int]] = defaultdict(list)
        for code, step in enumerate(self._steps):
            if step.inverse:
                self._backward[step.relation].append(code)
                continue
            for key in {step.relation, step.parts[0]}:
                self._forward[key].append(code)
        self._vocabulary = tuple(sorted({step.relation for step in self._steps}))
        self._find = lru_cache(_CACHED)(self._find_uncached)
        self._text = lru_cache(_CACHED)(self._text_uncached)
        self._label = lru_cache(_CACHED)(self._label_uncached)

    @classmethod
    def open(cls, folder: str | Path) -> "MemoryStore":
        return cls(folder)

    def __reduce__(self):
        return type(self), (self.path,)

    def __len__(self) -> int:
        return len(self._at["out_term"])

    def __iter__(self) -> Iterator[Triple]:
        return self.match()

    def __contains__(self, triple: object) -> bool:
        if isinstance(triple, Triple):
            triple = (triple.head, triple.relation, triple.tail)
        if not isinstance(triple, tuple) or len(triple) != 3 or not all(isinstance(x, str) for x in triple):
            return False
        s, p, o = self._find(triple[0]), self._predicate.get(triple[1], -1), self._find(triple[2])
        if min(s, p, o) < 0:
            return False
        lo, hi = self._range("out", s, p)
        at = bisect_left(self._at["out_term"], o, lo, hi)
        return at < hi and self._at["out_term"][at] == o

    def match(self, head: str | None = None, relation: str | None = None, tail: str | None = None) -> Iterator[Triple]:
        """Raw triples, sorted by (head, relation, tail) where head or tail is given, else in stored order."""
        if relation is not None and relation not in self._predicate:
            return iter(())
        if head is None and tail is None:
            return self._scan(None if relation is None else self._predicate[relation])
        side, near = ("in", tail) if head is None else ("out", head)
        i = self._find(near)
        if i < 0:
            return iter(())
        found = []
        for r, lo, hi in self._segments(side, i):
            p = self._predicates[r]
            if relation is None or p == relation:
                for far in map(self._text, self._at[f"{side}_term"][lo:hi].tolist()):
                    found.append((head, p, far) if side == "out" else (far, p, tail))
        return iter([Triple(*t) for t in sorted(found) if tail is None or t[2] == tail])

    def has_node(self, node: str) -> bool:
        return self._find(node) >= 0

    def named(self, name: str, *, ignore_case: bool = False) -> list[str]:
        index, key = ("folded", fold(name)) if ignore_case else ("named", name)
        wanted, hashes, found = crc(key), self._at[f"{index}_hash"], []
        at = bisect_left(hashes, wanted)
        while at < len(hashes) and hashes[at] == wanted:
            entity = self._at[f"{index}_term"][at]
            best = self._name_of(entity)
            if best == name or any((fold(own) if ignore_case else own) == key for own in self._names_of(entity)):
                found.append(self._text(entity))
            at += 1
        return sorted(found, key=lambda node: (-len(self.types(node)), node)) if len(found) > 1 else found

    def names(self, nodes: Sequence[str]) -> list[str | None]:
        return list(map(self._label, nodes))

    def aliases(self, node: str) -> list[str]:
        i = self._find(node)
        if i < 0 or node[:1] == '"':
            return []
        own = self._name_of(i)
        return sorted(
            {text for text in (*self._names_of(i), *self._literals(i, self.schema.alias_predicates)) if text != own}
        )

    def types(self, node: str) -> list[str]:
        i = self._find(node)
        ranges = [self._range("out", i, self._predicate.get(p, -1)) for p in self.schema.type_predicates if i >= 0]
        return sorted({self._text(t) for lo, hi in ranges for t in self._at["out_term"][lo:hi]})

    def is_mediator(self, node: str) -> bool:
        i = self._find(node)
        return i >= 0 and bool(self._at["mediator"][i])

    def vocabulary(self) -> Sequence[str]:
        return self._vocabulary

    def steps(self, node: str) -> list[Step]:
        i = self._find(node)
        if i < 0:
            return []
        lo, hi = self._step_ptr[i], self._step_ptr[i + 1]
        steps = self._steps
        return [steps[code] for code, shown in zip(self._step[lo:hi], self._step_shown[lo:hi], strict=True) if shown]

    def expand(self, node: str, relations: Sequence[str], limit: int) -> list[Expansion]:
        i = self._find(node)
        return [self._expand_one(i, node, relation, max(0, limit)) for relation in relations]

    def close(self) -> None:
        self._at, self._array = {}, {}

    # From here on terms are numbers.

    def _find_uncached(self, text: str) -> int:
        """A term's number, -1 for an unknown one."""
        hashes, wanted = self._at["hash"], crc(text)
        at = bisect_left(hashes, wanted)
        while at < len(hashes) and hashes[at] == wanted:
            i = self._at["hash_term"][at]
            if self._text(i) == text:
                return i
            at += 1
        return -1

    def _text_uncached(self, i: int) -> str:
        offsets = self._at["offsets"]
        return str(self._at["blob"][offsets[i] : offsets[i + 1]], "utf-8")

    def _label_uncached(self, node: str) -> str | None:
        return literal_value(node) if node[:1] == '"' else self._name_of(self._find(node))

    def _name_of(self, i: int) -> str | None:
        literal = self._at["name"][i] if i >= 0 else -1
        if literal >= 0:
            return literal_value(self._text(literal))
        return self.schema.id_name(self._text(i)) if literal == NAME_FROM_ID else None

    def _names_of(self, i: int) -> list[str]:
        names = [text for text in self._literals(i, self.schema.name_predicates) if self.schema.is_name(text)]
        return names or [own for own in [self._name_of(i)] if own]

    def _literals(self, i: int, predicates: Sequence[str]) -> list[str]:
        """Literals in the schema's languages that an entity has under some predicates."""
        found = []
        for predicate in predicates:
            lo, hi = self._range("out", i, self._predicate.get(predicate, -1))
            for text in map(self._text, self._at["out_term"][lo:hi]):
                if text[0] == '"' and literal_lang(text) in self.schema.languages:
                    found.append(literal_value(text))
        return found

    def _range(self, side: str, i: int, predicate: int) -> tuple[int, int]:
        """Where a term's neighbours under one predicate stand in `{side}_term`."""
        at = self._at
        ptr, rel = at[side + "_ptr"], at[side + "_rel"]
        end = ptr[i + 1]
        k = bisect_left(rel, predicate, ptr[i], end)
        if k == end or rel[k] != predicate:
            return 0, 0
        beg = at[side + "_beg"]
        return beg[k], beg[k + 1]

    def _segments(self, side: str, i: int) -> Iterator[tuple[int, int, int]]:
        ptr, rel, beg = self._at[side + "_ptr"], self._at[side + "_rel"], self._at[side + "_beg"]
        for k in range(ptr[i], ptr[i + 1]):
            yield rel[k], beg[k], beg[k + 1]

    def _scan(self, predicate: int | None) -> Iterator[Triple]:
        for i in range(len(self._at["out_ptr"]) - 1):
            for r, lo, hi in self._segments("out", i):
                if predicate is None or r == predicate:
                    head, p = self._text(i), self._predicates[r]
                    for far in self._at["out_term"][lo:hi]:
                        yield Triple(head, p, self._text(far))

    def _expand_one(self, i: int, node: str, relation: str, limit: int) -> Expansion:
        """The triples of one relation, out then in, each sorted by the other end's name and id, names once."""
        out, back = self._ways(i, relation)
        text, total = self._text, 0
        triples: list[Triple] = []
        for name, far, count in self._merged(out, limit):
            total += count
            triples += [Triple(node, name, text(j)) for j in far]
        for name, far, count in self._merged(back, limit - len(triples)):
            total += count
            triples += [Triple(text(j), name, node) for j in far]
        return Expansion(relation, tuple(triples), total)

    def _merged(self, ways: list[tuple[str, int, int]], limit: int) -> Iterable[tuple[str, list[int], int]]:
        """(printed name, at most `limit` other ends in order, how many there are) for ways of one direction."""
        if len(ways) < 2:
            return [(name, self._fact[lo : min(hi, lo + limit)].tolist(), hi - lo) for name, lo, hi in ways]
        rows = sorted((j, name) for name, lo, hi in ways for j in self._fact[lo : min(hi, lo + limit)].tolist())
        total = sum(hi - lo for _, lo, hi in ways)
        return [("", [], total), *((name, [j], 0) for j, name in rows[:limit])]

    def _ways(self, i: int, relation: str) -> tuple[list[tuple[str, int, int]], list[tuple[str, int, int]]]:
        """The (printed name, range of facts) that a relation stands for, out of a term and into it.

        A way in that `steps` leaves out as a declared reverse is followed only where there is no way out.
        """
        out: list[tuple[str, int, int]] = []
        back: list[tuple[str, int, int]] = []
        if i < 0:
            return out, back
        step, beg = self._step, self._step_beg
        lo, hi = self._step_ptr[i], self._step_ptr[i + 1]
        for code in self._forward.get(relation, ()):
            k = bisect_left(step, code, lo, hi)
            if k < hi and step[k] == code:
                out.append((self._steps[code].relation, beg[k], beg[k + 1]))
        for code in self._backward.get(relation, ()):
            k = bisect_left(step, code, lo, hi)
            if k < hi and step[k] == code and (self._step_shown[k] or not out):
                back.append((relation, beg[k], beg[k + 1]))
        return out, back
