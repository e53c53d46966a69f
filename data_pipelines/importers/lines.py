"""Text files read line by line, so that whatever is wrong is reported with its line."""

from collections.abc import Iterator
from pathlib import Path

from graphwalker.errors import FileFormatError, UserError


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield ``(number, text)`` from 1 on, without the line end; empty lines are left out.

    Lines end at a newline only: names may hold other characters that ``str.splitlines`` would cut at.
    Raises ``UserError`` when the file is missing and ``FileFormatError`` when a line is not UTF-8.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    with open(path, "rb") as handle:
        for number, raw in enumerate(handle, 1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise FileFormatError(path, number, f"not UTF-8 ({error.reason} at byte {error.start})") from error
            if text.strip():
                yield number, text


def read_columns(path: Path, columns: int, separator: str | None, what: str) -> Iterator[tuple[int, list[str]]]:
    """Yield ``(number, fields)``; ``separator`` ``None`` splits at any white space.

    Raises ``FileFormatError`` when a line has not exactly ``columns`` non-empty fields.
    """
    for number, text in read_lines(path):
        fields = [part.strip() for part in text.split(separator)]
        if len(fields) != columns or not all(fields):
            raise FileFormatError(path, number, f"expected {what}, got {text[:200]!r}")
        yield number, fields


def read_integer_columns(path: Path, what: str, *, counted: bool) -> Iterator[tuple[int, tuple[int, int, int]]]:
    """Yield ``(number, three integers)``; with ``counted`` the first line holds the number of rows and is checked."""
    rows, expected = 0, None
    for number, text in read_lines(path):
        try:
            values = [int(part) for part in text.split()]
        except ValueError:
            values = []
        if counted and expected is None:
            if len(values) != 1:
                raise FileFormatError(path, number, f"expected the number of rows, got {text[:200]!r}")
            expected = values[0]
            continue
        if len(values) != 3:
            raise FileFormatError(path, number, f"expected {what}, got {text[:200]!r}")
        rows += 1
        yield number, (values[0], values[1], values[2])
    if expected is not None and rows != expected:
        raise UserError(f"{path}: its first line announces {expected:,} rows, it has {rows:,} (cut short?)")
