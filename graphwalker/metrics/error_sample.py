"""A sample of errors for a person to label, and the counts of the labels (MCTS-KBQA, section 4.11, Table 8)."""

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphwalker.errors import FileFormatError, UserError
from graphwalker.files import atomic_write, read_jsonl, write_jsonl
from graphwalker.metrics.kbqa import counts_for_scores, max_f1
from graphwalker.rewards import em_set, f1
from graphwalker.types import Trajectory

LABELS: Mapping[str, str] = {
    "golden_wrong": "Mismatch",
    "ambiguous": "Mismatch",
    "entity_linking": "Error",
    "predicate_search": "Error",
    "reasoning": "Error",
    "other": "Error",
}
"""Table 8's categories, each with the group that it is part of."""


def error_sample(trajectories: Iterable[Trajectory], count: int = 100, seed: int = 0) -> list[dict[str, Any]]:
    """``count`` questions (or all there are) whose answers are not exactly gold, as records with an empty ``label``.

    Which ones depends on the seed and the questions' ids alone; their order is that of the trajectories.
    """
    errors = [t for t in trajectories if counts_for_scores(t) and em_set(t.answer or (), t.question.answers) < 1.0]
    drawn = sorted(errors, key=lambda t: hashlib.sha256(f"{seed}\0{t.question.id}\0{t.sample}".encode()).digest())
    chosen = {id(trajectory) for trajectory in drawn[:count]}
    return [_record(trajectory) for trajectory in errors if id(trajectory) in chosen]


def write_errors(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Write the records as CSV or JSON Lines, as the file's name ends; raises ``UserError`` for another ending."""
    if _is_csv(path):
        with atomic_write(path) as handle:
            writer = csv.DictWriter(handle, list(records[0]) if records else ["label"], lineterminator="\n")
            writer.writeheader()
            writer.writerows({k: _cell(v) for k, v in record.items()} for record in records)
    else:
        write_jsonl(path, records)


def count_labels(path: Path) -> dict[str, Any]:
    """How many records of a labelled file have each label, and how many none; shares are of the labelled ones.

    Raises ``FileFormatError`` (file and line) for a label that is none of `LABELS`.
    """
    counts: Counter[str] = Counter()
    for line, record in _read(path):
        label = record.get("label")
        label = "_".join(label.casefold().replace("-", " ").split()) if isinstance(label, str) else label
        if label and label not in LABELS:
            raise FileFormatError(path, line, f"label: expected one of {', '.join(LABELS)}, got {record['label']!r}")
        counts[label or ""] += 1
    labelled = sum(counts[label] for label in LABELS)
    return {
        "labelled": labelled,
        "unlabelled": counts[""],
        "labels": {
            label: {
                "group": group,
                "count": counts[label],
                "percent": round(100 * counts[label] / labelled, 2) if labelled else None,
            }
            for label, group in LABELS.items()
        },
    }


def _record(trajectory: Trajectory) -> dict[str, Any]:
    question = trajectory.question
    best = max_f1(trajectory)
    return {
        "id": question.id,
        "label": "",
        "type": question.structure,
        "question": question.text,
        "gold": [entity.name for entity in question.answers],
        "predicted": list(trajectory.answer or ()),
        "f1": round(f1(trajectory.answer or (), question.answers), 4),
        "max_f1@5": None if best != best else round(best, 4),
        "ending": trajectory.ending,
        "gold_sparql": question.sparql or "",
        "predicted_sparql": trajectory.extra.get("sparql") or "",
        "steps": [f"{turn.text}\n{turn.observation}".strip() for turn in trajectory.turns],
    }


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value


def _is_csv(path: Path) -> bool:
    if path.suffix not in (".csv", ".jsonl"):
        raise UserError(f"{path}: name a .csv or a .jsonl file")
    return path.suffix == ".csv"


def _read(path: Path) -> Iterable[tuple[int, dict[str, Any]]]:
    if not _is_csv(path):
        for number, record in enumerate(read_jsonl(path), 1):
            if not isinstance(record, dict):
                raise FileFormatError(path, number, "expected an object")
            yield number, record
        return
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    with open(path, encoding="utf-8-sig", newline="") as handle:
        reader = csv.DictReader(handle)
        try:
            if "label" not in (reader.fieldnames or ()):
                raise FileFormatError(path, 1, "there is no column named label")
            for row in reader:
                yield reader.line_num, row
        except (UnicodeDecodeError, csv.Error) as error:
            raise FileFormatError(path, reader.line_num + 1, f"no CSV in UTF-8: {error}") from error
