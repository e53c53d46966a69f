"""Train, dev and two held-out splits that share no topic entity, or no relation path, with training.

- `test_entity`: topic entities that no training walk touches, be it as topic, in between or as answer. (They can still
  stand among the other lines of a training observation: the graph is one.) Their relation paths are trained ones.
- `test_path`: relation paths that no training walk takes; each of their relations is in one that it does take.
- `dev`: a topic entity that no training walk starts from (of a conjunction's two, at least one).

Which entities and paths are held out depends on the seed and their own ids alone.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from data_pipelines.explore import Kind
from data_pipelines.walks import Walk
from graphwalker.kg.store import KGStore

HUB = 100  # facts under one relation from which an entity is a hub: holding it out would empty training
SMALL_KIND = 2_000  # entities of one type up to which a larger share is held out
TEST_SHARE = {"small": 0.23, "large": 0.06}
DEV_SHARE = {"small": 0.05, "large": 0.02}


def _unit(*parts: object) -> float:
    """A number in [0, 1) that depends on the parts alone."""
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


class EntitySplit:
    """Says which split an entity belongs to; hubs always belong to training."""

    def __init__(self, store: KGStore, kinds: Mapping[Kind, Sequence[str]], *, seed: int = 0) -> None:
        self._store, self._seed = store, seed
        self._size = {
            node: "small" if len(nodes) <= SMALL_KIND else "large" for nodes in kinds.values() for node in nodes
        }
        self._known: dict[str, str] = {}

    def of(self, node: str) -> str:
        """`train`, `dev` or `test_entity`."""
        if node not in self._known:
            self._known[node] = self._split(node)
        return self._known[node]

    def _split(self, node: str) -> str:
        size = self._size.get(node)
        if size is None:  # no possible topic
            return "train"
        place = _unit(self._seed, "entity", node)
        if place >= TEST_SHARE[size] + DEV_SHARE[size] or self._is_hub(node):
            return "train"
        return "test_entity" if place < TEST_SHARE[size] else "dev"

    def _is_hub(self, node: str) -> bool:
        relations = [step.relation for step in self._store.steps(node)]
        return any(expansion.total > HUB for expansion in self._store.expand(node, relations, 1))


def held_out_paths(walks: Sequence[Walk], *, seed: int = 0, share: float = 0.12) -> frozenset[str]:
    """The `path_key`s to hold out: for each structure above one hop, paths that take about `share` of its walks.

    A path is left in training where holding it out would take one of its relations from training altogether, or more
    than `share` of the structure's walks at once.
    """
    paths = {walk.path_key: walk for walk in walks}
    walked = Counter(walk.path_key for walk in walks)
    room = {structure: share * count for structure, count in Counter(walk.structure for walk in walks).items()}
    uses = Counter(relation for walk in paths.values() for relation in walk.relations)
    chosen: set[str] = set()
    for key, walk in sorted(paths.items(), key=lambda item: _unit(seed, "path", item[0])):
        if walk.structure == "1-hop" or walked[key] > room[walk.structure]:
            continue
        if all(uses[relation] > 1 for relation in walk.relations):
            uses.subtract(walk.relations)
            room[walk.structure] -= walked[key]
            chosen.add(key)
    return frozenset(chosen)


@dataclass(frozen=True)
class Splits:
    """The rules of all splits over one KG."""

    entities: EntitySplit
    paths: frozenset[str]
    """The relation paths held out."""

    def of(self, walk: Walk) -> str | None:
        """The only split that may have this walk; `None` where none may."""
        topics = {self.entities.of(topic) for topic in walk.topics}
        if walk.path_key in self.paths:
            return "test_path" if topics == {"train"} else None
        if topics == {"test_entity"}:
            return "test_entity"
        if any(self.entities.of(node) == "test_entity" for node in walk.nodes):
            return None
        return "dev" if "dev" in topics else "train"


def leaks(train: Iterable[Walk], held_out: Mapping[str, Iterable[Walk]]) -> dict[str, int]:
    """How many held-out walks share what they must not with training; all counts must be 0."""
    topics: set[str] = set()
    touched: set[str] = set()
    paths: set[str] = set()
    relations: set[str] = set()
    keys: set[tuple[str, ...]] = set()
    for walk in train:
        topics.update(walk.topics)
        touched.update(walk.nodes)
        paths.add(walk.path_key)
        keys.add(walk.key)
        relations.update(walk.relations)
    counts = {}
    for split, walks in held_out.items():
        walks = list(walks)
        counts[f"{split}: same walk"] = sum(walk.key in keys for walk in walks)
        if split == "test_entity":
            counts[f"{split}: topic entity"] = sum(not touched.isdisjoint(walk.topics) for walk in walks)
        if split == "dev":
            counts[f"{split}: topic entity"] = sum(topics.issuperset(walk.topics) for walk in walks)
        if split == "test_path":
            counts[f"{split}: relation path"] = sum(walk.path_key in paths for walk in walks)
            counts[f"{split}: relation never trained"] = sum(not walk.relations <= relations for walk in walks)
        if split == "test_entity":
            counts[f"{split}: relation path never trained"] = sum(walk.path_key not in paths for walk in walks)
    return counts
