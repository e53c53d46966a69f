"""Building a knowledge graph: triples in, a folder of memory-mapped arrays (or an Oxigraph store) out, whole or not.

Memory grows with the number of distinct terms and triples; the finished folder is opened without that.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tqdm import tqdm

from graphwalker.errors import UserError
from graphwalker.files import atomic_folder
from graphwalker.kg.layout import write_layout
from graphwalker.kg.meta import LAYOUT, META, META_SCHEMA
from graphwalker.kg.schema import Schema, load_schema
from graphwalker.kg.table import collect

STORES = ("memory", "oxigraph")


def build_from_triples(
    triples: Iterable[tuple[str, str, str]],
    out: str | Path,
    schema: Schema | str | Path = "freebase",
    *,
    store: str = "memory",
    source: str = "",
    extra: dict[str, Any] | None = None,
    progress: bool = False,
) -> Path:
    """Build the KG folder `out` from `(subject, predicate, object)` terms and return its path.

    A term is a short id (`m.0abc`), an IRI (`<http://…>`), a blank node (`_:b0`) or, as object, a literal in N-Triples
    syntax (`graphwalker.kg.terms.literal` makes one). `extra` is kept in `meta.json`, for instance to tell later
    whether the folder was built from the same settings. The folder appears whole or not at all; an older KG there is
    replaced. Raises `UserError` for a malformed term (naming its triple), an empty input, or a full disk.
    """
    out = Path(out)
    _check_replaceable(out)
    if store not in STORES:
        raise UserError(f"unknown store {store!r}: one of {', '.join(STORES)}")
    profile = load_schema(schema)
    bar = tqdm(triples, desc="reading", unit=" triples", unit_scale=True, disable=not progress, mininterval=0.5)
    table = collect(bar, profile)
    if not len(table.rows):
        raise UserError(f"no triples in {source or 'the input'}: nothing to build")
    with atomic_folder(out) as folder:
        if store == "memory":
            counts = write_layout(table, folder, progress=progress)
        else:
            from graphwalker.kg.oxigraph import write_oxigraph

            counts = write_oxigraph(table, folder, progress=progress)
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


def build_kg(
    source: str | Path,
    out: str | Path,
    schema: Schema | str | Path = "rdf",
    *,
    store: str = "memory",
    progress: bool = True,
) -> Path:
    """Build the KG folder `out` from an RDF file or a folder of them (N-Triples, Turtle, plain or gzip).

    Raises `UserError` where the source is missing and `FileFormatError` (file and line) where it is broken.
    """
    from graphwalker.kg.rdf import read_rdf

    profile = load_schema(schema)
    return build_from_triples(read_rdf(source), out, profile, store=store, source=Path(source).name, progress=progress)


def _check_replaceable(out: Path) -> None:
    """Refuse to replace what is not a KG: a build must never delete a user's folder."""
    if out.is_dir() and any(out.iterdir()) and not (out / META).is_file():
        raise UserError(f"{out} exists and is not a knowledge graph: choose another folder or remove it")
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} exists and is not a folder")
