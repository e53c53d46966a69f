"""Files for what a build does not hold in memory: rows of numbers, and record batches of texts."""

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

LEAST_ROWS = 4  # of a piece: a memory of next to nothing still works, slowly


class RowFile:
    """Rows of unsigned 32-bit numbers in a file, written one after the other and read in pieces."""

    def __init__(self, handle: BinaryIO, width: int):
        self._handle, self.width, self._length = handle, width, 0

    def __len__(self) -> int:
        return self._length

    def append(self, rows: np.ndarray) -> None:
        self.write(self._length, rows)

    def write(self, start: int, rows: np.ndarray) -> None:
        """Put rows at a place, which may lie behind the end."""
        self._handle.seek(start * self.width * 4)
        self._handle.write(np.ascontiguousarray(rows, np.uint32).data)
        self._length = max(self._length, start + len(rows))

    def read(self, start: int, stop: int) -> np.ndarray:
        """(stop - start, width), or (stop - start,) for a width of 1; no further than the end."""
        count = max(0, min(stop, self._length) - start)
        self._handle.seek(start * self.width * 4)
        flat = np.frombuffer(self._handle.read(count * self.width * 4), np.uint32)
        return flat if self.width == 1 else flat.reshape(count, self.width)

    def take(self, places: np.ndarray, window: int) -> np.ndarray:
        """The numbers at some places, ascending, of a file of width 1; at most `window` of it are held at once."""
        found = np.empty(len(places), np.uint32)
        window = max(LEAST_ROWS, window)
        for start in range(0, self._length, window):
            lo, hi = np.searchsorted(places, [start, start + window])
            if lo < hi:
                found[lo:hi] = self.read(start, start + window)[places[lo:hi] - start]
        return found

    def pieces(self, rows: int) -> Iterator[np.ndarray]:
        for start in range(0, self._length, rows):
            yield self.read(start, start + rows)

    def close(self) -> None:
        """Close it and free its room."""
        self._handle.truncate(0)
        self._handle.close()


class TextFile:
    """Record batches in a file, written one after the other and then read in order."""

    def __init__(self, handle: BinaryIO, schema: pa.Schema):
        self._handle, self.schema, self.length = handle, schema, 0
        self._writer: Any = pa.ipc.new_file(pa.PythonFile(handle, "w"), schema)
        self._reader: Any = None

    def append(self, columns: Sequence[Any]) -> None:
        batch = pa.record_batch(columns, schema=self.schema)
        self._writer.write_batch(batch)
        self.length += batch.num_rows

    def read(self, at: int) -> pa.RecordBatch:
        """One batch; there is no more writing after the first reading."""
        if self._reader is None:
            self._writer.close()
            self._handle.seek(0)
            self._reader = pa.ipc.open_file(pa.PythonFile(self._handle, "r"))
        return self._reader.get_batch(at)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self.read(0) if self.length else None
        for at in range(self._reader.num_record_batches if self.length else 0):
            yield self.read(at)

    def close(self) -> None:
        self._reader = self._writer = None
        self._handle.truncate(0)
        self._handle.close()
