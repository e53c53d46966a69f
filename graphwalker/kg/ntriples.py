"""Reading N-Triples many lines at once: plain lines by numpy and Arrow, all others by pyoxigraph.

A plain line is one that needs no thought: two or three `http` IRIs of letters, digits and common signs, or a literal
without escapes, parted by one blank or tab each. That is all but a few lines in a hundred of Freebase.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyoxigraph as ox

from graphwalker.errors import FileFormatError
from graphwalker.kg.rdf import BlankNodes, open_rdf, parse, to_text

Columns = tuple[pa.Array, pa.Array, pa.Array]
_SAFE = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=/?>"  # in any order
_UNSAFE_IN_IRI = np.ones(256, bool)
_UNSAFE_IN_IRI[list(_SAFE)] = False
_LETTER = np.array([chr(i).isalnum() and i < 128 for i in range(256)])
_UNSAFE_IN_LITERAL = np.zeros(256, bool)
_UNSAFE_IN_LITERAL[:32] = _UNSAFE_IN_LITERAL[[ord("\\"), 127]] = True
_LANG_STRINGS = "^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#"


def read_ntriples(
    file: Path, chunk: int, blanks: BlankNodes, on_bytes: Callable[[int], object] | None = None
) -> Iterator[Columns]:
    """Yield subjects, predicates and objects as `read_rdf` spells them, from about `chunk` bytes at a time.

    The order within a piece is not the file's. Raises as `read_rdf` does.
    """
    first = 1
    with open_rdf(file, on_bytes) as handle:
        rest = b""
        while data := handle.read(chunk):
            cut = data.rfind(b"\n") + 1
            if cut:
                yield _columns(file, rest + data[:cut], first, blanks)
                first += rest.count(b"\n") + data.count(b"\n", 0, cut)
                rest = data[cut:]
            else:
                rest += data
        if rest.strip():
            yield _columns(file, rest + b"\n", first, blanks)


def _columns(file: Path, data: bytes, first: int, blanks: BlankNodes) -> Columns:
    lines = _split(data)
    columns = _tokens(data, lines.tokens)
    if not len(lines.others):
        return columns
    others = [data[start : stop + 1] for start, stop in lines.others.tolist()]
    triples = []
    try:
        for quad in ox.parse(b"".join(others), format=ox.RdfFormat.N_TRIPLES):
            triples.append(
                (to_text(quad.subject, file, blanks), str(quad.predicate), to_text(quad.object, file, blanks))
            )
    except SyntaxError as error:
        for _ in parse(file):  # says it in the file's own lines
            pass
        line = first + data.count(b"\n", 0, int(lines.others[min(error.lineno or 1, len(others)) - 1, 0]))
        raise FileFormatError(file, line, "a triple over several lines") from error
    more = zip(*triples, strict=True) if triples else ((), (), ())
    s, p, o = (pa.concat_arrays([c, pa.array(m, pa.string())]) for c, m in zip(columns, more, strict=True))
    return s, p, o


class _Lines(NamedTuple):
    tokens: np.ndarray  # (plain lines, 6) from and to of subject, predicate, object
    others: np.ndarray  # (other lines, 2) from and to, without the newline


def _split(data: bytes) -> _Lines:
    """The lines of a text that ends with a newline."""
    text = np.frombuffer(data, np.uint8)
    stop = np.flatnonzero(text == ord("\n"))
    start = np.concatenate([[0], stop[:-1] + 1])
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return _Lines(np.empty((0, 6), np.int64), np.column_stack([start, stop]))
    at = _Reader(text)
    closed = at.places(text == ord(">"))
    which = np.searchsorted(closed, start)
    s, p, o = (closed[np.minimum(which + i, len(closed) - 1)] for i in range(3))
    end = stop - 2  # where the object ends: a blank and a full stop follow
    plain = (p + 4 < stop) & at.blank(end) & at.equals(stop - 1, ".")
    plain &= at.equals(start, "<") & at.blank(s + 1) & at.equals(s + 2, "<") & at.blank(p + 1)
    plain &= at.safe_iri(start, s) & at.safe_iri(s + 2, p)
    is_iri = at.equals(p + 2, "<") & (o + 1 == end) & at.safe_iri(p + 2, o)
    plain &= is_iri | at.safe_literal(p + 2, end, stop)
    tokens = np.column_stack([start, s + 1, s + 2, p + 1, p + 2, end])[plain]
    return _Lines(tokens, np.column_stack([start, stop])[~plain])


class _Reader:
    """Looks at many places of a text at once; a place behind its end counts as its end."""

    def __init__(self, text: np.ndarray):
        self.text, self.size = text, len(text)
        self._unsafe = self.places(_UNSAFE_IN_IRI[text])
        self._hashes = self.places(text == ord("#"))
        self._odd = self.places(_UNSAFE_IN_LITERAL[text] & (text != ord("\n")))
        self._quotes = self.places(text == ord('"'))

    def places(self, which: np.ndarray) -> np.ndarray:
        """Where it is so, and the text's end three times, so that there is always a next one."""
        return np.concatenate([np.flatnonzero(which), [self.size] * 3])

    def at(self, place: np.ndarray) -> np.ndarray:
        return self.text[np.clip(place, 0, self.size - 1)]

    def equals(self, place: np.ndarray, letters: str) -> np.ndarray:
        found = self.at(place) == ord(letters[0])
        for i, letter in enumerate(letters[1:], 1):
            found &= self.at(place + i) == ord(letter)
        return found

    def blank(self, place: np.ndarray) -> np.ndarray:
        letter = self.at(place)
        return (letter == ord(" ")) | (letter == ord("\t"))

    def safe_iri(self, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """Whether from `<` to before `>` stands an IRI that no rule can refuse: no colon but one, at most one `#`."""
        secure = self.equals(start, "<https://")
        hashes = _between(self._hashes, start, stop)
        good = (secure | self.equals(start, "<http://")) & _LETTER[self.at(start + 8 + secure)]
        return good & (hashes < 2) & (_between(self._unsafe, start, stop) == 2 + hashes)

    def safe_literal(self, start: np.ndarray, stop: np.ndarray, line: np.ndarray) -> np.ndarray:
        """Whether a literal without escapes stands there, plain or with a language or datatype that is known good."""
        which = np.minimum(np.searchsorted(self._quotes, start), len(self._quotes) - 3)
        closing = self._quotes[which + 1]
        safe = (self._quotes[which] == start) & (closing < stop) & (self._quotes[which + 2] > line)
        safe &= _between(self._odd, start, stop) == 0
        suffixed = np.flatnonzero(safe & (closing + 1 < stop))
        if len(suffixed):
            bounds = np.column_stack([closing[suffixed] + 1, stop[suffixed]])
            suffixes = _slices(self.text, bounds.ravel(), 0, 2).dictionary_encode()
            good = np.array([_good_suffix(suffix) for suffix in suffixes.dictionary.to_pylist()], bool)
            safe[suffixed] = good[suffixes.indices.to_numpy()]
        return safe


def _between(places: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """How many of some places stand in each range."""
    return np.searchsorted(places, stop) - np.searchsorted(places, start)


def _good_suffix(suffix: str) -> bool:
    """Whether pyoxigraph takes `@…` or `^^<…>` after a literal."""
    try:
        if suffix.startswith("@"):
            ox.Literal("", language=suffix[1:])
            return suffix[1:].isascii()
        if suffix.startswith("^^<") and suffix.endswith(">") and not suffix.startswith(_LANG_STRINGS):
            ox.NamedNode(suffix[3:-1])
            return True
    except ValueError:
        pass
    return False


def _tokens(data: bytes, bounds: np.ndarray) -> Columns:
    """The pieces of a text, from the (n, 6) bounds of subject, predicate and object."""
    text = np.frombuffer(data, np.uint8)
    flat = bounds.ravel()
    return _slices(text, flat, 0, 6), _slices(text, flat, 2, 6), _slices(text, flat, 4, 6)


def _slices(text: np.ndarray, bounds: np.ndarray, first: int, step: int) -> pa.Array:
    """Texts between every `step`-th of some ascending places, from the `first` on, and the place after each."""
    offsets = np.append(bounds, bounds[-1:] if len(bounds) else [0]).astype(np.int32)
    every = pa.Array.from_buffers(pa.string(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
    return every.take(pa.array(np.arange(first, len(bounds), step)))
