"""The candidates beside a path's own steps (Algorithm 2): relations by the retriever, and entities of one relation.

Drawn by the seed and by names, never by the order of anything else, so that the same question has the same candidates.
"""

import hashlib
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from data_pipelines.arg_paths import Hop, Path, PathSearch
from graphwalker.errors import at_least
from graphwalker.kg.hops import Edge
from graphwalker.protocol.reflection import read_relation, write_relation
from graphwalker.tools.retriever import Retriever, candidates

Walk = tuple[str, Path]
"""The id of a topic, and a path from it: two topics can have the same path, to an answer that they share."""


@dataclass(frozen=True)
class ArgSettings:
    """How much is drawn. Raises `UserError` for a number below its least."""

    k_paths: int = 4
    """Paths of a question (the paper gives no number)."""
    candidates: int = 5
    """K: relations, and entities, that are judged at a hop, those of the path included (section 5.3)."""
    max_hops: int = 4
    """Edges of a path, those into and out of a mediator counted each."""
    hub: int = 1000
    """Neighbours of a node beyond which no path leads through it."""
    answers: int = 20
    """Answers of a question to which paths are looked for."""
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(self, k_paths=1, candidates=1, max_hops=1, hub=1, answers=1, seed=0)


def chance(settings: ArgSettings, *what: str) -> random.Random:
    """A source of chance of its own for one thing that is drawn."""
    text = "\0".join((str(settings.seed), *what))
    return random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))


def relations(
    search: PathSearch, retriever: Retriever, question: str, node: str, edge: Edge, settings: ArgSettings
) -> list[Edge]:
    """The K relations of a node that the retriever finds for the question and the right one, less the right one."""
    names = [write_relation(*other) for other in search.hops.edges(node)]
    right = write_relation(*edge)
    found = candidates(retriever, [question, right.removeprefix("^")], names, settings.candidates)
    return [read_relation(name) for name in found if name != right][: settings.candidates - 1]


def siblings(search: PathSearch, node: str, hop: Hop, settings: ArgSettings) -> list[Hop]:
    """Others that the same relation leads to, at most K - 1, in the order of their ids."""
    others = [end for end in search.tails(node, hop.edge) if end != hop.node]
    wanted = min(settings.candidates - 1, len(others))
    drawn = chance(settings, "siblings", node, *map(str, hop.edge), hop.node).sample(others, wanted)
    return [Hop(hop.edge, end) for end in sorted(drawn)]


def sample_paths(
    walks: Sequence[Walk],
    settings: ArgSettings,
    question: str,
    by_chance: Collection[tuple[str, tuple[Edge, ...]]] = (),
) -> list[Walk]:
    """At most ``k_paths`` walks, in turn from each sequence of relations out of a topic: one with many answers does not
    crowd out the others. Of the sequences ``by_chance``, which teach when to stop, at most one walk is drawn, the last.
    """
    drawn = chance(settings, "paths", question)
    groups: dict[tuple[str, tuple[Edge, ...]], list[Walk]] = {}
    for walk in sorted(walks, key=lambda walk: (walk[1], walk[0])):
        groups.setdefault(_sequence(walk), []).append(walk)
    order = list(groups.values())
    drawn.shuffle(order)
    for group in order:
        drawn.shuffle(group)
    longest = max(map(len, order), default=0)
    turns = [group[place] for place in range(longest) for group in order if place < len(group)]
    stray = [walk for walk in turns if _sequence(walk) in by_chance][:1]
    sound = [walk for walk in turns if _sequence(walk) not in by_chance]
    places = settings.k_paths - len(stray) if sound and settings.k_paths > 1 else settings.k_paths
    return [*sound[:places], *stray][: settings.k_paths]


def _sequence(walk: Walk) -> tuple[str, tuple[Edge, ...]]:
    return walk[0], tuple(hop.edge for hop in walk[1])
