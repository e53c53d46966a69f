"""Questions that several threads ask at a time, answered together."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


class _Waiting(Generic[Q, A]):
    def __init__(self, question: Q):
        self.question, self.taken, self.failed = question, False, False
        self.answer: list[A] = []  # one, when it is there

    @property
    def done(self) -> bool:
        return bool(self.answer) or self.failed


class Batches(Generic[Q, A]):
    """`answer` gives the answers to up to `size` questions; `at_once` calls of it are under way at a time.

    A thread that finds a place free answers what is waiting, so nobody waits to be joined by others. A failure of
    several questions says nothing about one of them: each is then asked again alone.
    """

    def __init__(self, answer: Callable[[list[Q]], list[A]], size: int, at_once: int):
        self._answer, self._size, self._free = answer, size, at_once
        self._changed = threading.Condition()
        self._queue: deque[_Waiting[Q, A]] = deque()

    def get(self, question: Q) -> A:
        """The answer. Raises what `answer` raises for this question alone."""
        mine: _Waiting[Q, A] = _Waiting(question)
        with self._changed:
            self._queue.append(mine)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: mine.done or (self._free and not mine.taken))
                if mine.done:
                    break
                batch = [self._queue.popleft() for _ in range(min(self._size, len(self._queue)))]
                self._free -= 1
                for item in batch:
                    item.taken = True
            self._work(batch, mine)
        return mine.answer[0] if mine.answer else self._answer([question])[0]

    def _work(self, batch: list[_Waiting[Q, A]], mine: _Waiting[Q, A]) -> None:
        answers: list[A] = []
        try:
            answers = self._answer([item.question for item in batch])
        except Exception:
            if batch == [mine]:
                raise
        finally:  # of an interrupt too: the others go on
            with self._changed:
                self._free += 1
                for at, item in enumerate(batch):
                    item.answer = answers[at : at + 1]
                    item.failed = not item.answer
                self._changed.notify_all()
