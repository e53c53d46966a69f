"""Keeping what a process has mapped of a graph within bounds.

Linux maps sixteen pages where one is touched, and takes none back while there is memory: a walk over a large graph ends
up with all of it in the process. Given back, the pages stay in the system's cache, shared, and come back in a
microsecond.
"""

import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

LEAST, PER_TRIPLE = 64 << 20, 4  # bytes that may be mapped, whatever the graph, or for each of its triples
EVERY = 64  # look-ups between two looks at how much it is
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
        if self._looked % EVERY or not self._possible or _shared() - self._before <= self._limit:
            return
        for mapped in self._maps:
            mapped.madvise(mmap.MADV_DONTNEED)
        self.given_back += 1
        self._before = _shared()  # libraries that were loaded in between do not count


def _shared() -> int:
    """Bytes of files that this process has mapped and in memory."""
    with open(_STATM, "rb") as statm:
        return int(statm.read().split()[2]) * os.sysconf("SC_PAGE_SIZE")
