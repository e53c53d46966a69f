"""Sorting what does not fit in memory: batches are sorted and written as runs, which are merged as they are read.

What comes out depends on what went in, never on the memory: only the sizes of the pieces do.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Generic, TypeVar

import numpy as np
import pyarrow as pa

from graphwalker.kg.spill import LEAST_ROWS, RowFile, TextFile

B = TypeVar("B")


class Sorter(ABC, Generic[B]):
    """Takes batches in any order; iterating gives everything in order, once, in pieces, and frees the file."""

    def __init__(self, capacity: int):
        self._capacity, self._held, self._size = capacity, [], 0  # type: ignore[var-annotated]
        self.added = 0  # rows

    def add(self, batch: B) -> None:
        self._held.append(batch)
        self._size += self._bytes(batch)
        self.added += self._rows(batch)
        if self._size >= self._capacity:
            self._spill(self._join(self._held))
            self._held, self._size = [], 0

    def __iter__(self) -> Iterator[B]:
        last = self._join(self._held) if self._held else None
        self._held, self._size = [], 0
        if not self._spilled():
            if last is not None and self._rows(last):
                yield last
        else:
            if last is not None and self._rows(last):
                self._spill(last)
            del last
            yield from self._merge(self._runs())
        self._free()

    def _merge(self, runs: list[Iterator[B]]) -> Iterator[B]:
        """Each round hands out all that is not above the least of the last rows in hand: equal rows come together."""
        heads = [next(run) for run in runs]
        while heads:
            if len(heads) == 1:
                yield heads[0]
                yield from runs[0]
                return
            bound = min(map(self._last, heads))
            parts, rest, more = [], [], []
            for head, run in zip(heads, runs, strict=True):
                cut = self._upto(head, bound)
                if cut:
                    parts.append(self._slice(head, 0, cut))
                left = self._slice(head, cut, self._rows(head)) if cut < self._rows(head) else next(run, None)
                if left is not None:
                    rest.append(left)
                    more.append(run)
            heads, runs = rest, more
            yield self._join(parts)

    @abstractmethod
    def _join(self, batches: list[B]) -> B:
        """Batches as one, sorted."""

    @abstractmethod
    def _spill(self, batch: B) -> None: ...
    @abstractmethod
    def _spilled(self) -> bool: ...
    @abstractmethod
    def _runs(self) -> list[Iterator[B]]: ...
    @abstractmethod
    def _free(self) -> None: ...
    @abstractmethod
    def _rows(self, batch: B) -> int: ...
    @abstractmethod
    def _bytes(self, batch: B) -> int: ...
    @abstractmethod
    def _last(self, batch: B) -> tuple: ...
    @abstractmethod
    def _upto(self, batch: B, bound: tuple) -> int: ...
    @abstractmethod
    def _slice(self, batch: B, start: int, stop: int) -> B: ...


class RowSorter(Sorter[np.ndarray]):
    """Sorts rows of unsigned 32-bit numbers, and gives each once."""

    def __init__(self, handle: BinaryIO, width: int, memory: int):
        super().__init__(max(memory, LEAST_ROWS * width * 4))
        self._file, self._bounds = RowFile(handle, width), [0]

    def _join(self, batches: list[np.ndarray]) -> np.ndarray:
        return distinct_rows(np.concatenate(batches) if len(batches) > 1 else batches[0])

    def _spill(self, batch: np.ndarray) -> None:
        self._file.append(batch)
        self._bounds.append(len(self._file))

    def _spilled(self) -> bool:
        return len(self._bounds) > 1

    def _runs(self) -> list[Iterator[np.ndarray]]:
        step = max(LEAST_ROWS, self._capacity // (4 * self._file.width) // (len(self._bounds) - 1))

        def run(start: int, stop: int) -> Iterator[np.ndarray]:
            for at in range(start, stop, step):
                yield self._file.read(at, min(at + step, stop))

        return [run(*bounds) for bounds in zip(self._bounds, self._bounds[1:], strict=False)]

    def _free(self) -> None:
        self._file.close()

    def _rows(self, batch: np.ndarray) -> int:
        return len(batch)

    def _bytes(self, batch: np.ndarray) -> int:
        return batch.nbytes

    def _last(self, batch: np.ndarray) -> tuple:
        return tuple(batch[-1].tolist())

    def _upto(self, batch: np.ndarray, bound: tuple) -> int:
        start, stop = 0, len(batch)
        for column, value in enumerate(bound):
            key = batch[start:stop, column]
            start, stop = start + np.searchsorted(key, value, "left"), start + np.searchsorted(key, value, "right")
        return int(stop)

    def _slice(self, batch: np.ndarray, start: int, stop: int) -> np.ndarray:
        return batch[start:stop]


class TextSorter(Sorter[pa.RecordBatch]):
    """Sorts record batches by some of their columns (numbers, and texts by code point); repeated rows stay."""

    def __init__(self, handle: BinaryIO, schema: pa.Schema, keys: Sequence[str], memory: int):
        super().__init__(max(memory, 1))
        self._file, self._keys, self._bounds, self._written = TextFile(handle, schema), list(keys), [0], 0

    def add_columns(self, columns: Sequence[Any]) -> None:
        self.add(pa.record_batch(columns, schema=self._file.schema))

    def _join(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        table = pa.Table.from_batches(batches).combine_chunks()
        table = table.sort_by([(key, "ascending") for key in self._keys]).combine_chunks()
        return table.to_batches()[0] if len(table) else batches[0]

    def _spill(self, batch: pa.RecordBatch) -> None:
        pieces = max(1, 64 * batch.nbytes // self._capacity)
        step = max(LEAST_ROWS, -(-batch.num_rows // pieces))
        for at in range(0, batch.num_rows, step):
            self._file.append(batch.slice(at, step).columns)
            self._written += 1
        self._bounds.append(self._written)

    def _spilled(self) -> bool:
        return len(self._bounds) > 1

    def _runs(self) -> list[Iterator[pa.RecordBatch]]:
        return [map(self._file.read, range(*bounds)) for bounds in zip(self._bounds, self._bounds[1:], strict=False)]

    def _free(self) -> None:
        self._file.close()

    def _rows(self, batch: pa.RecordBatch) -> int:
        return batch.num_rows

    def _bytes(self, batch: pa.RecordBatch) -> int:
        return batch.nbytes

    def _key(self, batch: pa.RecordBatch, at: int) -> tuple:
        return tuple(batch.column(key)[at].as_py() for key in self._keys)

    def _last(self, batch: pa.RecordBatch) -> tuple:
        return self._key(batch, batch.num_rows - 1)

    def _upto(self, batch: pa.RecordBatch, bound: tuple) -> int:
        return bisect_right(range(batch.num_rows), bound, key=lambda at: self._key(batch, at))

    def _slice(self, batch: pa.RecordBatch, start: int, stop: int) -> pa.RecordBatch:
        return batch.slice(start, stop - start)


def distinct_rows(rows: np.ndarray) -> np.ndarray:
    """The rows of a matrix of integers >= 0, sorted, each once."""
    if not len(rows):
        return rows
    low = rows[:, 0].min()
    columns = [rows[:, 0] - low, *rows.T[1:]]
    bits = [int(column.max()).bit_length() for column in columns]
    if sum(bits) > 64:
        rows = rows[np.lexsort(rows.T[::-1])]
        return rows[first_of_runs(rows)]
    # Rows fit into one integer each, which sorts many times faster.
    keys = columns[0].astype(np.uint64)
    for column, width in zip(columns[1:], bits[1:], strict=True):
        keys = (keys << np.uint64(width)) | column.astype(np.uint64)
    keys.sort()
    keys = keys[first_of_runs(keys)]
    out = np.empty((len(keys), len(bits)), rows.dtype)
    for place in range(len(bits) - 1, -1, -1):
        out[:, place] = keys & np.uint64((1 << bits[place]) - 1) if place else keys
        keys = keys >> np.uint64(bits[place]) if bits[place] < 64 else keys
    out[:, 0] += low
    return out


def first_of_runs(rows: np.ndarray) -> np.ndarray:
    """(n,) bool: True where a row, or a number, differs from the one before it."""
    first = np.ones(len(rows), bool)
    changed = rows[1:] != rows[:-1]
    first[1:] = changed if rows.ndim == 1 else changed.any(axis=1)
    return first


class Aligned(Generic[B]):
    """Sorted pieces, cut anew at the numbers of their first column."""

    def __init__(self, pieces: Iterator[B]):
        self._pieces = pieces
        self._rest: Any = None

    def below(self, bound: int) -> list[B]:
        """All rows not handed out yet whose first number is below `bound`, in pieces."""
        found = []
        while (piece := self._rest if self._rest is not None else next(self._pieces, None)) is not None:
            first = self._first(piece)
            cut = int(np.searchsorted(first, bound))
            whole = cut == len(first)
            if cut:
                found.append(piece if whole else self._cut(piece, 0, cut))
            self._rest = None if whole else self._cut(piece, cut, len(first))
            if not whole:
                break
        return found

    @staticmethod
    def _first(piece: Any) -> np.ndarray:
        return piece[:, 0] if isinstance(piece, np.ndarray) else piece.column(0).to_numpy()

    @staticmethod
    def _cut(piece: Any, start: int, stop: int) -> Any:
        return piece[start:stop] if isinstance(piece, np.ndarray) else piece.slice(start, stop - start)
