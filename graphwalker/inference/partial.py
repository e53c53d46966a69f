"""What an interrupted run keeps: its finished episodes, in a file beside the target, and the settings it ran with."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import yaml

from graphwalker.errors import UserError
from graphwalker.files import atomic_write, locked, read_jsonl
from graphwalker.types import Question, Trajectory
from graphwalker.yaml_file import read_yaml

SETTINGS_FILE = "config.yaml"  # where the report looks for a run's settings


class Partial:
    """Finished episodes of a run that is under way, one a line."""

    def __init__(self, out: str | Path):
        self.file = Path(out) / "trajectories.partial.jsonl"

    def append(self, trajectory: Trajectory) -> None:
        """Keep an episode; raises ``UserError`` when it cannot be written."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with open(self.file, "a", encoding="utf-8") as handle:
                handle.write(json.dumps(trajectory.to_json(), ensure_ascii=False) + "\n")
        except OSError as error:
            raise UserError(
                f"cannot write {self.file}: {error.strerror or error}; the episodes in it are kept, and the same "
                "command goes on from there"
            ) from error

    def read(self, order: Mapping[str, int], samples: int = 1) -> list[Trajectory]:
        """The episodes of an interrupted run; a last line that was cut mid-write is dropped."""
        if not self.file.exists():
            return []
        *whole, rest = self.file.read_bytes().split(b"\n")
        if rest:
            with atomic_write(self.file, "wb") as handle:
                handle.writelines(line + b"\n" for line in whole)
        found = {(t.question.id, t.sample): t for t in read_jsonl(self.file, Trajectory)}
        return [t for (question, sample), t in found.items() if question in order and sample < samples]

    def remove(self) -> None:
        self.file.unlink(missing_ok=True)


def order_of(questions: Sequence[Question]) -> dict[str, int]:
    """The place of each question; raises ``UserError`` when there are none, and when two have one id."""
    order = {question.id: i for i, question in enumerate(questions)}
    if not questions or len(order) < len(questions):
        repeated = Counter(question.id for question in questions).most_common(1)
        raise UserError(f"question id {repeated[0][0]!r} occurs twice" if repeated else "no questions to evaluate on")
    return order


def is_finished(out: Path, settings: Mapping[str, Any]) -> bool:
    """Whether this very evaluation is done; raises ``UserError`` when the folder holds another one."""
    if not (out / SETTINGS_FILE).is_file():
        return False
    before = read_yaml(out / SETTINGS_FILE)
    changed = sorted(str(key) for key in {*before, *settings} if before.get(key) != settings.get(key))
    if changed:
        raise UserError(f"{out} holds another evaluation ({', '.join(changed)} changed): choose another --out")
    return (out / "metrics.json").is_file()


def held(out: Path) -> AbstractContextManager[int]:
    """Keep a folder to this process; where another one is writing it, wait for its end. Look then what is finished."""
    return locked(out / ".lock", f"{out} is being written by another process: waiting for its end")


def write_settings(out: Path, settings: Mapping[str, Any]) -> None:
    """Say with what settings a folder is being written."""
    with atomic_write(out / SETTINGS_FILE) as handle:
        yaml.safe_dump(dict(settings), handle, allow_unicode=True)
