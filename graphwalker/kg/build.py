"""Building a knowledge graph: triples in, a folder of memory-mapped arrays (or an Oxigraph store) out, whole or not.

The arrays are built within a budget of memory, on disk where it does not suffice; the same triples give the same files
whatever the budget. An Oxigraph store is loaded from memory.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

from graphwalker.errors import UserError
from graphwalker.files import atomic_folder
from graphwalker.kg.dictionary import Reader
from graphwalker.kg.layout import write_layout
from graphwalker.kg.meta import LAYOUT, META, META_SCHEMA
from graphwalker.kg.schema import Schema, load_schema
from graphwalker.kg.table import load_table
from graphwalker.kg.workspace import Workspace

STORES = ("memory", "oxigraph")
_OWN = re.compile(r"\..*|oxigraph|[a-z_]+\.(npy|json|sqlite.*)")  # what builds and indexes write
MEMORY = 2 << 30  # bytes that a build may hold beside the interpreter and its libraries


def build_from_triples(
    triples: Iterable[tuple[str, str, str]],
    out: str | Path,
    schema: Schema | str | Path = "freebase",
    *,
    store: str = "memory",
    source: str = "",
    extra: dict[str, Any] | None = None,
    progress: bool = False,
    memory: int = MEMORY,
) -> Path:
    """Build the KG folder `out` from `(subject, predicate, object)` terms and return its path.

    A term is a short id (`m.0abc`), an IRI (`<http://…>`), a blank node (`_:b0`) or, as object, a literal in N-Triples
    syntax (`graphwalker.kg.terms.literal` makes one). `extra` is kept in `meta.json`, for instance to tell later
    whether the folder was built from the same settings. `memory` is in bytes, see `MEMORY`. The folder appears whole or
    not at all; an older KG there is replaced. Raises `UserError` for a malformed term (naming its triple), an empty
    input, or a full disk.
    """

    def read(reader: Reader) -> None:
        bar = tqdm(triples, desc="reading", unit=" triples", unit_scale=True, disable=not progress, mininterval=0.5)
        reader.extend(_from_source(bar))

    return _build(read, out, schema, store, source, extra, progress, memory)


def build_kg(
    source: str | Path,
    out: str | Path,
    schema: Schema | str | Path = "rdf",
    *,
    store: str = "memory",
    progress: bool = True,
    memory: int = MEMORY,
) -> Path:
    """Build the KG folder `out` from an RDF file or a folder of them (N-Triples, Turtle, plain or gzip).

    `memory` is in bytes, see `MEMORY`; blank nodes take about 200 more each. Raises `UserError` where the source is
    missing and `FileFormatError` (file and line) where it is broken.
    """
    from graphwalker.kg.ntriples import read_ntriples
    from graphwalker.kg.rdf import BlankNodes, is_ntriples, rdf_files, read_file

    files = rdf_files(source)

    def read(reader: Reader) -> None:
        size, blanks = sum(file.stat().st_size for file in files), BlankNodes()
        with tqdm(total=size, desc="reading", unit="B", unit_scale=True, disable=not progress, mininterval=0.5) as bar:
            for file in files:
                if is_ntriples(file):
                    for columns in read_ntriples(file, reader.chunk, blanks, bar.update):
                        reader.add_columns(*columns)
                        bar.set_postfix(triples=f"{reader.count:,}", refresh=False)
                else:
                    reader.extend(read_file(file, blanks, bar.update))

    return _build(read, out, schema, store, Path(source).name, None, progress, memory)


def _build(
    read: Callable[[Reader], None],
    out: str | Path,
    schema: Schema | str | Path,
    store: str,
    source: str,
    extra: dict[str, Any] | None,
    progress: bool,
    memory: int,
) -> Path:
    out = Path(out)
    _check_replaceable(out)
    if store not in STORES:
        raise UserError(f"unknown store {store!r}: one of {', '.join(STORES)}")
    profile = load_schema(schema)
    with _source_errors(), atomic_folder(out) as folder:
        spilled = folder / "spilled"  # goes with the folder whatever happens
        spilled.mkdir()
        work = Workspace(spilled, memory, progress)
        reader = Reader(work)
        read(reader)
        if not reader.count:
            raise UserError(f"no triples in {source or 'the input'}: nothing to build")
        table = reader.finish(profile)
        if store == "memory":
            counts = write_layout(table, folder, work)
        else:
            from graphwalker.kg.oxigraph import write_oxigraph

            counts = write_oxigraph(load_table(table), folder, progress=progress)
        shutil.rmtree(spilled)
        meta = {
            "schema": META_SCHEMA,
            "layout": LAYOUT,
            "store": store,
            "source": source,
            "counts": counts,
            "profile": table.schema.to_json(),
            "extra": extra or {},
        }
        # Last: a folder without it is a build that did not finish.
        (folder / META).write_text(json.dumps(meta, ensure_ascii=False, indent=2) + "\n", "utf-8")
    return out


def parse_memory(text: str) -> int:
    """Bytes from `512M` or `2G`. Raises `UserError` for anything else, and for less than 64M."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *([KMGT])i?B?", text.strip(), re.I)
    if match is None:
        raise UserError(f"{text!r} is not an amount of memory: write for instance 512M or 2G")
    size = int(float(match[1]) * 1024 ** ("KMGT".index(match[2].upper()) + 1))
    if size < 64 << 20:
        raise UserError(f"{text} of memory is too little to build with: give at least 64M")
    return size


class _SourceError(Exception):
    """The source, not the writing, failed."""


def _from_source(triples: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    try:
        yield from triples
    except OSError as error:
        raise _SourceError from error


@contextmanager
def _source_errors() -> Iterator[None]:
    """Raise a failure of the source as it was."""
    try:
        yield
    except _SourceError as error:
        assert error.__cause__ is not None
        raise error.__cause__ from None


def _check_replaceable(out: Path) -> None:
    """Refuse to replace what is not a KG, or holds more than one: a build must never delete a user's files."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} exists and is not a folder")
    if not out.is_dir() or not any(out.iterdir()):
        return
    if not (out / META).is_file():
        raise UserError(f"{out} exists and is not a knowledge graph: choose another folder or remove it")
    if others := sorted(path.name for path in out.iterdir() if not _OWN.fullmatch(path.name)):
        raise UserError(f"{out} also holds {others[0]}, and a build replaces the whole folder: move it elsewhere")
