"""A store on disk with SPARQL: Oxigraph, embedded. Blank nodes become IRIs, since SPARQL cannot name them."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pyoxigraph as ox

from graphwalker.errors import KGUnavailable, UserError
from graphwalker.kg.guard import QueryLimits, Rows
from graphwalker.kg.kinds import read_kinds, write_kinds
from graphwalker.kg.meta import read_meta
from graphwalker.kg.schema import Schema
from graphwalker.kg.sparql_store import Row, SparqlStore
from graphwalker.kg.sparql_text import to_term
from graphwalker.kg.spellings import SPELLINGS, Spellings, write_spellings
from graphwalker.kg.steps import all_walks, reverses
from graphwalker.kg.table import Names, TripleTable, find_mediators, find_names
from graphwalker.kg.terms import literal, literal_value
from graphwalker.kg.worker import execute
from graphwalker.types import Triple

DATABASE = "oxigraph"


def write_oxigraph(table: TripleTable, folder: Path, *, progress: bool = False) -> dict[str, int]:
    """Load a table into a new database in `folder`; returns the counts that `meta.json` shows."""
    from tqdm import tqdm

    names = find_names(table)
    mediators = find_mediators(table, names)
    steps = all_walks(table, mediators, np.arange(len(table.terms))).steps
    relations = sorted({step.relation for step in steps})
    write_kinds(folder, relations, reverses(table))
    labels = {place for _, place in names.all}
    write_spellings(
        folder / SPELLINGS, (literal_value(table.terms[place]) for place in labels), _id_names(table, names, mediators)
    )
    terms = [_checked_term(term, table.schema) for term in table.terms]
    predicates = [_checked_term(term, table.schema) for term in table.predicates]
    store = ox.Store(folder / DATABASE)
    rows = tqdm(table.rows.tolist(), desc="loading", unit=" triples", unit_scale=True, disable=not progress)
    store.bulk_extend(
        ox.Quad(cast(ox.NamedNode, terms[s]), cast(ox.NamedNode, predicates[p]), terms[o]) for s, p, o in rows
    )
    store.flush()
    store.optimize()
    del store  # closes it, before the folder gets its name
    entities = sum(text[0] != '"' for text in table.terms)
    return {
        "triples": len(table.rows),
        "entities": entities,
        "literals": len(table.terms) - entities,
        "predicates": len(table.predicates),
        "mediators": int(mediators.sum()),
        "relations": len(relations),
    }


def _id_names(table: TripleTable, names: Names, mediators: np.ndarray) -> Iterator[tuple[str, str]]:
    for i, text in enumerate(table.terms):
        if text[0] != '"' and not mediators[i] and i not in names.best and (own := table.schema.id_name(text)):
            yield own, text


def _checked_term(text: str, schema: Schema) -> ox.NamedNode | ox.Literal:
    term = to_term(text, schema)
    if term is None:
        raise UserError(f"Oxigraph cannot hold {text!r}: not a valid IRI or literal")
    return term


class OxigraphStore(SparqlStore):
    """A `KGStore` that answers by SPARQL from a database on disk. Any number of processes may open it."""

    def __init__(self, folder: str | Path):
        """Open `folder` for reading. Raises `UserError` when it is missing, half-built or damaged."""
        self.path = Path(folder)
        self.meta = read_meta(self.path, "oxigraph")
        try:
            self._store = ox.Store.read_only(str(self.path / DATABASE))
        except OSError as error:
            raise UserError(f"{self.path} is damaged ({error}): build it again") from error
        schema = Schema.from_json(self.meta["profile"], str(self.path))
        super().__init__(schema, *read_kinds(self.path), Spellings(self.path / SPELLINGS))

    @classmethod
    def open(cls, folder: str | Path) -> "OxigraphStore":
        return cls(folder)

    def __reduce__(self):
        return type(self), (self.path,)

    def __len__(self) -> int:
        return self.meta["counts"]["triples"]

    def rows(self, sparql: str) -> list[Row]:
        solutions = cast(ox.QuerySolutions, self._run(sparql))
        keys = [variable.value for variable in solutions.variables]
        try:
            return [{key: self._id(row[key]) for key in keys if row[key] is not None} for row in solutions]
        except (OSError, RuntimeError) as error:
            raise KGUnavailable(f"{self.path}: {error}") from error

    def _run(self, sparql: str) -> ox.QuerySolutions | ox.QueryBoolean | ox.QueryTriples:
        try:
            return self._store.query(sparql)
        except SyntaxError as error:
            raise UserError(f"SPARQL: {error}") from error
        except (OSError, RuntimeError) as error:
            raise KGUnavailable(f"{self.path}: {error}") from error

    def _query(self, sparql: str) -> list[Row] | bool:
        result = self._run(sparql)
        if isinstance(result, ox.QueryTriples):
            raise UserError("only SELECT and ASK are supported")
        return bool(result) if isinstance(result, ox.QueryBoolean) else self.rows(sparql)

    def execute(self, sparql: str, limits: QueryLimits | None = None) -> Rows:
        """A query of any origin, guarded and limited (`graphwalker.kg.worker.execute`, with what it raises)."""
        return execute(self.path, sparql, limits)

    def close(self) -> None:
        del self._store

    def _scan(self, head: str | None, relation: str | None, tail: str | None) -> Iterator[Triple]:
        s, p, o = (None if node is None else to_term(node, self.schema) for node in (head, relation, tail))
        quads = self._store.quads_for_pattern(s, p, o, ox.DefaultGraph())  # type: ignore[arg-type]
        return (Triple(self._id(q.subject), self._id(q.predicate), self._id(q.object)) for q in quads)

    def _id(self, term: object) -> str:
        if isinstance(term, ox.NamedNode):
            return self._short(term.value)
        if isinstance(term, ox.Literal):
            return literal(term.value, term.language or "", "" if term.language else term.datatype.value)
        return str(term)
