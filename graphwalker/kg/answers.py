"""The answers to the last questions, which threads that ask the same share."""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class Answers:
    """The answers to the last `size` questions, without lists of more than `rows` rows; failures are not kept.

    Threads that ask the same at the same time share one answer, or one failure.
    """

    def __init__(self, size: int, rows: float = math.inf):
        self._size, self._rows = size, rows
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Any] = OrderedDict()
        self._under_way: dict[str, Future] = {}

    def get(self, question: str, fetch: Callable[[], Any]) -> Any:
        with self._lock:
            if question in self._kept:
                self._kept.move_to_end(question)
                return self._kept[question]
            waiting = self._under_way.get(question)
            if waiting is None:
                mine: Future = Future()
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
            if not isinstance(answer, list) or len(answer) <= self._rows:
                self._kept[question] = answer
                if len(self._kept) > self._size:
                    self._kept.popitem(last=False)
        mine.set_result(answer)
        return answer
