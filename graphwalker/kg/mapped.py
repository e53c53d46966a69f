"""The terms of an in-memory store: from text to number, from number to text and name (`numbering` says how they go)."""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import lru_cache

from graphwalker.kg.numbering import LITERAL, NAMED, NAMED_BY_ID, PRINTS_ALIKE, crc
from graphwalker.kg.schema import Schema
from graphwalker.kg.terms import literal_value

_NAMESAKE = bytes([NAMED | PRINTS_ALIKE])
CACHED = 1 << 14  # entries of each small cache: some MB in all


class MappedTerms:
    """The arrays of `layout` that are about terms."""

    def __init__(
        self, arrays: Mapping[str, memoryview], schema: Schema, first_mediator: int, on_look_up: Callable[[], None]
    ):
        self._at, self._schema, self.first_mediator = arrays, schema, first_mediator
        self._on_look_up = on_look_up
        self._printed: dict[str, int] = {}  # terms whose text was read last: who asks for their names need not search
        self.find = lru_cache(CACHED)(self._find_uncached)
        self.text = lru_cache(CACHED)(self._text_uncached)

    def _find_uncached(self, text: str) -> int:
        """A term's number, -1 for an unknown one."""
        self._on_look_up()
        if (known := self._printed.get(text)) is not None:
            return known
        if text[:1] == '"':
            return self._find_literal(text)
        hashes, wanted = self._at["hash"], crc(text)
        at = place(hashes, wanted)
        while at < len(hashes) and hashes[at] == wanted:
            i = self._at["hash_term"][at]
            if self.text(i) == text:
                return i
            at += 1
        return -1

    def _find_literal(self, text: str) -> int:
        try:
            wanted = literal_value(text) or text, text
            at = bisect_left(range(self.first_mediator), wanted, key=self._order)
        except ValueError:  # no literal
            return -1
        return at if at < self.first_mediator and self._text_uncached(at) == text else -1

    def _order(self, i: int) -> tuple[str, str]:
        """What terms are ordered by: the name they print with, and their text."""
        text = self._text_uncached(i)
        return self.name(i) or text, text

    def _text_uncached(self, i: int) -> str:
        offsets = self._at["offsets"]
        text = str(self._at["blob"][offsets[i] : offsets[i + 1]], "utf-8")
        if len(self._printed) >= CACHED:
            self._printed = {}  # another thread may still read the old one
        self._printed[text] = i
        return text

    def name(self, i: int) -> str | None:
        kind = self._at["kind"][i] if i >= 0 else 0
        if kind & (LITERAL | NAMED):
            return literal_value(self.text(i if kind & LITERAL else self._naming(i)))
        return self._schema.id_name(self.text(i)) if kind & NAMED_BY_ID else None

    def _naming(self, i: int) -> int:
        """A literal that prints like a named entity: one stands before it among those that print alike."""
        kind, size, at = self._at["kind"], 16, i
        while at >= 0:
            before = max(0, at + 1 - size)
            others = len(bytes(kind[before : at + 1]).rstrip(_NAMESAKE))
            if others and kind[before + others - 1] & LITERAL:
                return before + others - 1
            at, size = (before + others - 2, 16) if others else (before - 1, 16 * size)
            if others and not kind[at + 1] & PRINTS_ALIKE:
                break
        # An id that sorts before a quotation mark.
        return next(j for j in range(i + 1, len(kind)) if kind[j] & LITERAL)


def place(hashes: memoryview, wanted: int) -> int:
    """Where a number stands among sorted random ones: close to where it would if they were spaced evenly."""
    guess, near = wanted * len(hashes) >> 32, 32
    lo, hi = max(0, guess - near), min(len(hashes), guess + near)
    while lo > 0 and hashes[lo] >= wanted:
        near *= 4
        lo = max(0, guess - near)
    while hi < len(hashes) and hashes[hi - 1] < wanted:
        near *= 4
        hi = min(len(hashes), guess + near)
    return bisect_left(hashes, wanted, lo, hi)
