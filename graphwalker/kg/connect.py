"""Making the folder that names a SPARQL endpoint, so that it opens like any other knowledge graph.

What does not change with every query is asked once and kept there: the predicates, the relations that an agent can see
(the corpus that BM25 ranks; flattened ones included), declared reverses, and how names are spelt, where they are few
enough. The endpoint is only read.
"""

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tqdm import tqdm

from graphwalker.errors import UserError
from graphwalker.files import atomic_folder
from graphwalker.kg.build import _check_replaceable
from graphwalker.kg.endpoint import STORE, decoded, pages
from graphwalker.kg.kinds import write_kinds
from graphwalker.kg.meta import LAYOUT, META, META_SCHEMA
from graphwalker.kg.schema import Schema, load_schema
from graphwalker.kg.sparql_http import Endpoint, SparqlClient, checked_url
from graphwalker.kg.sparql_results import QueryFailed, Result
from graphwalker.kg.sparql_store import Row, labelled, number
from graphwalker.kg.sparql_text import Queries, from_iri
from graphwalker.kg.spellings import SPELLINGS, write_spellings
from graphwalker.kg.terms import literal_value

_PATIENCE = 20  # a whole-graph query may take so many times as long as one of a tool call
EDGES = 200_000
"""Edges of a predicate that are looked at for what it leads on to through mediators."""
_FEWEST_EDGES = 2_000
_AT_ONCE = 64  # queries that are handed to the client together; it limits how many are under way


def connect_kg(
    endpoint: Endpoint,
    out: str | Path,
    schema: Schema | str | Path = "rdf",
    *,
    edges: int = EDGES,
    names: int = 1_000_000,
    progress: bool = True,
) -> Path:
    """Make the KG folder `out` for an endpoint and return its path.

    Up to `edges` edges of each predicate are looked at for its flattened relations. Names are listed, for look-ups that
    fold case, where there are at most `names`; in a larger graph the usual ways to write a name are tried.

    Raises `UserError` where there are no triples or the schema names nothing there, and `KGUnavailable` where the
    endpoint does not answer.
    """
    out = Path(out)
    _check_replaceable(out)
    checked_url(endpoint.url)
    patient = dataclasses.replace(endpoint, timeout=endpoint.timeout * _PATIENCE, attempts=3, params={})
    client = SparqlClient(patient)
    try:
        if "virtuoso" in client.server().lower():
            # Without it Virtuoso works on after the client has gone; with it, it says in a header that it stopped.
            endpoint = dataclasses.replace(endpoint, params={"timeout": str(round(endpoint.timeout * 1000))})
        return _make(_Survey(client, load_schema(schema)), endpoint, out, edges, names, progress)
    finally:
        client.close()


def _make(survey: "_Survey", endpoint: Endpoint, out: Path, edges: int, names: int, progress: bool) -> Path:
    schema, predicates = survey.schema, survey.predicates
    relations = survey.relations(edges, progress)
    if not relations:
        raise UserError(f"schema {schema.name}: nothing in {endpoint.url} has a name and a visible relation")
    reverses = survey.reverses()
    with atomic_folder(out) as folder:
        write_kinds(folder, relations, reverses)
        spelt = _write_names(survey, folder, names)
        meta = {
            "schema": META_SCHEMA,
            "layout": LAYOUT,
            "store": STORE,
            "source": endpoint.url,
            "counts": {
                "triples": sum(predicates.values()),
                "predicates": len(predicates),
                "relations": len(relations),
                **({} if spelt is None else {"names": spelt}),
            },
            "profile": schema.to_json(),
            "extra": {"edges_looked_at": survey.edges},
            STORE: dataclasses.asdict(endpoint),
        }
        # Last: a folder without it did not finish.
        (folder / META).write_text(json.dumps(meta, ensure_ascii=False, indent=2) + "\n", "utf-8")
    return out


def _write_names(survey: "_Survey", folder: Path, most: int) -> int | None:
    """Write the spellings, unless there are more than `most`; how many there are."""
    count = survey.count_names()
    if count > most:
        return None
    return write_spellings(folder / SPELLINGS, survey.names(), survey.id_names())


class _Survey:
    """What is asked of a whole graph, once."""

    def __init__(self, client: SparqlClient, schema: Schema):
        self._client = client
        self.edges = sys.maxsize
        rows = self._rows("SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p", lambda iri: iri)
        if not rows:
            graph = client.endpoint.graph
            where = f"graph {graph} of {client.endpoint.url}" if graph else client.endpoint.url
            raise UserError(f"no triples in {where}: give the graph's IRI with --graph if they are in a named one")
        self.schema = schema.with_short_namespace(row["p"] for row in rows)
        self.queries = Queries(self.schema)
        self.predicates = {self._short(row["p"]): number(row["n"]) for row in rows}
        wanted = self.schema.name_predicates
        if not self.schema.name_from_id and not any(p in self.predicates for p in wanted):
            raise UserError(
                f"schema {self.schema.name} names entities by {' or '.join(wanted) or 'nothing'}, which no triple of "
                f"{client.endpoint.url} has: choose another with --schema"
            )

    def relations(self, edges: int, progress: bool) -> list[str]:
        """All that an agent can see, flattened relations included, sorted."""
        visible = sorted(p for p in self.predicates if self.schema.is_visible(p))
        found: set[str] = set()
        with tqdm(total=len(visible), desc="relations", disable=not progress) as bar:
            for at in range(0, len(visible), _AT_ONCE):
                part = visible[at : at + _AT_ONCE]
                for predicate, result in zip(part, self._relations_of(part, edges), strict=True):
                    for row in decoded(result, self._short):
                        if labelled(row["k"], range(2)) == 0:
                            found.add(predicate)
                        elif self.schema.is_visible(row["q"]):
                            found.add(f"{predicate}.{row['q']}")
                    bar.update()
        return sorted(found)

    def _relations_of(self, predicates: list[str], edges: int) -> list[Result]:
        """Of fewer edges where the server has too little time for so many; `edges` is then the fewest."""
        self.edges = min(self.edges, edges)
        try:
            return self._client.run_all([self.queries.relations_of(self.queries.term(p), edges) for p in predicates])
        except QueryFailed as failure:
            if failure.kind != "timeout" or edges < _FEWEST_EDGES:
                raise
            return self._relations_of(predicates, edges // 10)

    def reverses(self) -> dict[str, set[str]]:
        """Relation -> its declared reverses, both ways."""
        found: dict[str, set[str]] = {}
        for predicate in self.schema.reverse_predicates:
            for row in self._pages(f"SELECT ?s ?o {{ ?s {self.queries.term(predicate)} ?o }}"):
                found.setdefault(row["s"], set()).add(row["o"])
                found.setdefault(row["o"], set()).add(row["s"])
        return found

    def count_names(self) -> int:
        """How many triples name something, or may have to be looked at for names in ids."""
        if self.schema.name_from_id:
            return sum(self.predicates.values())
        return sum(self.predicates.get(p, 0) for p in self.schema.name_predicates)

    def names(self) -> Iterator[str]:
        if self.schema.name_predicates:
            for row in self._pages(self.queries.all_names()):
                yield literal_value(row["n"])

    def id_names(self) -> Iterator[tuple[str, str]]:
        """(name, id) of the entities that only their ids name."""
        for row in self._pages(self.queries.unnamed()) if self.schema.name_from_id else ():
            node = row["e"]
            if not self.schema.can_mediate(node) and (name := self.schema.id_name(node)):
                yield name, node

    def _pages(self, query: str) -> Iterator[Row]:
        size = self._client.endpoint.max_rows or 100_000
        return pages(lambda page: self._rows(page, self._short), query, size)

    def _rows(self, query: str, short: Callable[[str], str]) -> list[Row]:
        result = self._client.run(query)
        rows = decoded(result, short)
        size = self._client.endpoint.max_rows
        if result.cut and len(rows) < size:
            raise QueryFailed("server", f"the server cuts answers at {len(rows)} rows: say so with --max-rows")
        return rows

    def _short(self, iri: str) -> str:
        return from_iri(iri, self.schema)
