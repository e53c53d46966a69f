"""Constrained random walks: the reasoning paths that questions are made from (GraphWalker, section 2.2.1, phase 1).

The paper's algorithm is not in its text, so the constraints are ours:

- a chain has 1 to 5 hops; a conjunction has two one-hop branches that meet in the answer;
- no node, and no name, twice; a mediator (CVT) is never walked to, only through;
- every hop of a chain is the only fact under its relation, so the walk has exactly one answer;
- each branch of a conjunction alone has more than one answer and at most `max_branch`; together they have one;
- an agent can repeat the walk from what its tools show: a fact is among the first `shown` of its relation;
- a topic entity's name belongs to no other entity, whatever the case;
- relation paths, topics' types and a conjunction's answers are balanced: each draw prefers what was drawn least, so
  that hubs do not crowd out rare paths; and no node is in more than `max_share` of the chains of one length, unless
  as topic.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from graphwalker.kg.store import Expansion, KGStore, Step

STRUCTURES = ("1-hop", "2-hop", "3-hop", "4-hop", "5-hop", "2i")


@dataclass(frozen=True, slots=True)
class Branch:
    """One way from a topic entity to the answer: `relations[i]` leads from `nodes[i]` to `nodes[i + 1]`."""

    nodes: tuple[str, ...]
    relations: tuple[str, ...]
    """As in `Question.paths`: a leading `^` means walked against its direction."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A chain (one branch) or a conjunction (two)."""

    branches: tuple[Branch, ...]

    @property
    def structure(self) -> str:
        return f"{len(self.branches)}i" if len(self.branches) > 1 else f"{len(self.branches[0].relations)}-hop"

    @property
    def hops(self) -> int:
        return max(len(branch.relations) for branch in self.branches)

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(branch.nodes[0] for branch in self.branches)

    @property
    def answer(self) -> str:
        return self.branches[0].nodes[-1]

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(node for branch in self.branches for node in branch.nodes)

    @property
    def path_key(self) -> str:
        """The relation path, the same for a conjunction whichever branch comes first."""
        return " & ".join(sorted(" / ".join(branch.relations) for branch in self.branches))

    @property
    def key(self) -> tuple[str, ...]:
        """Two walks with one key ask the same thing."""
        return tuple(sorted("\t".join((branch.nodes[0], *branch.relations)) for branch in self.branches))


class Walker:
    """Draws walks from any store. Deterministic: the same store, arguments and calls give the same walks.

    `allow_relation` and `allow_node` narrow the walks down. `shown` is how many facts per relation the tools show.
    """

    def __init__(
        self,
        store: KGStore,
        *,
        seed: int = 0,
        shown: int = 5,
        max_branch: int = 10,
        max_share: float = 0.02,
        allow_relation: Callable[[str], bool] | None = None,
        allow_node: Callable[[str], bool] | None = None,
    ) -> None:
        self._store, self._shown = store, shown
        self._max_branch, self._max_share = max_branch, max_share
        self._allow_relation, self._allow_node = allow_relation, allow_node
        self._rng = random.Random(seed)
        self._counts: Counter[Hashable] = Counter()  # how often each relation prefix, kind or answer was used
        self._steps: dict[str, list[Step]] = {}
        self._expansions: dict[tuple[str, str], Expansion] = {}
        self._targets: dict[tuple[str, str], list[str]] = {}
        self._names: dict[str, str] = {}
        self._bearers: Counter[str] = Counter()
        self.kinds: dict[Hashable, list[str]] = {}
        self._left: dict[tuple[str, str, str], list[tuple[str, Step]]] = {}
        self._into: dict[str, list[tuple[str, Step]]] = {}
        self._index()

    def _index(self) -> None:
        """One pass over the names: who has one, how many bear each, and the possible topics by type."""
        store = self._store
        nodes = sorted({t.head for p in store.schema.name_predicates for t in store.match(None, p, None)})
        for node, name in zip(nodes, store.names(nodes), strict=True):
            if name and not store.is_mediator(node):
                self._names[node] = name
                self._bearers[name.casefold()] += 1
        kinds: dict[Hashable, list[str]] = defaultdict(list)
        for node in self._names:
            if self.is_unambiguous(node):
                kinds[tuple(store.types(node))].append(node)
        self.kinds = dict(sorted(kinds.items(), key=lambda item: str(item[0])))

    def name(self, node: str) -> str:
        """What the tools print for a node."""
        if node not in self._names:
            self._names[node] = self._store.names([node])[0] or node
        return self._names[node]

    def is_unambiguous(self, node: str) -> bool:
        """Whether a name means this node and no other, whatever the case."""
        return self._bearers[self._names.get(node, "").casefold()] == 1

    def draw(self, structure: str, *, patience: int = 2_000) -> Iterator[Walk]:
        """Different walks of one structure, until `patience` draws in a row have brought none that is new.

        Conjunctions are rare, so all that are left follow then, in random order.
        """
        if structure not in STRUCTURES:
            raise ValueError(f"unknown structure {structure!r}: one of {', '.join(STRUCTURES)}")
        seen: set[tuple[str, ...]] = set()
        failures = 0
        while failures < patience:
            walk = self._conjunction() if structure == "2i" else self._chain(int(structure[0]))
            if walk is None or walk.key in seen:
                failures += 1
                continue
            failures = 0
            seen.add(walk.key)
            yield walk
        if structure == "2i":
            for walk in self._all_conjunctions():
                if walk.key not in seen:
                    seen.add(walk.key)
                    yield walk

    def _all_conjunctions(self) -> Iterator[Walk]:
        topics = [node for nodes in self.kinds.values() for node in nodes]
        self._rng.shuffle(topics)
        for first in topics:
            for step in self._branching(first):
                for answer in self._answers(first, step):
                    for second, back in self._seconds(first, step, answer):
                        yield _meeting(first, step, answer, second, back)

    def _least(self, keys: Sequence[Hashable], sizes: Sequence[int] | None = None) -> int:
        """The place of a key, drawn with a weight of size / (1 + draws so far)²: in time each is drawn ∝ √size.

        Draws that come to nothing count too, so that dead ends are soon left alone.
        """
        weights = [size / (1 + self._counts[key]) ** 2 for key, size in zip(keys, sizes or [1] * len(keys), strict=True)]
        place = self._rng.choices(range(len(keys)), weights)[0]
        self._counts[keys[place]] += 1
        return place

    def _topic(self, structure: Hashable) -> str:
        kinds = list(self.kinds)
        kind = kinds[self._least([(structure, kind) for kind in kinds], [len(self.kinds[kind]) for kind in kinds])]
        return self._rng.choice(self.kinds[kind])

    def steps(self, node: str) -> list[Step]:
        if node not in self._steps:
            steps = self._store.steps(node)
            both = Counter(step.relation for step in steps)  # under one relation both ways a hop would be unclear
            self._steps[node] = [
                s for s in steps if both[s.relation] == 1 and (not self._allow_relation or self._allow_relation(s.relation))
            ]
        return self._steps[node]

    def expand(self, node: str, relation: str) -> Expansion:
        key = (node, relation)
        if key not in self._expansions:
            self._expansions[key] = self._store.expand(node, [relation], self._max_branch)[0]
        return self._expansions[key]

    def targets(self, node: str, step: Step) -> list[str]:
        """The other ends of the facts under a step, as the tools list them."""
        key = (node, step.relation)
        if key not in self._targets:
            self._targets[key] = [t.head if step.inverse else t.tail for t in self.expand(*key).triples]
        return self._targets[key]

    def _chain(self, hops: int) -> Walk | None:
        nodes, relations = [self._topic(hops)], ()
        for hop in range(hops):
            options = list(self._continuations(nodes, last=hop == hops - 1))
            if not options:
                return None
            relation, target = options[self._least([(hops, *relations, relation) for relation, _ in options])]
            nodes.append(target)
            relations = (*relations, relation)
        total = self._counts[("total", hops)]
        if any(self._counts[(hops, "node", node)] > max(10, self._max_share * total) for node in nodes[1:]):
            return None
        self._counts.update([("total", hops), *((hops, "node", node) for node in nodes[1:])])
        return Walk((Branch(tuple(nodes), relations),))

    def _continuations(self, nodes: list[str], *, last: bool) -> Iterator[tuple[str, str]]:
        """Relation and target of each hop that may follow: unique, new by id and by name, allowed."""
        names = {self.name(node).casefold() for node in nodes}
        for step in self.steps(nodes[-1]):
            if self.expand(nodes[-1], step.relation).total != 1:
                continue
            (target,) = self.targets(nodes[-1], step)
            if (target.startswith('"') and not last) or target in nodes or self.name(target).casefold() in names:
                continue
            if self._allow_node is None or self._allow_node(target):
                yield _signed(step), target

    def _conjunction(self) -> Walk | None:
        """A topic, one of the answers it leads to, and a second topic that leads to it and to no other of them."""
        first = self._topic("2i")
        options = self._branching(first)
        if not options:
            return None
        step = options[self._least([("2i", _signed(s)) for s in options])]
        answers = self._answers(first, step)
        if not answers:
            return None
        answer = answers[self._least([("answer", a) for a in answers])]
        seconds = self._seconds(first, step, answer)
        if not seconds:
            return None
        keys = [("2i", frozenset((_signed(step), _signed(s)))) for _, s in seconds]
        second, back = seconds.pop(self._least(keys))
        return _meeting(first, step, answer, second, back)

    def _branching(self, node: str) -> list[Step]:
        return [s for s in self.steps(node) if 1 < self.expand(node, s.relation).total <= self._max_branch]

    def _answers(self, first: str, step: Step) -> list[str]:
        return [a for a in self._shown_targets(first, step) if self._allow_node is None or self._allow_node(a)]

    def _seconds(self, first: str, step: Step, answer: str) -> list[tuple[str, Step]]:
        """The second branches that are left for a first one."""
        key = (first, step.relation, answer)
        if key not in self._left:
            full = set(self.targets(first, step))
            names = {self.name(first).casefold(), self.name(answer).casefold()}
            self._left[key] = [
                (node, back)
                for node, back in self._leading_to(answer)
                if self.name(node).casefold() not in names and full.intersection(self.targets(node, back)) == {answer}
            ]
        return self._left[key]

    def _shown_targets(self, node: str, step: Step) -> list[str]:
        return self.targets(node, step)[: self._shown]

    def _leading_to(self, answer: str) -> list[tuple[str, Step]]:
        """The topics and steps that show this answer among several."""
        if answer not in self._into:
            near = {t for s in self.steps(answer) for t in self.targets(answer, s) if self.is_unambiguous(t)}
            self._into[answer] = [
                (node, step)
                for node in sorted(near)
                for step in self.steps(node)
                if 1 < self.expand(node, step.relation).total <= self._max_branch
                and answer in self._shown_targets(node, step)
            ]
        return self._into[answer]


def _signed(step: Step) -> str:
    return ("^" if step.inverse else "") + step.relation


def _meeting(first: str, step: Step, answer: str, second: str, back: Step) -> Walk:
    return Walk((Branch((first, answer), (_signed(step),)), Branch((second, answer), (_signed(back),))))
