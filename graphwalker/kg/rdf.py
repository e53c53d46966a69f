"""Reading RDF: N-Triples and Turtle, plain or gzip, one file or a folder of them."""

import gzip
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, cast

import pyoxigraph as ox

from graphwalker.errors import FileFormatError, UserError

FORMATS = {".nt": ox.RdfFormat.N_TRIPLES, ".ttl": ox.RdfFormat.TURTLE}


def read_rdf(path: str | Path) -> Iterator[tuple[str, str, str]]:
    """Yield the triples in N-Triples syntax (`<http://…>`, `_:b0`, `"Rome"@en`).

    Blank nodes are numbered as they come, apart for each file, so that one source always gives the same ids.
    Raises `UserError` when the source is missing or of an unknown format and `FileFormatError` (`file:line`) when a
    file is broken: nothing is skipped.
    """
    blanks: dict[tuple[Path, str], str] = {}
    for file in rdf_files(path):
        for quad in _parse(file):
            s, o = quad.subject, quad.object
            yield (
                blanks.setdefault((file, s.value), f"_:b{len(blanks)}") if isinstance(s, ox.BlankNode) else str(s),
                str(quad.predicate),
                blanks.setdefault((file, o.value), f"_:b{len(blanks)}") if isinstance(o, ox.BlankNode) else str(o),
            )


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
        if _format(file) is None:
            raise UserError(f"{file}: not known as RDF: expected a name that ends in .nt, .ttl, .nt.gz or .ttl.gz")
    return files


def _format(file: Path) -> ox.RdfFormat | None:
    return FORMATS.get(Path(file.name.removesuffix(".gz")).suffix)


def _parse(file: Path) -> Iterator[ox.Quad]:
    line = 0
    try:
        opened = gzip.open(file, "rb") if file.name.endswith(".gz") else open(file, "rb")  # noqa: SIM115
        with closing(opened) as handle:
            if handle.read(len(BOM_UTF8)) != BOM_UTF8:
                handle.seek(0)
            for number, quad in enumerate(ox.parse(cast(IO[bytes], handle), format=_format(file)), 1):
                if isinstance(quad.object, ox.Triple):
                    raise UserError(f"{file}: triple {number} is about a triple (RDF-star), which no graph here holds")
                yield quad
    except SyntaxError as error:
        line, message = error.lineno or 1, error.args[0] if error.args else str(error)
        raise FileFormatError(file, line, message) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{file}: broken gzip file: {error}") from error
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror or error}") from error
