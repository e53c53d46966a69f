"""Published knowledge bases built as KG folders."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path

from data_pipelines.importers import kqapro_kb, rog
from data_pipelines.importers.formats import KGS
from data_pipelines.importers.freebase_slice import read_slice
from data_pipelines.importers.freebase_slice import triples as slice_triples
from data_pipelines.importers.lines import read_columns
from data_pipelines.importers.metaqa_kb import entity_id, read_kb
from data_pipelines.importers.pathquestion import spaced
from graphwalker.errors import UserError
from graphwalker.kg.build import build_from_triples
from graphwalker.kg.meta import read_meta
from graphwalker.kg.schema import Schema, load_schema
from graphwalker.kg.terms import literal

Fact = tuple[str, str, str]


def build(
    form: str,
    source: str | Path,
    out: str | Path,
    *,
    store: str = "memory",
    progress: bool = True,
    record: str | None = None,
) -> list[str]:
    """Build the KG folder ``out`` from ``source`` in the format ``form``; returns what was built, as lines to print.

    ``record`` is for ``rog``: only the subgraph of the record with this id.
    Raises ``UserError`` for an unknown format or a missing file, ``FileFormatError`` (with its line) for a broken one.
    """
    if form not in KGS:
        raise UserError(f"unknown KG format {form!r}: one of {', '.join(KGS)}")
    if record is not None and form != "rog":
        raise UserError(f"only rog has records to choose from, not {form}")
    source = Path(source)
    if form == "freebase-slice":
        return _build_slice(source, out, store=store, progress=progress)
    if form == "metaqa":
        return _build_facts(form, read_kb(source), out, store=store, progress=progress)
    if form == "pathquestion":
        return _build_facts(form, _path_question_facts(source), out, store=store, progress=progress)
    triples = kqapro_kb.triples(source) if form == "kqapro" else rog.triples(source, record)
    schema = "kqapro" if form == "kqapro" else named_schema(form)
    build_from_triples(triples, out, schema, store=store, source=source.name, progress=progress)
    counts = read_meta(out)["counts"]
    return [
        f"{out}: {counts['triples']:,} triples over {counts['predicates']} relations, "
        f"{counts['entities'] - counts['mediators']:,} named entities, {counts['mediators']:,} mediators"
    ]


def named_schema(form: str) -> Schema:
    """The profile of a KB whose nodes are known by their names."""
    with resources.as_file(resources.files("data_pipelines.importers") / "names.yaml") as path:
        schema = load_schema(path)
    return replace(schema, name=form, namespaces={**schema.namespaces, "": f"urn:{form}:"})


def _path_question_facts(source: Path) -> Iterator[Fact]:
    for _, (head, relation, tail) in read_columns(source, 3, "\t", "head, relation, tail"):
        yield spaced(head), relation, spaced(tail)


def _build_facts(form: str, read: Iterable[Fact], out: str | Path, *, store: str, progress: bool) -> list[str]:
    """Facts between names, each once, in its forward direction."""
    lines = list(read)
    facts = list(dict.fromkeys(lines))
    names = sorted({name for head, _, tail in facts for name in (head, tail)})
    triples = _named_triples(facts, names)
    build_from_triples(triples, out, named_schema(form), store=store, source=form, progress=progress)
    told = [
        f"{out}: {len(facts):,} facts over {len({r for _, r, _ in facts})} relations, {len(names):,} named entities"
    ]
    if len(lines) > len(facts):
        told.append(
            f"  {len(lines) - len(facts):,} lines repeat a fact (in its reverse direction, too) and were left out"
        )
    return told


def _named_triples(facts: list[Fact], names: list[str]) -> Iterator[Fact]:
    for head, relation, tail in facts:
        yield entity_id(head), relation, entity_id(tail)
    for name in names:
        yield entity_id(name), "rdfs:label", literal(name)


def _build_slice(source: Path, out: str | Path, *, store: str, progress: bool) -> list[str]:
    """FB15k-237 as a slice of Freebase."""
    part = read_slice(source)
    build_from_triples(slice_triples(part), out, "freebase", store=store, source="FB15k-237", progress=progress)
    return [
        f"{out}: {len(part.facts):,} facts over {part.relations} relations",
        f"  and {len(part.types):,} types, {len(part.names):,} names, {len(part.reverses)} declared reverse properties",
    ]
