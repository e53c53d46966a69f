"""The table of relations of an in-memory store: predicates, and pairs of them across a mediator."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

from graphwalker.kg.schema import Schema
from graphwalker.kg.steps import reversed_parts
from graphwalker.kg.store import Step

T = TypeVar("T")


class _Computed(dict[int, T]):
    """Values by number, each computed when it is first asked for."""

    def __init__(self, compute: Callable[[int], T]):
        self._compute = compute

    def __missing__(self, code: int) -> T:
        return self.setdefault(code, self._compute(code))


class Relations:
    """Relations by number: below `len(predicates)` a predicate, from there on a pair (see `layout`)."""

    def __init__(self, kinds: dict[str, Any], schema: Schema):
        self.predicates: list[str] = kinds["predicates"]
        self.number = {text: i for i, text in enumerate(self.predicates)}
        self._plain, self._pairs = kinds["plain"], [tuple(pair) for pair in kinds["pairs"]]
        self._reverses = {relation: set(others) for relation, others in kinds["reverses"].items()}
        self.hidden = frozenset(i for i, p in enumerate(self.predicates) if not schema.is_visible(p))
        self.steps, self.stated_by = _Computed(self._both_steps), _Computed(self._stating)

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        plain = {self.predicates[p] for p in self._plain}
        return tuple(sorted(plain | {f"{self.predicates[p]}.{self.predicates[q]}" for p, q in self._pairs}))

    def _both_steps(self, code: int) -> tuple[Step, Step]:
        """A relation as a step out and a step in."""
        parts = self._parts(code)
        relation = ".".join(parts)
        return Step(relation, False, parts), Step(relation, True, parts)

    def _parts(self, code: int) -> tuple[str, ...]:
        if code < len(self.predicates):
            return (self.predicates[code],)
        return tuple(self.predicates[p] for p in self._pairs[code - len(self.predicates)])

    def _stating(self, code: int) -> tuple[int, ...]:
        """The relations out of an entity that state the same as this one into it, by declared reverses."""
        every = (self._code(parts) for parts in reversed_parts(self._parts(code), self._reverses))
        return tuple(other for other in every if other is not None)

    def _code(self, parts: tuple[str, ...]) -> int | None:
        numbers = tuple(self.number.get(p, -1) for p in parts)
        if min(numbers) < 0:
            return None
        if len(numbers) == 1:
            return numbers[0]
        at = bisect_left(self._pairs, numbers)
        return len(self.predicates) + at if self._pairs[at : at + 1] == [numbers] else None

    @cached_property
    def printed(self) -> dict[str, list[int]]:
        """The pairs that print so: usually one."""
        found = defaultdict(list)
        for code in range(len(self.predicates), len(self.predicates) + len(self._pairs)):
            found[".".join(self._parts(code))].append(code)
        return found

    def halves(self, predicate: int) -> range:
        """The pairs that begin with a predicate."""
        base = len(self.predicates)
        return range(
            base + bisect_left(self._pairs, (predicate, -1)), base + bisect_left(self._pairs, (predicate + 1, -1))
        )
