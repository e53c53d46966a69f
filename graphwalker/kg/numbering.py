"""Numbering terms by the name they print with: who names whom, who mediates, and the order of all.

Terms that print come first, ordered by the name they print with, then by id: a neighbour list in the order of its
numbers is in the order `KGStore.expand` wants. Mediators, which never print, come last.
"""

import unicodedata
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graphwalker.kg.arrays import ArrayFile, Bits
from graphwalker.kg.dictionary import Dictionary, first_of_texts, windows
from graphwalker.kg.schema import Schema
from graphwalker.kg.sorting import Aligned, TextSorter
from graphwalker.kg.spill import RowFile, TextFile
from graphwalker.kg.terms import literal_lang, literal_value
from graphwalker.kg.workspace import Workspace

LITERAL, NAMED, NAMED_BY_ID, PRINTS_ALIKE = 1, 2, 4, 8  # bits of a term's kind; the last: like the term before it
_NAMES = pa.schema([("entity", pa.uint32()), ("priority", pa.uint32()), ("name", pa.large_string())])
_PRINTED = pa.schema(
    [("printed", pa.large_string()), ("text", pa.large_string()), ("number", pa.uint32()), ("kind", pa.uint8())]
)
_MEDIATORS = pa.schema([("text", pa.large_string()), ("number", pa.uint32())])


class Numbering(NamedTuple):
    """The final numbers of a `Dictionary`'s terms."""

    places: RowFile  # (terms,): old number -> final number
    bearers: RowFile  # (names, 2): hash of a folded name, and the old number of who bears it
    first_mediator: int  # this and all after it are mediators
    starts: Bits  # (terms,): a term that prints unlike the one before it
    literals: Bits  # (terms,)
    reverses: dict[str, list[str]]  # relation -> its declared reverses, both ways

    def text(self, number: int, table: Dictionary) -> str:
        """One term, the slow way."""
        old = 0
        for places in self.places.pieces(1 << 16):
            if (found := np.flatnonzero(places == number)).size:
                old += int(found[0])
                break
            old += len(places)
        return next(texts[old - start].as_py() for start, texts in windows(table.terms) if old < start + len(texts))


def crc(text: str) -> int:
    """The hash of the indexes: the same in every process and on every machine."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def fold(name: str) -> str:
    """A name without case and Unicode form."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def name_reader(schema: Schema) -> Callable[[int, str], tuple[int, str] | None]:
    """A function from the place of a name predicate and its object to (priority, name), or None for what is no name.

    The least pair is an entity's best name: the first by predicate, language and text.
    """
    languages = {lang: i for i, lang in enumerate(schema.languages)}

    def read(level: int, term: str) -> tuple[int, str] | None:
        lang = literal_lang(term) if term[0] == '"' else None
        if lang not in languages or not schema.is_name(name := literal_value(term)):
            return None
        return level * len(languages) + languages[lang], name

    return read


def number_terms(table: Dictionary, work: Workspace, folder: Path) -> Numbering:
    """Find names and mediators, order the terms, and write what stands for a term in `folder`."""
    names, reverses = _find_names(table, work)
    bearers = work.rows("bearers", 2)
    order = work.text_sorter("order", _PRINTED, ["printed", "text"])
    mediators = work.texts("mediators", _MEDIATORS)
    with work.bar("naming", table.terms.length, "terms") as bar:
        for start, texts, named in _beside(table.terms, names):
            _name_batch(table.schema, start, texts.to_pylist(), named, order, mediators, bearers)
            bar.update(len(texts))
    places = work.row_sorter("placing", 2)
    writer = _TermWriter(folder, work)
    with work.bar("ordering names", table.terms.length, "terms") as bar:
        for batch in order:
            printed, kind = batch.column("printed"), batch.column("kind").to_numpy()
            numbers = writer.write(batch.column("text"), kind, printed)
            places.add(np.column_stack([batch.column("number").to_numpy(), numbers]))
            bar.update(len(numbers))
        first_mediator = writer.count
        for batch in mediators:
            numbers = writer.write(batch.column("text"), np.zeros(batch.num_rows, np.uint8), None)
            places.add(np.column_stack([batch.column("number").to_numpy(), numbers]))
            bar.update(len(numbers))
    mediators.close()
    writer.close()
    file = work.rows("places", 1)
    for rows in places:
        file.append(rows[:, 1])
    return Numbering(file, bearers, first_mediator, writer.starts.done(), writer.literals.done(), reverses)


def _find_names(table: Dictionary, work: Workspace) -> tuple[TextSorter, dict[str, list[str]]]:
    """(entity, priority, name) of every name, and the declared reverses."""
    schema, place = table.schema, {p: i for i, p in enumerate(table.predicates)}
    level = np.full(len(place), -1, np.int64)
    for i, p in reversed(list(enumerate(schema.name_predicates))):
        if p in place:
            level[place[p]] = i
    reverse = np.array([p in schema.reverse_predicates for p in table.predicates], bool)
    by_object = work.row_sorter("named", 3)
    declared: set[tuple[int, int]] = set()
    with work.bar("finding names", len(table.rows), "triples") as bar:
        for block in table.blocks:
            rows, numbers = table.read(block)
            naming = rows[level[rows[:, 1]] >= 0]
            by_object.add(np.column_stack([numbers[naming[:, 2]], numbers[naming[:, 0]], level[naming[:, 1]]]))
            declared.update(map(tuple, numbers[rows[reverse[rows[:, 1]]][:, ::2]].tolist()))
            bar.update(len(rows))
    names, texts = work.text_sorter("names", _NAMES, ["entity", "priority", "name"]), {}
    wanted = np.array(sorted({number for pair in declared for number in pair}), np.int64)
    read, rows_by_object = name_reader(schema), Aligned(iter(by_object))
    with work.bar("reading names", table.terms.length, "terms") as bar:
        for start, column in windows(table.terms):
            stop = start + len(column)
            for number in wanted[np.searchsorted(wanted, start) : np.searchsorted(wanted, stop)].tolist():
                texts[number] = column[number - start].as_py()
            for rows in rows_by_object.below(stop):
                _read_names(rows, column.take(pa.array(rows[:, 0] - start)).to_pylist(), read, names)
            bar.update(len(column))
    reverses: dict[str, set[str]] = {}
    for s, o in declared:
        reverses.setdefault(texts[s], set()).add(texts[o])
        reverses.setdefault(texts[o], set()).add(texts[s])
    return names, {relation: sorted(reverses[relation]) for relation in sorted(reverses)}


def _read_names(rows: np.ndarray, texts: list[str], read: Callable, names: TextSorter) -> None:
    found = [(entity, name) for (_, entity, level), text in zip(rows.tolist(), texts, strict=True)
             if (name := read(level, text))]  # fmt: skip
    if found:
        names.add_columns(
            [
                pa.array([entity for entity, _ in found], pa.uint32()),
                pa.array([priority for _, (priority, _) in found], pa.uint32()),
                pa.array([name for _, (_, name) in found], pa.large_string()),
            ]
        )


def _beside(terms: TextFile, names: TextSorter) -> Iterator[tuple[int, pa.Array, dict[int, list[str]]]]:
    """Batches of terms, with the names of those entities among them that have some, best first."""
    aligned: Aligned[pa.RecordBatch] = Aligned(iter(names))
    for start, column in windows(terms):
        named: dict[int, list[str]] = {}
        for rows in aligned.below(start + len(column)):
            for entity, name in zip(rows.column("entity").to_pylist(), rows.column("name").to_pylist(), strict=True):
                named.setdefault(entity, []).append(name)
        yield start, column, named


def _name_batch(
    schema: Schema,
    start: int,
    texts: list[str],
    named: dict[int, list[str]],
    order: TextSorter,
    mediators: TextFile,
    bearers: RowFile,
) -> None:
    """Say what each term prints with and what it is."""
    printed: list[str] = []
    kinds, numbers, chosen, between = [], [], [], []
    bears: list[tuple[int, int]] = []
    for number, text in enumerate(texts, start):
        if text[0] == '"':
            name, kind = literal_value(text), LITERAL
        elif number in named:
            every = named[number]
            name, kind = every[0], NAMED
            bears += [(crc(fold(other)), number) for other in every]
        elif schema.can_mediate(text):
            between.append(number - start)
            continue
        elif name := schema.id_name(text):
            kind = NAMED_BY_ID
            bears.append((crc(fold(name)), number))
        else:
            kind = 0
        printed.append(name or text)
        chosen.append(text)
        kinds.append(kind)
        numbers.append(number)
    if numbers:
        columns = (pa.array(printed, pa.large_string()), pa.array(chosen, pa.large_string()))
        order.add_columns([*columns, pa.array(numbers, pa.uint32()), pa.array(kinds, pa.uint8())])
    if between:
        mediators.append([[texts[i] for i in between], [start + i for i in between]])
    if bears:
        bearers.append(np.array(bears, np.uint32))


class _TermWriter:
    """Writes terms in their final order."""

    def __init__(self, folder: Path, work: Workspace):
        self.count, self.starts, self.literals = 0, Bits(), Bits()
        self._folder, self._bytes, self._last = folder, 0, ""
        self._hashes = work.row_sorter("hashes", 2)
        self._lengths = work.rows("lengths", 1)
        self._work = work
        self._blob, self._kind = ArrayFile(folder, "blob", np.uint8), ArrayFile(folder, "kind", np.uint8)

    def write(self, texts: pa.Array, kinds: np.ndarray, printed: pa.Array | None) -> np.ndarray:
        """Append terms; returns their numbers. `printed` is None for mediators, which print like nothing."""
        first = np.ones(len(texts), bool)
        if printed is not None:
            first = first_of_texts(printed, self._last)
            self._last = printed[-1].as_py()
        numbers = np.arange(self.count, self.count + len(texts))
        binary = texts.cast(pa.large_binary())
        entity = (kinds & LITERAL) == 0
        hashes = [zlib.crc32(text) for text in binary.filter(pa.array(entity)).to_pylist()]
        if hashes:
            self._hashes.add(np.column_stack([np.array(hashes, np.uint32), numbers[entity]]))
        self._blob.append(np.frombuffer("".join(texts.to_pylist()).encode(), np.uint8))
        lengths = pc.binary_length(binary).to_numpy()
        self._lengths.append(lengths)
        self._bytes += int(lengths.sum())
        self._kind.append(kinds | np.where(first, 0, PRINTS_ALIKE).astype(np.uint8))
        self.starts.append(first)
        self.literals.append(~entity)
        self.count += len(texts)
        return numbers

    def close(self) -> None:
        self._blob.close()
        self._kind.close()
        offsets = ArrayFile(self._folder, "offsets", np.uint32 if self._bytes < 2**32 else np.uint64)
        offsets.append(np.zeros(1))
        last = 0
        for lengths in self._lengths.pieces(1 << 20):
            ends = last + np.cumsum(lengths, dtype=np.int64)
            offsets.append(ends)
            last = int(ends[-1])
        offsets.close()
        self._lengths.close()
        hash_file, term_file = (
            ArrayFile(self._folder, "hash", np.uint32),
            ArrayFile(self._folder, "hash_term", np.uint32),
        )
        for rows in self._hashes:
            hash_file.append(rows[:, 0])
            term_file.append(rows[:, 1])
        hash_file.close()
        term_file.close()
