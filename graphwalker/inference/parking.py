"""Closed rows of a ragged cache whose past is kept for as long as no open row needs the room.

Open rows lie in front (0 … n-1), parked ones behind them; of those, the one that was parked first goes first.
"""

from collections.abc import Hashable

from graphwalker.inference.cache import RaggedCache


class Parking:
    """Which of a cache's back rows are parked, under which keys."""

    def __init__(self, cache: RaggedCache, capacity: int):
        self.cache, self.capacity = cache, capacity
        self.row_of: dict[Hashable, int] = {}  # the oldest first

    def park(self, key: Hashable, row: int, opened: int) -> None:
        """Keep the open row ``row`` under a key, ``opened`` rows being open, itself included.

        Where it is the last open one it stays where it is: the caller has to close it in either case.
        """
        if row == opened - 1:
            self.row_of[key] = row
            return
        taken = set(self.row_of.values())
        target = next((place for place in range(self.capacity - 1, opened - 1, -1) if place not in taken), None)
        if target is None:
            if not self.row_of:
                return  # every row is open
            target = self.row_of.pop(next(iter(self.row_of)))
        self.cache.move(row, target)
        self.row_of[key] = target

    def clear_way(self, row: int) -> None:
        """Let nothing be parked on a row that is to be opened."""
        there = next((key for key, place in self.row_of.items() if place == row), None)
        if there is None:
            return
        free = set(range(row + 1, self.capacity)) - set(self.row_of.values())
        oldest = next(iter(self.row_of))
        target = max(free) if free else self.row_of.pop(oldest)
        if there in self.row_of and target != row:
            self.cache.move(row, target)
            self.row_of[there] = target

    def take(self, key: Hashable, row: int) -> int:
        """Bring a parked row to ``row``, which is to be opened; how many tokens it holds, 0 where it is not parked."""
        place = self.row_of.pop(key, None)
        if place is None:
            self.clear_way(row)
            self.cache.clear(row)
            return 0
        there = next((other for other, at in self.row_of.items() if at == row), None)
        if there is not None:
            self.cache.swap(place, row)
            self.row_of[there] = place
        elif place != row:
            self.cache.move(place, row)
        return self.cache.lengths[row]
