"""Whole files only: every write goes to a temporary file and is renamed; every read names the line it fails on."""

import codecs
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, cast

from graphwalker.errors import FileFormatError, UserError

_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def end_on_sigterm() -> None:
    """Let a program that is told to end (by `kill`, a queue, a container) take its temporary files with it."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


@contextmanager
def atomic_write(path: str | os.PathLike, mode: str = "w") -> Iterator[IO]:
    """Open a temporary file beside ``path``; it takes the name of ``path`` only when the block succeeds.

    Raises ``UserError`` when the disk is full or the folder cannot be written; nothing partial stays.
    """
    with atomic_files(path, mode=mode) as (handle,):
        yield handle


@contextmanager
def atomic_files(*paths: str | os.PathLike, mode: str = "w") -> Iterator[list[IO]]:
    """``atomic_write`` for files that belong together: none takes its name before all are whole on the disk."""
    targets = [Path(path) for path in paths]
    temporaries: list[Path] = []
    try:
        with ExitStack() as stack:
            handles = [stack.enter_context(_temporary(path, mode, temporaries)) for path in targets]
            yield handles
            for handle in handles:
                handle.flush()
                os.fsync(handle.fileno())
        for temporary, path in zip(temporaries, targets, strict=True):
            temporary.chmod(0o644)
            temporary.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {', '.join(map(str, targets))}: {error.strerror or error}") from error
    finally:
        for temporary in temporaries:
            temporary.unlink(missing_ok=True)


def _temporary(path: Path, mode: str, made: list[Path]) -> IO:
    """An open file beside ``path``, its own path added to ``made``."""
    if path.is_dir():  # found out now, not when the files before it have taken their names
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    encoding = None if "b" in mode else "utf-8"
    handle = tempfile.NamedTemporaryFile(  # noqa: SIM115 (the caller closes it, before the rename)
        mode, encoding=encoding, dir=path.parent, prefix=f".{path.name}.", delete=False
    )
    made.append(Path(handle.name))
    return cast(IO, handle)


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
        dump_json(handle, value)


def dump_json(handle: IO, value: Any) -> None:
    """Write one JSON value, indented, to an open file."""
    json.dump(value, handle, ensure_ascii=False, indent=2)
    handle.write("\n")


def write_jsonl(path: str | os.PathLike, values: Iterable[Any]) -> int:
    """Write values (plain, or with a ``to_json`` method) one a line, whole; returns how many."""
    with atomic_write(path) as handle:
        return dump_jsonl(handle, values)


def dump_jsonl(handle: IO, values: Iterable[Any]) -> int:
    """Write values one a line, as ``write_jsonl``, to an open file; returns how many."""
    count = 0
    for value in values:
        record = value.to_json() if hasattr(value, "to_json") else value
        handle.write(json.dumps(record, ensure_ascii=False) + "\n")
        count += 1
    return count


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text, which may begin with a byte order mark.

    Raises ``ValueError`` for whatever cannot be read: not JSON, not UTF-8, nested too deeply, a number of thousands of
    digits, half a surrogate pair (which no file could be written with).
    """
    text = text.decode("utf-8-sig") if isinstance(text, bytes) else text
    try:
        value = json.loads(text)
        if _ESCAPED_SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        line = f"line {error.lineno} " if error.lineno > 1 else ""
        raise ValueError(f"{error.msg} ({line}column {error.colno})") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def read_jsonl(path: str | os.PathLike, cls: Any = None) -> Iterator[Any]:
    """Yield each line's value, through ``cls.from_json`` if given.

    Raises ``UserError`` when the file is missing and ``FileFormatError`` (path and line) when a line is broken.
    """
    if not Path(path).is_file():
        raise UserError(f"{path}: no such file")
    with open(path, "rb") as handle:
        for number, line in enumerate(handle, 1):
            if not line.removeprefix(codecs.BOM_UTF8).strip():
                continue
            try:
                record = parse_json(line)
                value = cls.from_json(record) if cls else record
            except (ValueError, UserError) as error:
                raise FileFormatError(path, number, str(error)) from error
            yield value


def first_record(path: str | os.PathLike) -> dict[str, Any]:
    """A JSONL file's first record, by whose keys a reader tells what the file holds.

    Empty where that is no record: whoever reads the file as what it should be says what is wrong with it. Raises
    ``UserError`` when the file is missing.
    """
    try:
        first = next(read_jsonl(path), None)
    except FileFormatError:
        return {}
    return first if isinstance(first, dict) else {}


def file_hash(path: str | os.PathLike) -> str:
    """The SHA-256 of a file's content; raises ``UserError`` when it cannot be read."""
    try:
        with open(path, "rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from error


@contextmanager
def locked(path: str | os.PathLike, busy: str) -> Iterator[int]:
    """Hold a file's lock; where another process holds it, print ``busy`` and wait for its end.

    Yields the descriptor: a child process that inherits it holds the lock too, however its parent ends. A file system
    without locks is written to as if the lock were held. Raises ``UserError`` where the lock's file cannot be made.
    """
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        lock = open(path, "ab")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    with lock as handle:
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(busy, flush=True)
                fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise
        yield handle.fileno()
