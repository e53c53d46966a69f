"""Triples as a table in memory: what the Oxigraph store is loaded from."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from graphwalker.kg.dictionary import Dictionary
from graphwalker.kg.numbering import name_reader
from graphwalker.kg.schema import Schema
from graphwalker.kg.sorting import distinct_rows


class TripleTable(NamedTuple):
    """Distinct triples over two string tables."""

    schema: Schema  # with the namespaces that the short ids stand for
    terms: list[str]  # subjects and objects, short
    predicates: list[str]  # short
    rows: np.ndarray  # (n, 3) int64: term, predicate, term


class Names(NamedTuple):
    """Who is called what."""

    best: dict[int, int]  # entity -> the literal that names it
    all: list[tuple[int, int]]  # (entity, literal) for every name in the schema's languages


def load_table(table: Dictionary) -> TripleTable:
    """A whole dictionary in memory."""
    terms = [text for batch in table.terms for text in batch.column(0).to_pylist()]
    parts = []
    for block in table.blocks:
        rows, numbers = table.read(block)
        parts.append(np.column_stack([numbers[rows[:, 0]], rows[:, 1], numbers[rows[:, 2]]]))
    table.close()
    return TripleTable(table.schema, terms, table.predicates, distinct_rows(np.concatenate(parts)).astype(np.int64))


def find_names(table: TripleTable) -> Names:
    """Names by the schema's predicates and languages; the best is the first by predicate, language and text."""
    read = name_reader(table.schema)
    best: dict[int, tuple[tuple[int, str], int]] = {}
    every: list[tuple[int, int]] = []
    for level, predicate in enumerate(table.schema.name_predicates):
        for s, o in pairs(table, predicate):
            if (name := read(level, table.terms[o])) is not None:
                every.append((s, o))
                best[s] = min((name, o), best.get(s, (name, o)))
    return Names({entity: o for entity, (_, o) in best.items()}, every)


def find_mediators(table: TripleTable, names: Names) -> np.ndarray:
    """(n,) bool: entities that the schema takes for mediators."""
    can = table.schema.can_mediate
    return np.fromiter(
        (text[0] != '"' and i not in names.best and can(text) for i, text in enumerate(table.terms)),
        bool,
        len(table.terms),
    )


def pairs(table: TripleTable, predicate: str) -> Iterable[tuple[int, int]]:
    """(subject, object) of one predicate, as places in `terms`."""
    if predicate not in table.predicates:
        return []
    rows = table.rows[table.rows[:, 1] == table.predicates.index(predicate)]
    return zip(rows[:, 0].tolist(), rows[:, 2].tolist(), strict=True)
