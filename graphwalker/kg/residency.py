"""Keeping what a process has mapped of a graph within bounds.

Linux maps sixteen pages where one is touched, and takes none back while there is memory: a walk over a large graph ends
up with all of it in the process. Given back, the pages stay in the system's cache, shared, and come back when they are
touched, which takes from one to thirty microseconds each: so only as many are given back as must be, in turn.
"""

import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

LEAST, PER_TRIPLE = 64 << 20, 6  # bytes that may be mapped, whatever the graph, or for each of its triples
EVERY = 64  # look-ups between two looks at how much it is
PARTS = 64  # of each array; one of them is given back at a time
_STATM = Path("/proc/self/statm")


class Residency:
    """Gives the pages of mapped arrays back when there are too many."""

    def __init__(self, arrays: Iterable[np.ndarray], triples: int):
        bases: list[Any] = [array.base for array in arrays]
        self._maps = [base for base in bases if isinstance(base, mmap.mmap)]
        self._limit = max(LEAST, PER_TRIPLE * triples)
        self._possible = _STATM.exists() and hasattr(mmap, "MADV_DONTNEED")
        self._looked, self._before, self.given_back = 0, _shared() if self._possible else 0, 0

    def look(self) -> None:
        """To be called at each look-up."""
        self._looked += 1
        if self._looked % EVERY or not self._possible:
            return
        for _ in range(PARTS):
            if _shared() - self._before <= self._limit:
                return
            self._give_back(self.given_back % PARTS)
            self.given_back += 1
        self._before = _shared()  # all is given back: the rest are libraries that were loaded in between

    def _give_back(self, part: int) -> None:
        for mapped in self._maps:
            size = -(-len(mapped) // (PARTS * mmap.PAGESIZE)) * mmap.PAGESIZE
            if (start := part * size) < len(mapped):
                mapped.madvise(mmap.MADV_DONTNEED, start, min(size, len(mapped) - start))


def _shared() -> int:
    """Bytes of files that this process has mapped and in memory."""
    with open(_STATM, "rb") as statm:
        return int(statm.read().split()[2]) * os.sysconf("SC_PAGE_SIZE")
