"""Reading RDF: N-Triples and Turtle, plain or gzip, one file or a folder of them."""

import gzip
import io
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import pyoxigraph as ox

from graphwalker.errors import FileFormatError, UserError

BlankNodes = dict[tuple[Path, str], str]  # file and label -> the number it got
FORMATS = {".nt": ox.RdfFormat.N_TRIPLES, ".ttl": ox.RdfFormat.TURTLE}


def read_rdf(path: str | Path, on_bytes: Callable[[int], object] | None = None) -> Iterator[tuple[str, str, str]]:
    """Yield the triples in N-Triples syntax (`<http://…>`, `_:b0`, `"Rome"@en`).

    `on_bytes` is told how many bytes of the files, as they are on disk, were read since it was last told.

    Blank nodes are numbered as they come, apart for each file, so that one source always gives the same ids.
    Raises `UserError` when the source is missing or of an unknown format and `FileFormatError` (`file:line`) when a
    file is broken: nothing is skipped.
    """
    blanks: BlankNodes = {}
    for file in rdf_files(path):
        yield from read_file(file, blanks, on_bytes)


def read_file(
    file: Path, blanks: BlankNodes, on_bytes: Callable[[int], object] | None = None
) -> Iterator[tuple[str, str, str]]:
    """Yield the triples of one file as `read_rdf` does; `blanks` keeps the numbers of blank nodes."""
    for quad in parse(file, on_bytes):
        yield to_text(quad.subject, file, blanks), str(quad.predicate), to_text(quad.object, file, blanks)


def to_text(term: Any, file: Path, blanks: BlankNodes) -> str:
    """A term of a file in N-Triples syntax. Raises `UserError` for a triple in its place (RDF-star)."""
    if isinstance(term, ox.Triple):
        raise UserError(f"{file}: {term} stands inside a triple (RDF-star), which no graph here holds")
    if isinstance(term, ox.BlankNode):
        return blanks.setdefault((file, term.value), f"_:b{len(blanks)}")
    return str(term)


def rdf_files(path: str | Path) -> list[Path]:
    """The files to read, in order. A folder may hold RDF files and hidden files only."""
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
        if not files:
            raise UserError(f"{path}: no files in this folder")
    elif path.is_file():
        files = [path]
    else:
        raise UserError(f"{path}: no such file")
    for file in files:
        if format_of(file) is None:
            raise UserError(f"{file}: not known as RDF: expected a name that ends in .nt, .ttl, .nt.gz or .ttl.gz")
    return files


def format_of(file: Path) -> ox.RdfFormat | None:
    return FORMATS.get(Path(file.name.removesuffix(".gz")).suffix)


class _Counted(io.FileIO):
    """A file that tells how much of it is read."""

    def __init__(self, file: Path, on_bytes: Callable[[int], object] | None):
        super().__init__(file, "rb")
        self._on_bytes = on_bytes or (lambda _: None)

    def readinto(self, buffer) -> int:
        count = super().readinto(buffer)
        self._on_bytes(count)
        return count


def is_ntriples(file: Path) -> bool:
    return format_of(file) == ox.RdfFormat.N_TRIPLES


def _after_bom(handle: Any) -> IO[bytes]:
    """The same file, past the mark that some editors write at its start."""
    if handle.peek(len(BOM_UTF8)).startswith(BOM_UTF8):
        handle.read(len(BOM_UTF8))
    return handle


@contextmanager
def open_rdf(file: Path, on_bytes: Callable[[int], object] | None = None) -> Iterator[IO[bytes]]:
    """A file to read, unpacked. Raises `UserError` where it cannot be read, also later."""
    try:
        with io.BufferedReader(_Counted(file, on_bytes), 1 << 18) as raw:
            if file.name.endswith(".gz"):
                with gzip.open(raw, "rb") as handle:
                    yield _after_bom(cast(IO[bytes], handle))
            else:
                yield _after_bom(raw)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{file}: broken gzip file: {error}") from error
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror or error}") from error


def parse(file: Path, on_bytes: Callable[[int], object] | None = None) -> Iterator[ox.Quad]:
    """The triples of one file. Raises as `read_rdf` does."""
    try:
        with open_rdf(file, on_bytes) as handle:
            yield from ox.parse(handle, format=format_of(file))
    except SyntaxError as error:
        raise FileFormatError(file, error.lineno or 1, error.args[0] if error.args else str(error)) from error
