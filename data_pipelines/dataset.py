"""From a KG to everything the stages train and test on, in one go: trajectories, questions, and what was counted.

In the output folder: `graphsynth.jsonl` and `graphroll.jsonl` (trajectories), `train.jsonl` (questions for RL),
`dev.jsonl`, `test_entity.jsonl` and `test_path.jsonl` (questions), and `stats.json`; all are written, or none.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from data_pipelines.demo_kg import build_demo_kg
from data_pipelines.graphroll import graphroll
from data_pipelines.graphsynth import Item, graphsynth, make_items
from data_pipelines.phrases import built_in_text
from data_pipelines.splits import EntitySplit, Splits, held_out_paths, leaks
from data_pipelines.teachers import Teacher, TemplateTeacher
from data_pipelines.walks import Walk, Walker
from graphwalker.errors import UserError
from graphwalker.files import atomic_files, dump_json, dump_jsonl, parse_json
from graphwalker.kg.meta import read_meta
from graphwalker.kg.open import open_kg
from graphwalker.kg.store import KGStore
from graphwalker.tools.toolbox import Toolbox
from graphwalker.types import Question, Trajectory

RECIPE = 2  # raised when the same settings give other data than before
DEMO_STRUCTURES = ("1-hop", "2-hop", "3-hop", "2i")
INVENTORY = 600  # walks per structure from which the relation paths to hold out are chosen
VAIN = 3  # times the walks wanted, that many in a row may fit no part
TRAIN_PARTS = ("graphsynth", "graphroll", "train")
PARTS = (*TRAIN_PARTS, "dev", "test_entity", "test_path")


@dataclass(frozen=True)
class Sizes:
    """How many of each there are to be, in equal shares over the structures."""

    graphsynth: int = 6_000
    """Trajectories without a mistake."""
    graphroll: int = 2_000
    """Expert trajectories, on other questions."""
    train: int = 2_000
    """Questions for RL, again others."""
    dev: int = 200
    test_entity: int = 320
    test_path: int = 120

    def share(self, part: str, structures: Sequence[str], structure: str) -> int:
        """A part's count for one structure; the first structures take what does not divide.

        A path of one relation is seen as soon as its relation is, so `test_path` has no 1-hop questions.
        """
        fit = [s for s in structures if part != "test_path" or s != "1-hop"]
        if structure not in fit:
            return 0
        total = getattr(self, part)
        return total // len(fit) + (fit.index(structure) < total % len(fit))


class _Maker:
    """One run over one KG."""

    def __init__(
        self, toolbox: Toolbox, structures: Sequence[str], sizes: Sizes, seed: int, teacher: Teacher, dataset: str
    ) -> None:
        self.toolbox, self.store, self.teacher, self.dataset = toolbox, toolbox.store, teacher, dataset
        self.structures, self.sizes, self.seed = structures, sizes, seed
        self.walker = Walker(self.store, seed=seed, shown=toolbox.triples_per_relation)
        self.dropped: Counter[str] = Counter()
        self.short: dict[str, int] = {}
        self._texts: set[str] = set()

    def walks(self, progress: bool) -> dict[str, list[Walk]]:
        """For each part its walks, structure by structure, with some to spare."""
        streams = {structure: self.walker.draw(structure) for structure in self.structures}
        first = {structure: list(itertools.islice(stream, INVENTORY)) for structure, stream in streams.items()}
        held_out = held_out_paths([walk for walks in first.values() for walk in walks], seed=self.seed)
        self.splits = Splits(EntitySplit(self.store, self.walker.graph.kinds, seed=self.seed), held_out)
        parts: dict[str, list[Walk]] = {part: [] for part in PARTS}
        for structure, stream in streams.items():
            wanted = {part: _spare(self.sizes.share(part, self.structures, structure)) for part in PARTS}
            bar = tqdm(total=sum(wanted.values()), desc=f"walks: {structure}", unit="walk", disable=not progress)
            for part, walk in self._assign(itertools.chain(first[structure], stream), wanted):
                parts[part].append(walk)
                bar.update()
            bar.close()
        return parts

    def _assign(self, walks: Iterable[Walk], wanted: Mapping[str, int]) -> Iterator[tuple[str, Walk]]:
        """Each walk to a part of its split that still wants one: the emptiest, so that all get the same mixture.

        Conjunctions are rare, so a training part asks each of its own twice, with the branches in either order. Where a
        graph has few walks for some part, the search for them ends after a number of walks that fit none.
        """
        left = {part: count for part, count in wanted.items() if count}
        trained: set[str] = set()  # paths; a test about new entities is to hold nothing else that is new
        in_vain = 0
        for walk in walks:
            if not left or in_vain > VAIN * sum(wanted.values()):
                return
            in_vain += 1
            split = self.splits.of(walk)
            parts = [p for p in left if p == split or (split == "train" and p in TRAIN_PARTS)]
            if parts and (split != "test_entity" or walk.path_key in trained):
                part = max(parts, key=lambda p: left[p] / wanted[p])
                in_vain = 0
                if split == "train":
                    trained.add(walk.path_key)
                for worded in (walk, walk.turned()) if split == "train" and len(walk.branches) > 1 else (walk,):
                    left[part] -= 1
                    yield part, worded
                if left[part] <= 0:
                    del left[part]

    def items(self, walks: Iterable[Walk]) -> Iterator[Item]:
        """Questions, none with the text of another."""
        made = make_items(walks, self.walker, self.store, self.teacher, dataset=self.dataset, dropped=self.dropped)
        for item in made:
            if item.question.text in self._texts:
                self.dropped["question text repeated"] += 1
                continue
            self._texts.add(item.question.text)
            yield item

    def cut(self, part: str, made: Iterable[tuple[Item, Trajectory]]) -> list[tuple[Item, Trajectory]]:
        """The first of each structure, as many as asked for, in mixed order."""
        by_structure: dict[str, list[tuple[Item, Trajectory]]] = {structure: [] for structure in self.structures}
        for item, trajectory in made:
            of = by_structure[item.walk.structure]
            if len(of) < self.sizes.share(part, self.structures, item.walk.structure):
                of.append((item, trajectory))
        short = getattr(self.sizes, part) - sum(map(len, by_structure.values()))
        if short:
            self.short[part] = short
        pairs = [pair for of in by_structure.values() for pair in of]
        return sorted(pairs, key=lambda pair: hashlib.sha256(pair[0].question.id.encode()).digest())


def _spare(count: int) -> int:
    """More walks than asked for, since some questions are dropped."""
    return count + count // 7 + 6 if count else 0


def synthesise(
    store: KGStore,
    out: str | Path,
    *,
    dataset: str,
    structures: Sequence[str] = DEMO_STRUCTURES,
    sizes: Sizes = Sizes(),  # noqa: B008 (frozen)
    recovery: float = 0.5,
    top_k: int = 20,
    seed: int = 0,
    teacher: Teacher | None = None,
    progress: bool = True,
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write all files of one KG into the folder `out` and return the statistics, which are its `stats.json`.

    `recovery` is the share of GraphRoll's trajectories with a mistake in them; `top_k` is how many relations
    get_relations shows, and must be what training and evaluation use. Fewer than `sizes` come out where the
    graph has no more; the statistics say so. Raises `UserError` if it has none at all.
    """
    maker = _Maker(Toolbox(store, top_k=top_k), structures, sizes, seed, teacher or TemplateTeacher(), dataset)
    walks = maker.walks(progress)
    if not walks["graphsynth"]:
        raise UserError("the knowledge graph has no walks of the wanted structures: too small, or without unique names")
    items = {part: list(maker.items(walks[part])) for part in reversed(PARTS)}  # of equal texts, a test keeps its one
    kept: dict[str, list[tuple[Item, Trajectory]]] = {}
    for part in PARTS:
        wanted = _testable(part, items[part], kept)
        bar = tqdm(wanted, desc=part, unit="question", disable=not progress)
        if part == "graphroll":
            made = graphroll(bar, maker.toolbox, maker.teacher, recovery=recovery, seed=seed, dropped=maker.dropped)
        else:  # questions too are kept only if the oracle gets to their answer
            made = graphsynth(bar, maker.toolbox, maker.teacher, dropped=maker.dropped)
        kept[part] = maker.cut(part, made)
    statistics = _statistics(kept, maker, dict(settings or {}))
    out = Path(out)
    with atomic_files(*(out / f"{part}.jsonl" for part in kept), out / "stats.json") as handles:
        for handle, (part, pairs) in zip(handles, kept.items(), strict=False):
            split = "train" if part in TRAIN_PARTS else part
            dump_jsonl(handle, (_record(part, split, trajectory) for _, trajectory in pairs))
        dump_json(handles[-1], statistics)
    return statistics


def _testable(part: str, items: list[Item], kept: Mapping[str, list[tuple[Item, Trajectory]]]) -> list[Item]:
    """Of a test split, the questions that are new in nothing but what the split is about."""
    if part not in ("test_entity", "test_path"):
        return items
    trained = [item.walk for name in TRAIN_PARTS for item, _ in kept[name]]
    paths = {walk.path_key for walk in trained}
    relations = frozenset().union(*(walk.relations for walk in trained))
    return [
        item
        for item in items
        if (item.walk.path_key in paths if part == "test_entity" else item.walk.relations <= relations)
    ]


def _record(part: str, split: str, trajectory: Trajectory) -> Question | Trajectory:
    question = replace(trajectory.question, split=split)
    return replace(trajectory, question=question) if part in ("graphsynth", "graphroll") else question


def _statistics(
    kept: Mapping[str, list[tuple[Item, Trajectory]]], maker: _Maker, settings: dict[str, Any]
) -> dict[str, Any]:
    walks = {part: [item.walk for item, _ in pairs] for part, pairs in kept.items()}
    train = [walk for part in TRAIN_PARTS for walk in walks[part]]
    counts = {
        part: {
            "total": len(of),
            "by_structure": dict(sorted(Counter(walk.structure for walk in of).items())),
            "relation_paths": len({walk.path_key for walk in of}),
            "topics": len({topic for walk in of for topic in walk.topics}),
        }
        for part, of in walks.items()
    }
    kinds = Counter(kind for _, t in kept["graphroll"] for kind in (t.extra["kinds"] or ["clean"]))
    return {
        "schema": 1,
        "settings": settings,
        "counts": {part: counts[part] for part in PARTS},
        "graphroll_kinds": dict(sorted(kinds.items())),
        "leaks": leaks(train, {part: walks[part] for part in ("dev", "test_entity", "test_path")}),
        "held_out_paths": sorted(maker.splits.paths),
        "dropped": dict(maker.dropped.most_common()),
        "fewer_than_asked": maker.short,
    }


def prepare_demo_data(
    out: str | Path,
    *,
    seed: int = 0,
    n_synth: int = 6_000,
    n_roll: int = 2_000,
    n_train: int = 2_000,
    n_dev: int = 200,
    n_test_entity: int = 320,
    n_test_path: int = 120,
    recovery: float = 0.5,
    top_k: int = 20,
    min_population: int = 0,
    progress: bool = True,
) -> dict[str, Any]:
    """The demo KG in `out`/kg and all data on it in `out`; what is there from the same settings is left as it is.

    A `min_population` makes a smaller KG of larger cities. Returns the statistics. About a minute on two cores.
    """
    out = Path(out)
    kg = build_demo_kg(out / "kg", min_population=min_population, progress=progress)
    sizes = Sizes(n_synth, n_roll, n_train, n_dev, n_test_entity, n_test_path)
    settings = {
        "recipe": RECIPE,
        "phrases": hashlib.sha256(built_in_text().encode()).hexdigest()[:16],
        "kg": read_meta(kg)["extra"],
        "seed": seed,
        "sizes": asdict(sizes),
        "recovery": recovery,
        "top_k": top_k,
    }
    try:
        statistics = parse_json((out / "stats.json").read_bytes())
        if statistics["settings"] == settings and all((out / f"{part}.jsonl").is_file() for part in PARTS):
            return statistics
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not there, or not whole: made below
    return synthesise(
        open_kg(kg),
        out,
        dataset="demo",
        sizes=sizes,
        recovery=recovery,
        top_k=top_k,
        seed=seed,
        progress=progress,
        settings=settings,
    )
