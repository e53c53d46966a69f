"""A circuit breaker: after several failures in a row nothing is sent for a while, then one request tries again."""

import time
from collections.abc import Callable


class Breaker:
    """`threshold` failures in a row open it for `cooldown` seconds. For one thread (the client's event loop)."""

    def __init__(self, threshold: int, cooldown: float, clock: Callable[[], float] = time.monotonic):
        self._threshold, self._cooldown, self._clock = threshold, cooldown, clock
        self._failures, self._opened = 0, 0.0

    def admits(self) -> bool:
        """Whether a request may go out now; while it is open, one may each time the cooldown is over."""
        if self._failures < self._threshold:
            return True
        if self._clock() - self._opened < self._cooldown:
            return False
        self._opened = self._clock()  # the others wait for what this one finds
        return True

    def succeeded(self) -> None:
        self._failures = 0

    def failed(self) -> None:
        self._failures += 1
        if self._failures >= self._threshold:
            self._opened = self._clock()
