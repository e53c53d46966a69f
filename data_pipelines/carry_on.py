"""What an interrupted command has made of its questions, in a file beside the target, from which it goes on."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphwalker.errors import UserError
from graphwalker.files import atomic_write, parse_json


class Made:
    """What was made of the first questions of a run, one a line, after a line with the run's settings.

    A file of other settings is begun anew, and a last line that was cut mid-write is dropped. Raises ``UserError`` when
    the file cannot be read or written.
    """

    def __init__(self, file: Path, settings: Mapping[str, Any]):
        self.file = file
        self.records: list[dict[str, Any]] = []
        try:
            whole = file.read_bytes().split(b"\n")[:-1] if file.is_file() else []
            first, *rest = [parse_json(line) for line in whole] or [None]
        except (OSError, ValueError) as error:
            raise UserError(f"{file} cannot be read ({error}): delete it to begin anew") from error
        if first == settings:
            self.records = rest
        with atomic_write(file) as handle:
            handle.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in (settings, *self.records))

    def append(self, record: dict[str, Any]) -> None:
        """Keep what was made of the next question."""
        self.records.append(record)
        try:
            with open(self.file, "a", encoding="utf-8") as handle:
                handle.write(json.dumps(record, ensure_ascii=False) + "\n")
        except OSError as error:
            raise UserError(f"cannot write {self.file}: {error.strerror or error}") from error

    def remove(self) -> None:
        self.file.unlink(missing_ok=True)
