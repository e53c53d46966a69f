"""Whole files only: every write goes to a temporary file and is renamed; every read names the line it fails on."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from graphwalker.errors import FileFormatError, UserError


@contextmanager
def atomic_write(path: str | os.PathLike, mode: str = "w") -> Iterator[IO]:
    """Open a temporary file beside ``path``; it takes the name of ``path`` only when the block succeeds.

    Raises ``UserError`` when the disk is full or the folder cannot be written; nothing partial stays.
    """
    path = Path(path)
    encoding = None if "b" in mode else "utf-8"
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = tempfile.NamedTemporaryFile(  # noqa: SIM115 (closed below, before the rename)
            mode, encoding=encoding, dir=path.parent, prefix=f".{path.name}.", delete=False
        )
        temporary = Path(handle.name)
        with handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: str | os.PathLike) -> Iterator[Path]:
    """A temporary folder beside ``path`` that replaces it only when the block succeeds."""
    path = Path(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        yield temporary
        temporary.chmod(0o755)
        if path.exists():
            shutil.rmtree(path)
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary is not None and temporary.exists():
            shutil.rmtree(temporary, ignore_errors=True)


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Write one JSON value, indented, whole."""
    with atomic_write(path) as handle:
        json.dump(value, handle, ensure_ascii=False, indent=2)
        handle.write("\n")


def write_jsonl(path: str | os.PathLike, values: Iterable[Any]) -> int:
    """Write values (plain, or with a ``to_json`` method) one a line, whole; returns how many."""
    count = 0
    with atomic_write(path) as handle:
        for value in values:
            record = value.to_json() if hasattr(value, "to_json") else value
            handle.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += 1
    return count


def read_jsonl(path: str | os.PathLike, cls: Any = None) -> Iterator[Any]:
    """Yield each line's value, through ``cls.from_json`` if given.

    Raises ``UserError`` when the file is missing and ``FileFormatError`` (path and line) when a line is broken.
    """
    if not Path(path).is_file():
        raise UserError(f"{path}: no such file")
    with open(path, encoding="utf-8") as handle:
        for number, line in enumerate(handle, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                yield cls.from_json(record) if cls else record
            except (json.JSONDecodeError, UserError) as error:
                raise FileFormatError(path, number, str(error)) from error
