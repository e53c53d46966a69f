"""A store on disk with SPARQL: Oxigraph, embedded.

The graph itself is the default graph. What the schema makes of it (an entity's name, what is a mediator, the names to
find entities by) is computed at build and kept in one named graph beside it, so that a call needs one or two queries.
Blank nodes become IRIs, since SPARQL cannot name them.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pyoxigraph as ox

from graphwalker.errors import KGUnavailable, UserError
from graphwalker.kg.guard import QueryLimits
from graphwalker.kg.layout import find_mediators, find_names, fold
from graphwalker.kg.meta import read_meta
from graphwalker.kg.schema import Schema
from graphwalker.kg.steps import all_walks, reversed_parts, reverses
from graphwalker.kg.store import Expansion, Step
from graphwalker.kg.table import TripleTable
from graphwalker.kg.terms import literal, literal_lang, literal_value, parse_literal
from graphwalker.kg.worker import Rows, execute
from graphwalker.types import Triple

_OWN = "urn:graphwalker-index:"
_GRAPH, _NAME, _CALLED, _FOLDED, _MEDIATOR = (f"<{_OWN}{x}>" for x in ("graph", "name", "called", "folded", "mediator"))
_BLANK = "urn:graphwalker-blank:"
_DATABASE, _KINDS = "oxigraph", "kinds.json"
_NOT_MEDIATOR = f"FILTER NOT EXISTS {{ GRAPH {_GRAPH} {{ ?x {_MEDIATOR} true }} }}"
# A filter, not a join: Oxigraph would begin a join at the mediators, of which a graph can have millions.
_IS_MEDIATOR = f"FILTER EXISTS {{ GRAPH {_GRAPH} {{ ?c {_MEDIATOR} true }} }}"
# The four ways to leave the entity ENTITY by a relation; a key is (inverse, number of edges).
_WAYS = {
    (False, 1): f"ENTITY ?p ?x . {_NOT_MEDIATOR}",
    (False, 2): f"ENTITY ?p ?c . {_IS_MEDIATOR} ?c ?q ?x . FILTER(!sameTerm(?x, ENTITY)) {_NOT_MEDIATOR}",
    (True, 1): f"?x ?p ENTITY . FILTER(!sameTerm(?x, ENTITY)) {_NOT_MEDIATOR}",
    (True, 2): f"?c ?q ENTITY . {_IS_MEDIATOR} ?x ?p ?c . FILTER(!sameTerm(?x, ENTITY)) {_NOT_MEDIATOR}",
}


def write_oxigraph(table: TripleTable, folder: Path, *, progress: bool = False) -> dict[str, int]:
    """Load a table into a new database in `folder`; returns the counts that `meta.json` shows."""
    from tqdm import tqdm

    names = find_names(table)
    mediators = find_mediators(table, names)
    steps = all_walks(table, mediators, np.arange(len(table.terms))).steps
    relations = sorted({step.relation for step in steps})
    declared = {key: sorted(value) for key, value in reverses(table).items()}
    (folder / _KINDS).write_text(
        json.dumps({"relations": relations, "reverses": declared}, ensure_ascii=False), "utf-8"
    )
    terms = [_to_ox(term, table.schema) for term in table.terms]
    predicates = [_to_ox(term, table.schema) for term in table.predicates]
    store = ox.Store(folder / _DATABASE)
    rows = tqdm(table.rows.tolist(), desc="loading", unit=" triples", unit_scale=True, disable=not progress)
    store.bulk_extend(ox.Quad(terms[s], predicates[p], terms[o]) for s, p, o in rows)
    store.bulk_extend(_index_quads(table, names, mediators, terms))
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


def _index_quads(table: TripleTable, names, mediators, terms: list) -> Iterator[ox.Quad]:
    """What the schema makes of the graph: names to print, names to find, mediators."""
    graph, name, called, folded, mediator = (
        ox.NamedNode(iri[1:-1]) for iri in (_GRAPH, _NAME, _CALLED, _FOLDED, _MEDIATOR)
    )
    for entity, place in names.best.items():
        yield ox.Quad(terms[entity], name, ox.Literal(literal_value(table.terms[place])), graph)
    bearers = [(entity, literal_value(table.terms[place])) for entity, place in names.all]
    for i, text in enumerate(table.terms):
        if mediators[i]:
            yield ox.Quad(terms[i], mediator, ox.Literal(True), graph)
        elif text[0] != '"' and i not in names.best and (own := table.schema.id_name(text)):
            yield ox.Quad(terms[i], name, ox.Literal(own), graph)
            bearers.append((i, own))
    for entity, text in bearers:
        yield ox.Quad(terms[entity], called, ox.Literal(text), graph)
        yield ox.Quad(terms[entity], folded, ox.Literal(fold(text)), graph)


def _to_ox(term: str, schema: Schema) -> ox.NamedNode | ox.Literal:
    if term[0] == '"':
        value, lang, datatype = parse_literal(term)
        if lang:
            return ox.Literal(value, language=lang)
        return ox.Literal(value, datatype=ox.NamedNode(datatype)) if datatype else ox.Literal(value)
    return ox.NamedNode(_BLANK + term[2:] if term.startswith("_:") else schema.expand(term))


def _from_ox(term: object, schema: Schema) -> str:
    if isinstance(term, ox.Literal):
        if term.language:
            return literal(term.value, term.language)
        return literal(term.value, datatype=term.datatype.value)
    if isinstance(term, ox.NamedNode):
        iri = term.value
        return "_:" + iri[len(_BLANK) :] if iri.startswith(_BLANK) else schema.compact(iri)
    return str(term)


class OxigraphStore:
    """A `KGStore` that answers by SPARQL from a database on disk. Any number of processes may open it."""

    schema: Schema

    def __init__(self, folder: str | Path):
        """Open `folder` for reading. Raises `UserError` when it is missing, half-built or damaged."""
        self.path = Path(folder)
        self.meta = read_meta(self.path, "oxigraph")
        self.schema = Schema.from_json(self.meta["profile"], str(self.path))
        try:
            self._store = ox.Store.read_only(str(self.path / _DATABASE))
            kinds = json.loads((self.path / _KINDS).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"{self.path} is damaged ({error}): build it again") from error
        self._vocabulary: tuple[str, ...] = tuple(kinds["relations"])
        self._reverses: dict[str, set[str]] = {key: set(value) for key, value in kinds["reverses"].items()}

    @classmethod
    def open(cls, folder: str | Path) -> "OxigraphStore":
        return cls(folder)

    def __reduce__(self):
        return type(self), (self.path,)

    def __len__(self) -> int:
        return self.meta["counts"]["triples"]

    def __iter__(self) -> Iterator[Triple]:
        return self.match()

    def __contains__(self, triple: object) -> bool:
        if isinstance(triple, Triple):
            triple = (triple.head, triple.relation, triple.tail)
        if not isinstance(triple, tuple) or len(triple) != 3 or not all(isinstance(x, str) for x in triple):
            return False
        return next(self.match(*triple), None) is not None

    def match(self, head: str | None = None, relation: str | None = None, tail: str | None = None) -> Iterator[Triple]:
        """Raw triples, sorted by (head, relation, tail) where head or tail is given, else in stored order."""
        s, p, o = (None if term is None else self._ox(term) for term in (head, relation, tail))
        for term, given in ((s, head), (p, relation), (o, tail)):
            if given is not None and (term is None or (term is not o and isinstance(term, ox.Literal))):
                return iter(())  # no term, or none that can stand here
        quads = self._store.quads_for_pattern(s, p, o, ox.DefaultGraph())  # type: ignore[arg-type]
        found = (Triple(self._id(q.subject), self._id(q.predicate), self._id(q.object)) for q in quads)
        if head is None and tail is None:
            return found
        return iter(sorted(found, key=lambda t: (t.head, t.relation, t.tail)))

    def has_node(self, node: str) -> bool:
        if not (term := self._term(node)):
            return False
        if node[0] == '"':
            return bool(self.query(f"ASK {{ ?s ?p {term} }}"))
        return bool(self.query(f"ASK {{ {{ {term} ?p ?o }} UNION {{ ?s ?p {term} }} }}"))

    def named(self, name: str, *, ignore_case: bool = False) -> list[str]:
        by, key = (_FOLDED, fold(name)) if ignore_case else (_CALLED, name)
        types = " UNION ".join(f"{{ ?e {self._term(p)} ?t }}" for p in self.schema.type_predicates) or "{}"
        rows = self._rows(
            f"SELECT ?e (COUNT(DISTINCT ?t) AS ?n) {{ GRAPH {_GRAPH} {{ ?e {by} {_quoted(key)} }} "
            f"OPTIONAL {{ {types} }} }} GROUP BY ?e"
        )
        counted = [(-int(row["n"].value), self._id(row["e"])) for row in rows]
        return [node for _, node in sorted(counted)]

    def names(self, nodes: Sequence[str]) -> list[str | None]:
        terms = {node: term for node in set(nodes) if node[:1] != '"' and (term := self._term(node))}
        found = {}
        if terms:
            rows = self._rows(
                f"SELECT ?e ?n {{ VALUES ?e {{ {' '.join(terms.values())} }} GRAPH {_GRAPH} {{ ?e {_NAME} ?n }} }}"
            )
            found = {self._id(row["e"]): row["n"].value for row in rows}
        return [literal_value(node) if node[:1] == '"' else found.get(node) for node in nodes]

    def aliases(self, node: str) -> list[str]:
        if node[:1] == '"' or not (term := self._term(node)):
            return []
        predicates = (*self.schema.name_predicates, *self.schema.alias_predicates)
        rows = self._rows(
            f"SELECT ?p ?n {{ VALUES ?p {{ {' '.join(map(self._term, predicates))} }} "
            f"{term} ?p ?n FILTER(isLiteral(?n)) }}"
        )
        own, found = self.names([node])[0], set()
        for row in rows:
            text, is_alias = self._id(row["n"]), self._id(row["p"]) in self.schema.alias_predicates
            value = literal_value(text)
            if literal_lang(text) in self.schema.languages and (is_alias or self.schema.is_name(value)):
                found.add(value)
        return sorted(found - {own})

    def types(self, node: str) -> list[str]:
        if node[:1] == '"' or not (term := self._term(node)):
            return []
        predicates = " ".join(map(self._term, self.schema.type_predicates))
        return sorted(
            {self._id(r["t"]) for r in self._rows(f"SELECT ?t {{ VALUES ?p {{ {predicates} }} {term} ?p ?t }}")}
        )

    def is_mediator(self, node: str) -> bool:
        term = "" if node[:1] == '"' else self._term(node)
        return bool(term and self.query(f"ASK {{ GRAPH {_GRAPH} {{ {term} {_MEDIATOR} true }} }}"))

    def vocabulary(self) -> Sequence[str]:
        return self._vocabulary

    def steps(self, node: str) -> list[Step]:
        return self._shown(self._all_steps(node))

    def expand(self, node: str, relations: Sequence[str], limit: int) -> list[Expansion]:
        every = self._all_steps(node) if len(relations) else set()
        shown = self._shown(every)
        wanted = {relation: _followed(relation, shown, sorted(every)) for relation in relations}
        ends = self._ends(node, {step for steps in wanted.values() for step in steps})
        return [_expansion(node, relation, wanted[relation], ends, limit) for relation in relations]

    def query(self, sparql: str) -> list[dict[str, str]] | bool:
        """The rows of a SELECT, or the truth of an ASK, with terms as everywhere. IRIs must be written whole.

        For trusted queries only: nothing limits them. `execute` runs those of a model or a data set.
        Raises `UserError` for a query that cannot be parsed and `KGUnavailable` when the database fails.
        """
        try:
            result = self._store.query(sparql)
            if isinstance(result, ox.QueryBoolean):
                return bool(result)
            if not isinstance(result, ox.QuerySolutions):
                raise UserError("only SELECT and ASK are supported")
            keys = [variable.value for variable in result.variables]
            return [{k: self._id(row[k]) for k in keys if row[k] is not None} for row in result]
        except SyntaxError as error:
            raise UserError(f"SPARQL: {error}") from error
        except (OSError, RuntimeError) as error:
            raise KGUnavailable(f"{self.path}: {error}") from error

    def execute(self, sparql: str, limits: QueryLimits | None = None) -> Rows:
        """A query of any origin, guarded and limited (`graphwalker.kg.worker.execute`, with what it raises)."""
        return execute(self.path, sparql, limits)

    def close(self) -> None:
        del self._store

    def _rows(self, sparql: str) -> list[ox.QuerySolution]:
        try:
            return list(cast(ox.QuerySolutions, self._store.query(sparql)))
        except (OSError, RuntimeError) as error:
            raise KGUnavailable(f"{self.path}: {error}") from error

    def _id(self, term) -> str:
        return _from_ox(term, self.schema)

    def _ox(self, node: str) -> ox.NamedNode | ox.Literal | None:
        """A term as Oxigraph knows it, None for what is no term or not in its one spelling."""
        try:
            term = _to_ox(node, self.schema)
        except (ValueError, IndexError):
            return None
        return term if self._id(term) == node else None

    def _term(self, node: str) -> str:
        """A term as SPARQL writes it, `""` for what is none."""
        term = self._ox(node)
        return "" if term is None else str(term)

    def _all_steps(self, node: str) -> set[Step]:
        """The visible steps, with those that state a declared reverse."""
        if node[:1] == '"' or not (term := self._term(node)):
            return set()
        ways = list(_WAYS)
        bodies = [body.replace("ENTITY", term) for body in _WAYS.values()]
        body = " UNION ".join(f"{{ {body} BIND({k} AS ?k) }}" for k, body in enumerate(bodies))
        body += f" FILTER NOT EXISTS {{ GRAPH {_GRAPH} {{ {term} {_MEDIATOR} true }} }}"
        found = set()
        for row in self._rows(f"SELECT DISTINCT ?k ?p ?q {{ {body} }}"):
            inverse, _ = ways[int(row["k"].value)]
            parts = tuple(self._id(x) for x in (row["p"], row["q"]) if x is not None)
            if all(map(self.schema.is_visible, parts)):
                found.add(Step(".".join(parts), inverse, parts))
        return found

    def _shown(self, steps: set[Step]) -> list[Step]:
        """The steps without the incoming ones that state a declared reverse again."""

        def again(step: Step) -> bool:
            return step.inverse and any(
                Step(".".join(parts), False, parts) in steps for parts in reversed_parts(step.parts, self._reverses)
            )

        return sorted(step for step in steps if not again(step))

    def _ends(self, node: str, steps: set[Step]) -> dict[Step, list[tuple[str, str]]]:
        """(name, id) of the other ends of each step, sorted, each name once; one query for all."""
        if not steps:
            return {}
        numbered, term = sorted(steps), self._term(node)
        blocks = []
        for way, body in _WAYS.items():
            mine = [(k, s) for k, s in enumerate(numbered) if (s.inverse, len(s.parts)) == way]
            if mine:
                values = " ".join(f"({k} {' '.join(map(self._term, s.parts))})" for k, s in mine)
                variables = "?k ?p" if way[1] == 1 else "?k ?p ?q"
                body = body.replace("ENTITY", term)
                blocks.append(f"{{ VALUES ({variables}) {{ {values} }} {body} }}")
        name = f"OPTIONAL {{ GRAPH {_GRAPH} {{ ?x {_NAME} ?n }} }}"
        ends: dict[Step, dict[str, str]] = {step: {} for step in numbered}
        for row in self._rows(f"SELECT DISTINCT ?k ?x ?n {{ {' UNION '.join(blocks)} {name} }}"):
            end = self._id(row["x"])
            text = literal_value(end) if end[0] == '"' else row["n"].value if row["n"] is not None else end
            chosen = ends[numbered[int(row["k"].value)]]
            chosen[text] = min(end, chosen.get(text, end))
        return {step: sorted(found.items()) for step, found in ends.items()}


def _followed(relation: str, shown: list[Step], every: list[Step]) -> list[Step]:
    """The steps that a relation stands for at an entity (see `KGStore.expand`).

    A way in that `steps` leaves out as a declared reverse is followed only where there is no way out.
    """
    out = [s for s in shown if not s.inverse and relation in (s.relation, s.parts[0])]
    back = [s for s in (shown if out else every) if s.inverse and s.relation == relation]
    return out + back


def _expansion(
    node: str, relation: str, steps: list[Step], ends: dict[Step, list[tuple[str, str]]], limit: int
) -> Expansion:
    rows = sorted((s.inverse, name, end, s.relation) for s in steps for name, end in ends[s])
    triples = tuple(
        Triple(end, name, node) if inverse else Triple(node, name, end)
        for inverse, _, end, name in rows[: max(0, limit)]
    )
    return Expansion(relation, triples, len(rows))


def _quoted(text: str) -> str:
    return str(ox.Literal(text))
