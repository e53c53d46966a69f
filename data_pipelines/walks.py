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
  as topic, or answers more than `max_answer_share` of the conjunctions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from data_pipelines.explore import Balance, Explorer
from graphwalker.kg.store import KGStore, Step

STRUCTURES = ("1-hop", "2-hop", "3-hop", "4-hop", "5-hop", "2i")
_NEAR = 500  # facts of an answer, per relation, among which the second topic of a conjunction is looked for


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
    def relations(self) -> frozenset[str]:
        return frozenset(relation for branch in self.branches for relation in branch.relations)

    @property
    def path_key(self) -> str:
        """The relation path, the same for a conjunction whichever branch comes first."""
        return " & ".join(sorted(" / ".join(branch.relations) for branch in self.branches))

    @property
    def key(self) -> tuple[str, ...]:
        """Two walks with one key ask the same thing."""
        return tuple(sorted("\t".join((branch.nodes[0], *branch.relations)) for branch in self.branches))

    def turned(self) -> Walk:
        """The same conjunction with its branches in the other order."""
        return Walk(self.branches[::-1])


class Walker:
    """Draws walks from any store. Deterministic: the same store, arguments and calls give the same walks.

    `shown` is how many facts per relation the tools show. `allow_relation` and `allow_node` narrow the walks down.
    """

    def __init__(
        self,
        store: KGStore,
        *,
        seed: int = 0,
        shown: int = 5,
        max_branch: int = 20,
        max_share: float = 0.02,
        max_answer_share: float = 0.15,
        allow_relation: Callable[[str], bool] | None = None,
        allow_node: Callable[[str], bool] | None = None,
    ) -> None:
        self.graph = Explorer(store, limit=max_branch, allow_relation=allow_relation)
        self._shown, self._max_branch = shown, max_branch
        self._max_share, self._max_answer_share = max_share, max_answer_share
        self._allow_node = allow_node or (lambda node: True)
        self._balance = Balance(seed)
        self._found: Counter[Hashable] = Counter()  # new walks by structure, and by structure and type or node
        self._openings: dict[str, dict[tuple[Step, str], list[tuple[str, Step]]]] = {}
        self._leading: dict[str, list[tuple[str, Step]]] = {}

    def draw(self, structure: str, *, patience: int = 2_000) -> Iterator[Walk]:
        """Different walks of one structure, until `patience` draws in a row have brought none that is new."""
        if structure not in STRUCTURES:
            raise ValueError(f"unknown structure {structure!r}: one of {', '.join(STRUCTURES)}")
        self._openings = {}
        seen: set[tuple[str, ...]] = set()
        kinds = {kind: list(nodes) for kind, nodes in self.graph.kinds.items()}
        failures = 0
        while failures < patience and kinds:
            kind = self._kind(structure, kinds)
            place = self._balance.rng.randrange(len(kinds[kind]))
            walk = self._walk(structure, kinds[kind][place])
            if walk is None and structure == "2i" and not self._openings[kinds[kind][place]]:
                _drop(kinds, kind, place)  # nothing is left to draw there
            if walk is None or walk.key in seen or not self._has_room(walk):
                failures += 1
                continue
            failures = 0
            seen.add(walk.key)
            self._found[structure, kind] += 1
            yield walk

    def _kind(self, structure: str, kinds: dict) -> tuple[str, ...]:
        """The type of the next topic: large ones more often, those that bring few walks seldom."""
        options = list(kinds)
        keys = [(structure, kind) for kind in options]
        sizes = [
            len(kinds[kind]) * ((1 + self._found[key]) / (1 + self._balance.draws(key))) ** 2
            for kind, key in zip(options, keys, strict=True)
        ]
        return options[self._balance.draw(keys, sizes)]

    def _has_room(self, walk: Walk) -> bool:
        """Whether none of the nodes to be found has had its share of this structure's walks; if so, it is counted."""
        keys = [("node", walk.structure, node) for node in walk.branches[0].nodes[1:]]
        share = self._max_answer_share if len(walk.branches) > 1 else self._max_share
        room = max(10, share * self._found["total", walk.structure])
        if any(self._found[key] >= room for key in keys):
            return False
        self._found.update([("total", walk.structure), *keys])
        return True

    def _walk(self, structure: str, topic: str) -> Walk | None:
        return self._conjunction(topic) if structure == "2i" else self._chain(topic, int(structure[0]))

    def _chain(self, topic: str, hops: int) -> Walk | None:
        nodes: list[str] = [topic]
        relations: tuple[str, ...] = ()
        for hop in range(hops):
            options = list(self._continuations(nodes, last=hop == hops - 1))
            if not options:
                return None
            place = self._balance.draw([(hops, *relations, relation) for relation, _ in options])
            relations = (*relations, options[place][0])
            nodes.append(options[place][1])
        return Walk((Branch(tuple(nodes), relations),))

    def _continuations(self, nodes: list[str], *, last: bool) -> Iterator[tuple[str, str]]:
        """Relation and target of each hop that may follow: unique, new by id and by name, allowed."""
        graph, here = self.graph, nodes[-1]
        names = {graph.name(node).casefold() for node in nodes}
        for step in graph.steps(here):
            if graph.total(here, step) != 1:
                continue
            (target,) = graph.targets(here, step)
            if (target.startswith('"') and not last) or target in nodes or graph.name(target).casefold() in names:
                continue
            if self._allow_node(target):
                yield _signed(step), target

    def _conjunction(self, first: str) -> Walk | None:
        """A walk from a topic to one of the answers it leads to, and a second topic that leads to it and no other."""
        openings = self._openings.get(first)
        if openings is None:
            openings = self._openings[first] = self._open(first)
        if not openings:
            return None
        steps = list(dict.fromkeys(step for step, _ in openings))
        step = steps[self._balance.draw([("2i", _signed(s)) for s in steps])]
        answers = [answer for s, answer in openings if s == step]
        answer = answers[self._balance.draw([("answer", a) for a in answers])]
        seconds = openings[step, answer] or self._seconds(first, step, answer)
        if not seconds:
            del openings[step, answer]
            return None
        pairs = [("2i", frozenset((_signed(step), _signed(back)))) for _, back in seconds]
        second, back = seconds.pop(self._balance.draw(pairs))
        openings[step, answer] = seconds
        if not seconds:
            del openings[step, answer]
        return Walk((Branch((first, answer), (_signed(step),)), Branch((second, answer), (_signed(back),))))

    def _open(self, first: str) -> dict[tuple[Step, str], list[tuple[str, Step]]]:
        """The steps of a topic that lead to several answers, each with its answers; their seconds come when drawn."""
        steps = [s for s in self.graph.steps(first) if 1 < self.graph.total(first, s) <= self._max_branch]
        return {(step, a): [] for step in steps for a in self._shown_by(first, step) if self._allow_node(a)}

    def _shown_by(self, node: str, step: Step) -> list[str]:
        return self.graph.targets(node, step)[: self._shown]

    def _seconds(self, first: str, step: Step, answer: str) -> list[tuple[str, Step]]:
        """The second branches for a first one: of another name, and with just this answer in common."""
        graph = self.graph
        full = set(graph.targets(first, step))
        names = {graph.name(first).casefold(), graph.name(answer).casefold()}
        return [
            (node, back)
            for node, back in self._leading_to(answer)
            if graph.name(node).casefold() not in names and full.intersection(graph.targets(node, back)) == {answer}
        ]

    def _leading_to(self, answer: str) -> list[tuple[str, Step]]:
        """The topics and steps that show this answer among several."""
        if answer not in self._leading:
            graph = self.graph
            self._leading[answer] = [
                (node, step)
                for node in sorted(graph.neighbours(answer, _NEAR))
                for step in graph.steps(node)
                if 1 < graph.total(node, step) <= self._max_branch and answer in self._shown_by(node, step)
            ]
        return self._leading[answer]


def _signed(step: Step) -> str:
    return ("^" if step.inverse else "") + step.relation


def _drop(kinds: dict, kind: tuple[str, ...], place: int) -> None:
    nodes = kinds[kind]
    nodes[place] = nodes[-1]
    nodes.pop()
    if not nodes:
        del kinds[kind]
