"""Work on a server or a graph that is waited for: several items at a time, the results in their order."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(work: Callable[[T], R], items: Iterable[T], parallel: int) -> Iterator[R]:
    """The results of ``work`` on the items in their order, ``parallel`` of them being made at a time.

    What ``work`` raises is raised at its place; whatever has not begun by then, or when nobody asks on, is left.
    """
    with ThreadPoolExecutor(parallel) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            for future in futures:
                yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
