"""A store as walks see it: who has which name, what follows from a node, and which choices were made how often."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence

from graphwalker.kg.store import Expansion, KGStore, Step

Kind = tuple[str, ...]
"""The types of an entity."""


class Explorer:
    """Cached look-ups in a store, and an index of its names.

    `limit` facts are fetched per relation; `allow_relation` narrows the relations down.
    """

    def __init__(self, store: KGStore, *, limit: int = 20, allow_relation: Callable[[str], bool] | None = None) -> None:
        self._store, self._limit, self._allow_relation = store, limit, allow_relation
        self._steps: dict[str, list[Step]] = {}
        self._expansions: dict[tuple[str, str], Expansion] = {}
        self._targets: dict[tuple[str, str], list[str]] = {}
        self._names: dict[str, str] = {}
        self._bearers: Counter[str] = Counter()
        self._index()

    def _index(self) -> None:
        """One pass over the names."""
        store = self._store
        nodes = sorted({t.head for p in store.schema.name_predicates for t in store.match(None, p, None)})
        for node, name in zip(nodes, store.names(nodes), strict=True):
            if name and not store.is_mediator(node):
                self._names[node] = name
                self._bearers[name.casefold()] += 1
        kinds: dict[Kind, list[str]] = defaultdict(list)
        for node in self._names:
            if self.is_unambiguous(node):
                kinds[tuple(store.types(node))].append(node)
        self.kinds: dict[Kind, list[str]] = dict(sorted(kinds.items()))
        """The possible topics (the entities whose name is theirs alone) by their types."""

    def name(self, node: str) -> str:
        """What the tools print for a node."""
        if node not in self._names:
            self._names[node] = self._store.names([node])[0] or node
        return self._names[node]

    def is_unambiguous(self, node: str) -> bool:
        """Whether a name means this node and no other, whatever the case."""
        return self._bearers[self._names.get(node, "").casefold()] == 1

    def steps(self, node: str) -> list[Step]:
        """The relations of a node, without those that run both ways from it: where they lead would be unclear."""
        if node not in self._steps:
            steps = self._store.steps(node)
            ways = Counter(step.relation for step in steps)
            allowed = self._allow_relation
            self._steps[node] = [s for s in steps if ways[s.relation] == 1 and (not allowed or allowed(s.relation))]
        return self._steps[node]

    def total(self, node: str, step: Step) -> int:
        """How many facts there are under a step."""
        return self._expand(node, step).total

    def targets(self, node: str, step: Step) -> list[str]:
        """The other ends of the facts under a step, as the tools list them."""
        key = (node, step.relation)
        if key not in self._targets:
            triples = self._expand(node, step).triples
            self._targets[key] = [t.head if step.inverse else t.tail for t in triples]
        return self._targets[key]

    def neighbours(self, node: str, limit: int) -> set[str]:
        """The unambiguous entities around a node, at most `limit` per relation."""
        expansions = self._store.expand(node, [step.relation for step in self.steps(node)], limit)
        ends = {end for e in expansions for t in e.triples for end in (t.head, t.tail)}
        return {end for end in ends - {node} if self.is_unambiguous(end)}

    def _expand(self, node: str, step: Step) -> Expansion:
        key = (node, step.relation)
        if key not in self._expansions:
            (self._expansions[key],) = self._store.expand(node, [step.relation], self._limit)
        return self._expansions[key]


class Balance:
    """Draws that prefer what was drawn least, so that what is rare is drawn too."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._draws: Counter[Hashable] = Counter()

    def draws(self, key: Hashable) -> int:
        return self._draws[key]

    def draw(self, keys: Sequence[Hashable], sizes: Sequence[float] | None = None) -> int:
        """The place of a key, with a weight of size / (1 + draws so far)²: in the long run each comes ∝ √size.

        Draws that come to nothing count too, so that dead ends are soon left alone.
        """
        if len(keys) == 1:
            place = 0
        else:
            weights = [
                size / (1 + self._draws[key]) ** 2 for key, size in zip(keys, sizes or [1.0] * len(keys), strict=True)
            ]
            place = self.rng.choices(range(len(keys)), weights)[0]
        self._draws[keys[place]] += 1
        return place
