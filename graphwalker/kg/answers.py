"""The answers to the last questions, which threads that ask the same share."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Answers(Generic[T]):
    """The answers, lists of rows, to the last questions: `rows` rows in all, each answer counting for one more.

    An answer with more than a hundredth of that is not kept, and no failure is. Threads that ask the same at the same
    time share one answer, or one failure.
    """

    def __init__(self, rows: int):
        self._most, self._rows = rows, 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, list[T]] = OrderedDict()
        self._under_way: dict[Hashable, Future[list[T]]] = {}

    def get(self, question: Hashable, fetch: Callable[[], list[T]]) -> list[T]:
        with self._lock:
            if question in self._kept:
                self._kept.move_to_end(question)
                return self._kept[question]
            waiting = self._under_way.get(question)
            if waiting is None:
                mine: Future[list[T]] = Future()
                self._under_way[question] = mine
        if waiting is not None:
            return waiting.result()
        try:
            answer = fetch()
        except BaseException as error:
            with self._lock:
                del self._under_way[question]
            mine.set_exception(error)
            raise
        with self._lock:
            del self._under_way[question]
            self._keep(question, answer)
        mine.set_result(answer)
        return answer

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._rows = 0

    def _keep(self, question: Hashable, answer: list[T]) -> None:
        if len(answer) > self._most // 100:
            return
        self._kept[question] = answer
        self._rows += len(answer) + 1
        while self._rows > self._most:
            _, oldest = self._kept.popitem(last=False)
            self._rows -= len(oldest) + 1
