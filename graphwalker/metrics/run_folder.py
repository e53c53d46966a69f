"""The evaluations in a run's folder: where they are, what stage each belongs to, and scoring them again.

A run is ``RUN/{config.yaml, stages/N-NAME/, eval/STAGE-SPLIT-DECODING/{trajectories.jsonl, metrics.json}}``. A folder
with a ``trajectories.jsonl`` of its own is a run of one evaluation.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphwalker.errors import UserError
from graphwalker.files import atomic_files, dump_json, parse_json, read_jsonl
from graphwalker.metrics.aggregate import METRICS_VERSION, score_run
from graphwalker.types import Trajectory

TRAJECTORIES, METRICS_FILE = "trajectories.jsonl", "metrics.json"
_NUMBERED = re.compile(r"(\d+)-(.+)")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation of one stage's model on one split with one way of decoding."""

    path: Path
    stage: str
    split: str = ""
    decoding: str = ""

    @property
    def name(self) -> str:
        return " · ".join(part for part in (self.stage, self.split, self.decoding) if part)

    def trajectories(self) -> Iterator[Trajectory]:
        return read_jsonl(self.path / TRAJECTORIES, Trajectory)

    def metrics(self) -> dict[str, Any]:
        """The stored metrics; raises ``UserError`` when they are missing, broken or of another version."""
        file = self.path / METRICS_FILE
        advice = "compute it again with: graphwalker rescore RUN"
        try:
            metrics = parse_json(file.read_bytes())
        except FileNotFoundError:
            raise UserError(f"{file}: no such file; {advice}") from None
        except ValueError as error:
            raise UserError(f"{file}: {error}; {advice}") from error
        version = metrics.get("metrics_version") if isinstance(metrics, dict) else None
        if version != METRICS_VERSION:
            raise UserError(f"{file}: metrics_version is {version!r}, not {METRICS_VERSION}; {advice}")
        return metrics


def evaluations(run: Path) -> list[Evaluation]:
    """The finished evaluations of a run, by stage, then split, then decoding; ``UserError`` when there are none."""
    run = Path(run)
    if not run.is_dir():
        raise UserError(f"{run}: no such run folder")
    if (run / TRAJECTORIES).is_file():
        return [Evaluation(run, run.resolve().name)]
    found = [_named(file.parent) for file in sorted(run.glob(f"eval/*/{TRAJECTORIES}"))]
    if not found:
        expected = f"{run / TRAJECTORIES}, or {run / 'eval' / 'STAGE-SPLIT-DECODING' / TRAJECTORIES}"
        raise UserError(f"{run}: no evaluations that are finished; expected {expected}")
    places = {name: number for number, name, _ in stages(run)}
    return sorted(found, key=lambda e: (_place(e.stage, places), e.stage, e.split, e.decoding))


def stages(run: Path) -> list[tuple[int, str, Path]]:
    """Number, name and folder of each trained stage, in order."""
    matches = ((_NUMBERED.fullmatch(folder.name), folder) for folder in Path(run).glob("stages/*") if folder.is_dir())
    return sorted((int(match[1]), match[2], folder) for match, folder in matches if match)


def rescore(run: Path, seed: int | None = None) -> list[Evaluation]:
    """Compute every ``metrics.json`` of a run again from its trajectories, with the seed it had (or ``seed``).

    All trajectories are read before anything is written: a broken line raises ``FileFormatError`` and changes nothing.
    """
    found = evaluations(run)
    scored = [score_run(e.trajectories(), _stored_seed(e) if seed is None else seed) for e in found]
    with atomic_files(*(evaluation.path / METRICS_FILE for evaluation in found)) as handles:
        for handle, metrics in zip(handles, scored, strict=True):
            dump_json(handle, metrics)
    return found


def _named(folder: Path) -> Evaluation:
    parts = folder.name.rsplit("-", 2)
    return Evaluation(folder, *parts) if len(parts) == 3 else Evaluation(folder, folder.name)


def _place(stage: str, places: dict[str, int]) -> int:
    """A stage that was not trained in this run (the model it started from) comes first."""
    match = _NUMBERED.fullmatch(stage)
    return int(match[1]) if match else places.get(stage, -1)


def _stored_seed(evaluation: Evaluation) -> int:
    try:
        seed = parse_json((evaluation.path / METRICS_FILE).read_bytes())["seed"]
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    return seed if isinstance(seed, int) and seed >= 0 else 0
