"""Records of JSON arrays, JSON Lines and Parquet files: streamed, and checked against a type.

A format says what a record holds as a ``msgspec.Struct``; fields it does not name are passed over. Whatever does not
fit is reported with file, line and field.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import ijson
import msgspec
import numpy as np

from data_pipelines.importers.lines import read_lines
from graphwalker.errors import FileFormatError, UserError
from graphwalker.files import parse_json

PIECE = 1 << 16  # bytes of a line that are parsed at once: some files are one line
DEEPEST = 1000  # lists and objects inside each other in a record; ijson's memory grows with the square
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """A record and where it begins."""

    path: Path
    line: int
    number: int
    """Tells records apart in a file of one line; 0 where each has a line of its own."""
    value: T

    @property
    def where(self) -> str:
        """The place for messages."""
        return f"{self.path}:{self.line}" + (f" (record {self.number})" if self.number else "")

    def error(self, problem: str) -> FileFormatError:
        return FileFormatError(self.path, self.line, f"record {self.number}: {problem}" if self.number else problem)


def read_records(path: Path, kind: type[T], *, key: str = "") -> Iterator[Row[T]]:
    """Yield the records of a file: a JSON array, or the one under ``key``; JSON Lines; or a Parquet file's rows.

    Raises ``UserError`` when the file is missing or holds no record, ``FileFormatError`` (line and field) when one does
    not fit ``kind``.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    number = 0
    for number, (line, value) in enumerate(_values(path, key), 1):
        yield converted(Row(path, line, number, value), kind)
    if not number:
        wanted = f"a list, or an object with a list {key!r}" if key else "a list of records, or one a line"
        raise FileFormatError(path, 1, f"no records: expected {wanted}")


def read_members(path: Path, kind: type[T], *, key: str) -> Iterator[tuple[str, Row[T]]]:
    """Yield the members of the JSON object under ``key`` as name and record. Raises as ``read_records`` does."""
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    for number, (line, (name, value)) in enumerate(_stream(path, ijson.kvitems_coro, key), 1):
        yield name, converted(Row(path, line, number, value), kind)


def converted(row: Row[Any], kind: type[T]) -> Row[T]:
    """The row with its value checked. Raises ``FileFormatError`` naming the field that does not fit."""
    try:
        return Row(row.path, row.line, row.number, msgspec.convert(row.value, kind))
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$")
        place = place.strip("`.")
        raise row.error(f"field {place!r}: {problem}" if place else problem) from error


def _values(path: Path, key: str) -> Iterator[tuple[int, Any]]:
    if path.suffix == ".parquet":
        return _parquet(path)
    first = _first_byte(path)
    if first == b"[":
        return _stream(path, ijson.items_coro, "item")
    if key:
        return _stream(path, ijson.items_coro, f"{key}.item")
    return _json_lines(path)


def _first_byte(path: Path) -> bytes:
    with open(path, "rb") as handle:
        return handle.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]


def _json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    for number, text in read_lines(path):
        try:
            value = parse_json(text)
        except ValueError as error:
            raise FileFormatError(path, number, f"not JSON: {error} (the format that was named is JSON)") from error
        yield number, value


def _parquet(path: Path) -> Iterator[tuple[int, Any]]:
    import pyarrow
    import pyarrow.parquet

    try:
        rows = pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=64)
        yield from enumerate((row for batch in rows for row in batch.to_pylist()), 1)
    except pyarrow.ArrowInvalid as error:
        raise UserError(f"{path}: not a Parquet file: {error}") from error


def _stream(path: Path, parser: Callable[..., Any], prefix: str) -> Iterator[tuple[int, Any]]:
    """The values that a parser of ijson finds, each with the line it begins on.

    The parser tells no places, so it is fed line by line: a value begins where the one before it ended, or on the next
    line that says something, if that line held no more.
    """
    found = ijson.sendable_list()
    feed = parser(found, prefix, use_float=True)
    line, begin, seen, depth = 1, 0, 0, 0
    opening = b"" if prefix == "item" else f'"{prefix.removesuffix(".item")}"'.encode()
    with open(path, "rb") as handle:
        if handle.read(3) != b"\xef\xbb\xbf":
            handle.seek(0)
        try:
            while piece := handle.readline(PIECE):
                bare = piece.strip()
                if not begin and bare.strip(b"[,"):
                    begin = line
                if not seen and opening and opening in bare:
                    begin = 0 if bare.endswith((b"[", b"{")) else line
                depth, deepest = _depths(piece, depth)
                if deepest > DEEPEST:
                    raise FileFormatError(path, line, "not JSON: nested too deeply")
                feed.send(piece)
                for value in found:
                    yield begin or line, value
                seen += len(found)
                if found:
                    begin = 0 if bare.endswith((b"}", b"},", b"]")) else line
                    found.clear()
                    depth = 0
                line += piece.endswith(b"\n")
            feed.close()
        except (ijson.JSONError, UnicodeDecodeError) as error:
            problem = str(error).removeprefix("b'").replace("\\n", "\n").splitlines()[0]
            raise FileFormatError(path, line, f"not JSON: {problem} (the format that was named is JSON)") from error


def _depths(piece: bytes, depth: int) -> tuple[int, int]:
    """How deep a piece of JSON ends and how deep it goes; brackets in strings count too, which few records notice."""
    codes = np.frombuffer(piece, np.uint8) | 32  # [ and { are one code then, and so are ] and }
    levels = depth + np.cumsum((codes == ord("{")).astype(np.int32) - (codes == ord("}")))
    return int(levels[-1]), int(levels.max())
