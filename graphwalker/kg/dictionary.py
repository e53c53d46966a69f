"""Numbering the terms of more triples than fit in memory.

Triples are read in blocks, each with the terms it holds; then the terms of all blocks are sorted together, so that a
term's number is its place among all, and each block keeps the numbers of its own.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graphwalker.errors import UserError
from graphwalker.kg.schema import Schema
from graphwalker.kg.spill import RowFile, TextFile
from graphwalker.kg.terms import XSD, check_id, literal, parse_literal
from graphwalker.kg.workspace import Workspace

TEXT = pa.schema([("text", pa.large_string())])
_OF_BLOCK = pa.schema([("text", pa.large_string()), ("block", pa.uint32())])
_TERM_BYTES = (
    250  # what a new term takes beside its letters: a string, its entry in a dict, and copies while it is sorted
)
_STRING = f"^^<{XSD}string>"
MAX_TERMS = 2**31  # a number has a bit to spare, see `layout`


class Block(NamedTuple):
    """Places in the files of a `Dictionary`."""

    rows: slice
    numbers: slice


class Dictionary(NamedTuple):
    """Triples over two string tables, in files."""

    schema: Schema  # with the namespaces that the short ids stand for
    predicates: list[str]  # short, sorted
    terms: TextFile  # subjects and objects: short, distinct, sorted; a term's number is its place
    rows: RowFile  # (triples, 3): place in the block's terms, predicate, place in the block's terms
    numbers: RowFile  # (terms of all blocks,): ascending in each block
    blocks: list[Block]

    def read(self, block: Block) -> tuple[np.ndarray, np.ndarray]:
        """The rows of a block and the numbers of its terms."""
        return self.rows.read(block.rows.start, block.rows.stop), self.numbers.read(
            block.numbers.start, block.numbers.stop
        )

    def close(self) -> None:
        for file in (self.terms, self.rows, self.numbers):
            file.close()


class Reader:
    """Takes triples, block by block; `finish` numbers the terms."""

    def __init__(self, work: Workspace):
        self.count = 0  # triples
        self._work, self._room = work, max(16, work.memory // 3)  # bytes of a block
        self.chunk = min(max(256, self._room // 6), 1 << 30)  # bytes of N-Triples that make a block
        self._raw, self._rows = work.texts("raw", TEXT), work.rows("rows", 3)
        self._predicates: dict[str, int] = {}
        self._blocks: list[slice] = []

    def extend(self, triples: Iterable[tuple[str, str, str]]) -> None:
        """Take triples of strings. Raises `UserError` for a malformed term, naming its triple."""
        predicates = self._predicates
        nodes: dict[str, int] = {}
        flat = array("I")
        room = self._room
        for s, p, o in triples:
            self.count += 1
            if (i := nodes.get(s)) is None:
                i = nodes[s] = _checked(nodes, s, self.count)
                room -= _TERM_BYTES + len(s)
            if (k := predicates.get(p)) is None:
                k = predicates[p] = _checked(predicates, p, self.count)
            if (j := nodes.get(o)) is None:
                j = nodes[o] = _checked(nodes, o, self.count, literal_ok=True)
                room -= _TERM_BYTES + len(o)
            if s[0] == '"':  # an earlier object
                raise UserError(f"triple {self.count}: a literal cannot be a subject: {s!r}")
            flat.extend((i, k, j))
            if len(flat) * 4 >= room:
                self._add(pa.array(list(nodes), pa.large_string()), np.frombuffer(flat, np.uint32).reshape(-1, 3))
                nodes, flat, room = {}, array("I"), self._room
        if flat:
            self._add(pa.array(list(nodes), pa.large_string()), np.frombuffer(flat, np.uint32).reshape(-1, 3))

    def add_columns(self, subjects: pa.Array, predicates: pa.Array, objects: pa.Array) -> None:
        """Take one block of well-formed triples."""
        count = len(subjects)
        if not count:
            return
        self.count += count
        nodes = pa.concat_arrays([subjects, objects]).dictionary_encode()
        kinds, places = predicates.dictionary_encode(), nodes.indices.to_numpy()
        number = [self._predicates.setdefault(p, len(self._predicates)) for p in kinds.dictionary.to_pylist()]
        kind = np.array(number, np.uint32)[kinds.indices.to_numpy()]
        rows = np.column_stack([places[:count], kind, places[count:]]).astype(np.uint32)
        self._add(nodes.dictionary.cast(pa.large_string()), rows)

    def _add(self, terms: pa.Array, rows: np.ndarray) -> None:
        self._blocks.append(slice(len(self._rows), len(self._rows) + len(rows)))
        self._raw.append([terms])
        self._rows.append(rows)

    def finish(self, schema: Schema) -> Dictionary:
        """Shorten the terms of each block and number them all."""
        schema = schema.with_short_namespace(p[1:-1] for p in self._predicates if p[0] == "<")
        short = shortener(schema)
        shorts = [short(p) for p in self._predicates]
        predicates = sorted(set(shorts))
        place = {p: i for i, p in enumerate(predicates)}
        predicate_map = np.array([place[p] for p in shorts], np.uint32)
        sorter = self._work.text_sorter("texts", _OF_BLOCK, ["text", "block"])
        blocks, start = [], 0
        with self._work.bar("shortening ids", self._raw.length, "terms") as bar:
            for number, (where, batch) in enumerate(zip(self._blocks, self._raw, strict=True)):
                terms, places = _distinct([short(term) for term in batch.column(0).to_pylist()])
                rows = self._rows.read(where.start, where.stop)
                mapped = (places[rows[:, 0]], predicate_map[rows[:, 1]], places[rows[:, 2]])
                self._rows.write(where.start, np.column_stack(mapped))
                sorter.add_columns([terms, pa.array(np.full(len(terms), number, np.uint32))])
                blocks.append(Block(where, slice(start, start + len(terms))))
                start += len(terms)
                bar.update(batch.num_rows)
        self._raw.close()
        terms, numbers = self._number(sorter, blocks)
        return Dictionary(schema, predicates, terms, self._rows, numbers, blocks)

    def _number(self, sorter: Iterable[pa.RecordBatch], blocks: list[Block]) -> tuple[TextFile, RowFile]:
        """The distinct terms in order, and the numbers of each block's."""
        terms, numbers = self._work.texts("terms", TEXT), self._work.rows("numbers", 1)
        done, last = np.array([block.numbers.start for block in blocks], np.int64), ""
        with self._work.bar("sorting terms", sum(b.numbers.stop - b.numbers.start for b in blocks), "terms") as bar:
            for batch in sorter:
                text, block = batch.column("text"), batch.column("block").to_numpy()
                first = first_of_texts(text, last)
                last = text[-1].as_py()
                number = terms.length + np.cumsum(first) - 1
                terms.append([text.filter(pa.array(first))])
                order = np.argsort(block, kind="stable")
                for part in np.split(order, np.flatnonzero(np.diff(block[order])) + 1):
                    numbers.write(done[block[part[0]]], number[part])
                    done[block[part[0]]] += len(part)
                bar.update(len(text))
        if terms.length >= MAX_TERMS:
            raise UserError(f"{terms.length:,} different entities and literals: at most {MAX_TERMS:,} can be numbered")
        return terms, numbers


def windows(terms: TextFile, column: str = "text") -> Iterator[tuple[int, pa.Array]]:
    """The number of the first term of each batch, and the batch's texts."""
    start = 0
    for batch in terms:
        yield start, batch.column(column)
        start += batch.num_rows


def first_of_texts(texts: pa.Array, before: str = "") -> np.ndarray:
    """(n,) bool: True where a text differs from the one before it, which for the first is `before`."""
    first = np.ones(len(texts), bool)
    if len(texts):
        first[0] = texts[0].as_py() != before
        first[1:] = pc.not_equal(texts[1:], texts[:-1]).to_numpy(zero_copy_only=False)
    return first


def _distinct(texts: list[str]) -> tuple[pa.Array, np.ndarray]:
    """The distinct texts, sorted, and for each text the place of its own."""
    column = pa.array(texts, pa.large_string())
    order = pc.sort_indices(column)
    column = column.take(order)
    first = first_of_texts(column)
    places = np.empty(len(texts), np.uint32)
    places[order.to_numpy()] = np.cumsum(first) - 1
    return column.filter(pa.array(first)), places


def _checked(table: dict[str, int], term: str, number: int, literal_ok: bool = False) -> int:
    """The number for a new term, once it is known to be well-formed."""
    try:
        if term.startswith('"'):
            if not literal_ok:
                raise ValueError(f"a literal can only be an object: {term!r}")
            parse_literal(term)
        else:
            check_id(term[1:-1] if term.startswith("<") and term.endswith(">") else term)
        term.encode("utf-8")
    except (ValueError, AttributeError) as error:
        raise UserError(f"triple {number}: {error}") from error
    return len(table)


def shortener(schema: Schema) -> Callable[[str], str]:
    """A function that gives the one short spelling of a well-formed term."""
    base = schema.namespaces.get("", "")
    inside = any(other != base and other.startswith(base) for other in schema.namespaces.values())
    start = "<" + base if base and not inside else "<>"  # "<>" begins no term
    skip = len(start)

    def short(term: str) -> str:
        if term[0] == '"':
            if "\\" in term or "\n" in term or "\r" in term:
                return literal(*parse_literal(term))
            one_spelling = term.endswith(('"', '"@en')) or (term[-1] == ">" and not term.endswith(_STRING))
            return term if one_spelling else literal(*parse_literal(term))
        if term.startswith(start) and ":" not in (local := term[skip:-1]) and local:
            return local
        if term[0] == "<":
            return schema.compact(term[1:-1])
        return term if term.startswith("_:") or ":" not in term else schema.compact(schema.expand(term))

    return short
