"""Arrays that are written piece by piece: `.npy` files, and rows of bits that stay in memory."""

from pathlib import Path
from typing import Self

import numpy as np


class ArrayFile:
    """A one-dimensional `.npy` file of a length that is known at the end only."""

    def __init__(self, folder: Path, name: str, dtype: type):
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._handle, self._length = open(folder / f"{name}.npy", "wb"), 0  # noqa: SIM115 (closed by `close`)
        self._header()

    def __len__(self) -> int:
        return self._length

    def _header(self) -> None:
        # numpy leaves room in a header for the length to grow.
        record = {"descr": self._dtype.str, "fortran_order": False, "shape": (self._length,)}
        np.lib.format.write_array_header_1_0(self._handle, record)

    def append(self, values: np.ndarray) -> None:
        self._handle.write(np.ascontiguousarray(values, self._dtype).data)
        self._length += len(values)

    def close(self) -> None:
        self._handle.seek(0)
        self._header()
        self._handle.close()


class Bits:
    """A bit for each number: N / 8 bytes, and half as much again to count them."""

    def __init__(self) -> None:
        self._whole: list[np.ndarray] = []
        self._rest = np.empty(0, bool)

    def append(self, bits: np.ndarray) -> None:
        bits = np.concatenate([self._rest, bits])
        whole = len(bits) // 64 * 64
        self._whole.append(np.packbits(bits[:whole], bitorder="little").view("<u8"))
        self._rest = bits[whole:]

    def done(self) -> Self:
        """Ready to be asked."""
        rest = np.zeros(64, bool)
        rest[: len(self._rest)] = self._rest
        self._words = np.concatenate([*self._whole, np.packbits(rest, bitorder="little").view("<u8")])
        self._before = np.zeros(len(self._words), np.uint32)
        np.cumsum(np.bitwise_count(self._words)[:-1], out=self._before[1:])
        self._whole = []
        return self

    def __getitem__(self, numbers: np.ndarray) -> np.ndarray:
        """Which of the numbers have their bit set."""
        numbers = numbers.astype(np.uint64)
        return (self._words[numbers >> np.uint64(6)] >> (numbers & np.uint64(63))) & np.uint64(1) > 0

    def rank(self, numbers: np.ndarray) -> np.ndarray:
        """How many bits are set up to each number, itself included."""
        numbers = numbers.astype(np.uint64)
        word = numbers >> np.uint64(6)
        below = self._words[word] << (np.uint64(63) - (numbers & np.uint64(63)))
        return self._before[word] + np.bitwise_count(below)

    def total(self) -> int:
        """How many bits are set."""
        return int(np.bitwise_count(self._words).sum())
