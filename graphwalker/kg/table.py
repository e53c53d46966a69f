"""Triples as a table of integers over two string tables: what every store is built from."""

import math
from array import array
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from graphwalker.errors import UserError
from graphwalker.kg.schema import Schema
from graphwalker.kg.terms import check_id, literal, parse_literal


class TripleTable(NamedTuple):
    """Distinct triples over two string tables."""

    schema: Schema  # with the namespaces that the short ids stand for
    terms: list[str]  # subjects and objects, short
    predicates: list[str]  # short
    rows: np.ndarray  # (n, 3) int64: term, predicate, term


def collect(triples: Iterable[tuple[str, str, str]], schema: Schema) -> TripleTable:
    """Number the distinct terms as they come, then shorten each once and drop repeated triples."""
    nodes: dict[str, int] = {}
    predicates: dict[str, int] = {}
    flat = array("i")
    add = flat.append
    for number, (s, p, o) in enumerate(triples, 1):
        if (i := nodes.get(s)) is None:
            i = nodes[s] = _checked(nodes, s, number)
        if (k := predicates.get(p)) is None:
            k = predicates[p] = _checked(predicates, p, number)
        if (j := nodes.get(o)) is None:
            j = nodes[o] = _checked(nodes, o, number, literal_ok=True)
        if s[0] == '"':  # an earlier object
            raise UserError(f"triple {number}: a literal cannot be a subject: {s!r}")
        add(i), add(k), add(j)
    schema = schema.with_short_namespace(p[1:-1] for p in predicates if p[0] == "<")
    rows = np.frombuffer(flat, dtype=np.int32).reshape(-1, 3).astype(np.int64) if len(flat) else np.empty((0, 3), int)
    short_terms, term_map = _shorten(nodes, schema)
    short_predicates, predicate_map = _shorten(predicates, schema)
    rows = np.column_stack([term_map[rows[:, 0]], predicate_map[rows[:, 1]], term_map[rows[:, 2]]])
    return TripleTable(schema, short_terms, short_predicates, distinct_rows(rows))


def _checked(table: dict[str, int], term: str, number: int, literal_ok: bool = False) -> int:
    """The number for a new term, once it is known to be well-formed."""
    try:
        if term.startswith('"'):
            if not literal_ok:
                raise ValueError(f"a literal can only be an object: {term!r}")
            parse_literal(term)
        else:
            check_id(term[1:-1] if term.startswith("<") and term.endswith(">") else term)
        term.encode("utf-8")
    except (ValueError, AttributeError) as error:
        raise UserError(f"triple {number}: {error}") from error
    return len(table)


def _shorten(table: dict[str, int], schema: Schema) -> tuple[list[str], np.ndarray]:
    """Distinct short spellings of the terms, and for each term the place of its own."""
    places: dict[str, int] = {}
    mapping = np.fromiter(
        (places.setdefault(_short(term, schema), len(places)) for term in table), dtype=np.int64, count=len(table)
    )
    return list(places), mapping


def _short(term: str, schema: Schema) -> str:
    if term[0] == '"':
        return literal(*parse_literal(term))
    if term[0] == "<":
        return schema.compact(term[1:-1])
    return term if term.startswith("_:") or ":" not in term else schema.compact(schema.expand(term))


def distinct_rows(rows: np.ndarray) -> np.ndarray:
    """The rows of a matrix of integers >= 0, sorted, each once."""
    sizes = [int(size) + 1 for size in rows.max(axis=0, initial=0)]
    if math.prod(sizes) < 2**63:  # rows fit into one integer each, which sorts several times faster
        keys = np.sort(np.ravel_multi_index(tuple(rows.T), sizes))
        return np.column_stack(np.unravel_index(keys[first_of_runs(keys)], sizes))
    rows = rows[np.lexsort(rows.T[::-1])]
    return rows[first_of_runs(rows)]


def first_of_runs(rows: np.ndarray) -> np.ndarray:
    """(n,) bool: True where a row, or a number, differs from the one before it."""
    first = np.ones(len(rows), bool)
    changed = rows[1:] != rows[:-1]
    first[1:] = changed if rows.ndim == 1 else changed.any(axis=1)
    return first


def pairs(table: TripleTable, predicate: str) -> Iterable[tuple[int, int]]:
    """(subject, object) of one predicate, as places in `terms`."""
    if predicate not in table.predicates:
        return []
    rows = table.rows[table.rows[:, 1] == table.predicates.index(predicate)]
    return zip(rows[:, 0].tolist(), rows[:, 2].tolist(), strict=True)
