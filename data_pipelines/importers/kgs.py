"""Published knowledge bases built as KG folders."""

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from data_pipelines.importers.freebase_slice import read_slice
from data_pipelines.importers.freebase_slice import triples as slice_triples
from data_pipelines.importers.metaqa_kb import entity_id, read_kb
from graphwalker.errors import UserError
from graphwalker.kg.build import build_from_triples
from graphwalker.kg.schema import Schema, load_schema
from graphwalker.kg.terms import literal

FORMATS = ("metaqa", "freebase-slice")


def build(form: str, source: str | Path, out: str | Path, *, store: str = "memory", progress: bool = True) -> list[str]:
    """Build the KG folder ``out`` from ``source`` in the format ``form``; returns what was built, as lines to print.

    Raises ``UserError`` for an unknown format or a missing file, ``FileFormatError`` (with its line) for a broken one.
    """
    if form == "metaqa":
        return build_metaqa(source, out, store=store, progress=progress)
    if form == "freebase-slice":
        return build_slice(source, out, store=store, progress=progress)
    raise UserError(f"unknown KG format {form!r}: one of {', '.join(FORMATS)}")


def metaqa_schema() -> Schema:
    """The profile of MetaQA's KB."""
    with resources.as_file(resources.files("data_pipelines.importers") / "metaqa.yaml") as path:
        return load_schema(path)


def build_metaqa(source: str | Path, out: str | Path, *, store: str = "memory", progress: bool = True) -> list[str]:
    """MetaQA's KB: each fact once, in its forward direction."""
    read = list(read_kb(source))
    facts = list(dict.fromkeys(read))
    names = sorted({name for head, _, tail in facts for name in (head, tail)})
    build_from_triples(
        _metaqa_triples(facts, names), out, metaqa_schema(), store=store, source="MetaQA", progress=progress
    )
    lines = [
        f"{out}: {len(facts):,} facts over {len({r for _, r, _ in facts})} relations, {len(names):,} named entities"
    ]
    if len(read) > len(facts):
        lines.append(
            f"  {len(read) - len(facts):,} lines repeat a fact, many in its reverse direction, and were left out"
        )
    return lines


def _metaqa_triples(facts: list[tuple[str, str, str]], names: list[str]) -> Iterator[tuple[str, str, str]]:
    for head, relation, tail in facts:
        yield entity_id(head), relation, entity_id(tail)
    for name in names:
        yield entity_id(name), "rdfs:label", literal(name)


def build_slice(source: str | Path, out: str | Path, *, store: str = "memory", progress: bool = True) -> list[str]:
    """FB15k-237 as a slice of Freebase."""
    part = read_slice(source)
    build_from_triples(slice_triples(part), out, "freebase", store=store, source="FB15k-237", progress=progress)
    return [
        f"{out}: {len(part.facts):,} facts over {part.relations} relations",
        f"  and {len(part.types):,} types, {len(part.names):,} names, {len(part.reverses)} declared reverse properties",
    ]
