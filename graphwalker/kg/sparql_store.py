"""What every store that speaks SPARQL has in common: the answers of `KGStore`, made of rows.

How a query travels is for the subclass: in this process (`OxigraphStore`) or over HTTP (`EndpointStore`). A tool call
takes few queries: one to resolve a name, one for the steps of an entity, one for the triples of up to all relations
asked. Only a hub, an entity with more than `HUB` edges in a direction, takes more, and there the answer is bounded: at
most `HUB` other ends of a relation are looked at (`Expansion.capped` says so), and `SAMPLE` edges of a relation with
more than `HUB` tell whether it leads to mediators.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from graphwalker.errors import KGUnavailable
from graphwalker.kg.guard import QueryLimits, Rows
from graphwalker.kg.schema import Schema
from graphwalker.kg.sparql_text import LABEL, MORE, OWN_NAME, WAYS, Queries, from_iri, to_term
from graphwalker.kg.spellings import Spellings, guesses
from graphwalker.kg.steps import reversed_parts
from graphwalker.kg.store import Expansion, Step
from graphwalker.kg.terms import literal_lang, literal_value
from graphwalker.types import Triple

Row = dict[str, str]
"""A solution: variable -> a node as everywhere, or for a number its literal. Unbound variables are left out."""

HUB = 10_000
SAMPLE = 1_000
_HUB_PREDICATES = 20  # of one query: Virtuoso refuses to compile very long ones
_NAMES_KEPT = 100_000


class SparqlStore(ABC):
    """A `KGStore` by SPARQL. `max_rows` is what an answer may hold before the server cuts it (0: any number)."""

    schema: Schema
    remote = False
    max_rows = 0

    def __init__(
        self, schema: Schema, vocabulary: Sequence[str], reverses: dict[str, set[str]], spellings: Spellings | None
    ):
        self.schema = schema
        self.queries = Queries(schema)
        self._vocabulary, self._reverses, self._spellings = tuple(vocabulary), reverses, spellings
        self._known_names: dict[str, str | None] = {}
        self._short = lru_cache(1 << 16)(lambda iri: from_iri(iri, schema))

    @abstractmethod
    def rows(self, sparql: str) -> list[Row]:
        """The rows of a SELECT. Raises `KGUnavailable`."""

    @abstractmethod
    def execute(self, sparql: str, limits: QueryLimits | None = None) -> Rows:
        """The answer to a query of any origin, guarded and limited. Raises `QueryRefused` and `KGUnavailable`."""

    @abstractmethod
    def _query(self, sparql: str) -> list[Row] | bool:
        """The rows of a SELECT or the truth of an ASK; see `query`."""

    @abstractmethod
    def _scan(self, head: str | None, relation: str | None, tail: str | None) -> Iterator[Triple]:
        """The triples that match, in stored order; the terms given are known to be able to stand there."""

    @abstractmethod
    def __len__(self) -> int: ...

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
        for given in (head, relation, tail):
            literal = given is not None and given[:1] == '"'
            if given is not None and (to_term(given, self.schema) is None or (literal and given is not tail)):
                return iter(())  # no term, or none that can stand here
        found = self._scan(head, relation, tail)
        if head is None and tail is None:
            return found
        return iter(sorted(found, key=lambda t: (t.head, t.relation, t.tail)))

    def has_node(self, node: str) -> bool:
        if not (term := self.queries.term(node)):
            return False
        into = f"?s ?p {term}"
        return self._exists(into if node[0] == '"' else f"{{ {term} ?p ?o }} UNION {{ {into} }}")

    def named(self, name: str, *, ignore_case: bool = False) -> list[str]:
        if self._spellings is None:
            labels, nodes = guesses(name, self.schema, ignore_case=ignore_case)
        else:
            labels, nodes = self._spellings.find(name, ignore_case=ignore_case)
        labels = [label for label in labels if self.schema.is_name(label)] if self.schema.name_predicates else []
        ids = [term for node in nodes if not self.schema.can_mediate(node) and (term := self.queries.term(node))]
        if not labels and not ids:
            return []
        counted = [(-number(row["n"]), row["e"]) for row in self.rows(self.queries.named(labels, ids))]
        return [node for _, node in sorted(counted)]

    def names(self, nodes: Sequence[str]) -> list[str | None]:
        known = self._known_names  # another thread may put a new one in its place
        unknown = {node for node in nodes if node[:1] != '"' and node not in known}
        terms = {node: term for node in sorted(unknown) if (term := self.queries.term(node))}
        found: dict[str, str | None] = {}
        if terms:
            found = self._best_names(self.rows(self.queries.names(terms.values())))
            found |= self._names_from_ids({node: terms[node] for node in terms if found.get(node) is None})
            self._remember({node: found.get(node) for node in terms})
        return [
            literal_value(node) if node[:1] == '"' else found[node] if node in found else known.get(node)
            for node in nodes
        ]

    def aliases(self, node: str) -> list[str]:
        if node[:1] == '"' or not (term := self.queries.term(node)):
            return []
        predicates = (*self.schema.name_predicates, *self.schema.alias_predicates)
        if not predicates:
            return []
        own, found = self.names([node])[0], set()
        for row in self.rows(self.queries.objects(term, predicates)):
            text, is_alias = row["x"], row["p"] in self.schema.alias_predicates
            if text[:1] == '"' and literal_lang(text) in self.schema.languages:
                value = literal_value(text)
                if is_alias or self.schema.is_name(value):
                    found.add(value)
        return sorted(found - {own})

    def types(self, node: str) -> list[str]:
        if node[:1] == '"' or not self.schema.type_predicates or not (term := self.queries.term(node)):
            return []
        return sorted({row["x"] for row in self.rows(self.queries.objects(term, self.schema.type_predicates))})

    def is_mediator(self, node: str) -> bool:
        if node[:1] in ("", '"') or not self.schema.can_mediate(node) or not self.queries.term(node):
            return False
        return self.names([node])[0] is None and self.has_node(node)

    def vocabulary(self) -> Sequence[str]:
        return self._vocabulary

    def steps(self, node: str) -> list[Step]:
        return self._shown(self._all_steps(node))

    def expand(self, node: str, relations: Sequence[str], limit: int) -> list[Expansion]:
        every = self._all_steps(node) if len(relations) else set()
        shown = self._shown(every)
        wanted = {relation: _followed(relation, shown, sorted(every)) for relation in relations}
        numbered = sorted({step for steps in wanted.values() for step in steps})
        ends, capped = self._ends(node, list(enumerate(numbered)), HUB + 1)
        by_step = {step: ends[k] for k, step in enumerate(numbered)}
        cut = {step for k, step in enumerate(numbered) if k in capped}
        return [_expansion(node, relation, wanted[relation], by_step, cut, limit) for relation in relations]

    def walks(self, node: str) -> list[Step]:
        """The visible steps of a node, sorted: also those of a mediator, and those that state a declared reverse."""
        return sorted(self._all_steps(node, of_mediator=True))

    def ends(self, node: str, steps: Sequence[Step], most: int) -> list[list[tuple[str, str]]]:
        """For each of a node's `walks`, (name, id) of its other ends: of the graph's first `most`, sorted by name."""
        found, _ = self._ends(node, list(enumerate(steps)), most)
        return [found[k] for k in range(len(steps))]

    def query(self, sparql: str) -> list[Row] | bool:
        """The rows of a SELECT, or the truth of an ASK, with terms as everywhere. IRIs must be written whole.

        For trusted queries only: nothing limits them. `execute` runs those of a model or a data set.
        Raises `UserError` for a query that cannot be parsed and `KGUnavailable` when the graph fails.
        """
        return self._query(sparql)

    def _exists(self, pattern: str) -> bool:
        """As ASK, which Virtuoso answers with rows."""
        return bool(self.rows(f"SELECT (1 AS ?yes) {{ {pattern} }} LIMIT 1"))

    # From here on: how steps and ends are read.

    def _rows_around(self, node: str) -> list[Row]:
        """The rows of `Queries.around`."""
        return self.rows(self.queries.around([self.queries.term(node)], HUB))

    def _rows_of_ends(self, node: str, steps: Sequence[tuple[int, Step]], most: int) -> list[Row]:
        """The rows of `Queries.ends`."""
        return self.rows(self.queries.ends(self.queries.term(node), steps, most))

    def _all_steps(self, node: str, *, of_mediator: bool = False) -> set[Step]:
        """The visible steps, with those that state a declared reverse; a mediator's own only where they are asked."""
        if node[:1] == '"' or not (term := self.queries.term(node)):
            return set()
        hub, own, rows = False, [], []
        for row in self._rows_around(node):
            k = labelled(row["k"], range(OWN_NAME + 1))
            if k == MORE:
                hub = True
            elif k == OWN_NAME:
                if row["p"] not in self.schema.name_predicates:
                    raise malformed(f"{row['p'][:40]!r} came for a predicate of names")
                own.append({"x": node, f"n{self.schema.name_predicates.index(row['p'])}": row["n"]})
            else:
                rows.append((k, row))
        if own:
            self._remember(self._best_names(own))
        elif self.schema.can_mediate(node) and not of_mediator:
            return set()
        if hub:
            rows = self._steps_of_hub(term)
        found = set()
        for k, row in rows:
            inverse, _ = WAYS[k]
            parts = tuple(row[key] for key in ("p", "q") if key in row)
            if all(map(self.schema.is_visible, parts)):
                found.add(Step(".".join(parts), inverse, parts))
        return found

    def _steps_of_hub(self, term: str) -> list[tuple[int, Row]]:
        degree = {
            (labelled(row["k"], range(MORE)) > 0, row["p"]): number(row["n"])
            for row in self.rows(self.queries.degrees(term))
            if self.schema.is_visible(row["p"])
        }
        rows = []
        for most, chosen in (
            (HUB, [key for key, edges in degree.items() if edges <= HUB]),
            (SAMPLE, [key for key, edges in degree.items() if edges > HUB]),
        ):
            predicates = [(inverse, self.queries.term(p)) for inverse, p in sorted(chosen)]
            for at in range(0, len(predicates), _HUB_PREDICATES):
                part = predicates[at : at + _HUB_PREDICATES]
                rows += self.rows(self.queries.sampled_steps(term, part, most))
        return [(labelled(row["k"], range(MORE)), row) for row in rows]

    def _shown(self, steps: set[Step]) -> list[Step]:
        """The steps without the incoming ones that state a declared reverse again."""

        def again(step: Step) -> bool:
            return step.inverse and any(
                Step(".".join(parts), False, parts) in steps for parts in reversed_parts(step.parts, self._reverses)
            )

        return sorted(step for step in steps if not again(step))

    def _ends(
        self, node: str, steps: list[tuple[int, Step]], most: int
    ) -> tuple[dict[int, list[tuple[str, str]]], set[int]]:
        """(name, id) of the other ends of each numbered step, sorted, each name once; and the steps with too many."""
        if not steps:
            return {}, set()
        rows = self._rows_of_ends(node, steps, most)
        if self.max_rows and len(rows) >= self.max_rows and len(steps) > 1:
            middle = len(steps) // 2  # the server may have cut the answer: ask for less at a time
            ends, capped = self._ends(node, steps[:middle], most)
            more, more_capped = self._ends(node, steps[middle:], most)
            return ends | more, capped | more_capped
        by_step: dict[int, set[str]] = defaultdict(set)
        numbers = range(steps[0][0], steps[-1][0] + 1)
        for row in rows:
            by_step[labelled(row["k"], numbers)].add(row["x"])
        full = min(most, self.max_rows or most)
        capped = {k for k, _ in steps if len(by_step[k]) >= full}
        if self.max_rows and len(rows) >= self.max_rows:
            capped = {steps[0][0]}
        names = {
            end: name if name is not None or self.schema.can_mediate(end) else self.schema.id_name(end) or None
            for end, name in self._best_names(rows).items()
        }
        self._remember(names)
        return {k: self._printed(by_step[k], names) for k, _ in steps}, capped

    def _printed(self, ends: Iterable[str], names: dict[str, str | None]) -> list[tuple[str, str]]:
        chosen: dict[str, str] = {}
        for end in ends:
            text = literal_value(end) if end[0] == '"' else names[end]
            if text is None and self.schema.can_mediate(end):
                continue
            text = end if text is None else text
            chosen[text] = min(end, chosen.get(text, end))
        return sorted(chosen.items())

    def _best_names(self, rows: list[Row]) -> dict[str, str | None]:
        """The name of each ?x that is no literal: by predicate, then language, then text."""
        languages = {lang: i for i, lang in enumerate(self.schema.languages)}
        best: dict[str, tuple[int, int, str]] = {}
        for row in rows:
            if row["x"][0] == '"':
                continue
            for level in range(len(self.schema.name_predicates)):
                text = row.get(f"n{level}", "")
                lang = literal_lang(text) if text[:1] == '"' else None
                if lang in languages and self.schema.is_name(value := literal_value(text)):
                    key = (level, languages[lang], value)
                    best[row["x"]] = min(key, best.get(row["x"], key))
        return {row["x"]: best[row["x"]][2] if row["x"] in best else None for row in rows if row["x"][0] != '"'}

    def _names_from_ids(self, terms: dict[str, str]) -> dict[str, str | None]:
        """The names that ids give to entities without another one, where they are in the graph at all."""
        own = {n: name for n in terms if not self.schema.can_mediate(n) and (name := self.schema.id_name(n))}
        if not own:
            return {}
        present = {row["x"] for row in self.rows(self.queries.present(terms[node] for node in own))}
        return {node: name for node, name in own.items() if node in present}

    def _remember(self, names: dict[str, str | None]) -> None:
        if len(self._known_names) > _NAMES_KEPT:
            self._known_names = {}
        self._known_names.update(names)


def malformed(problem: str) -> KGUnavailable:
    """The error of an answer to another query than the one that was sent."""
    return KGUnavailable(problem, kind="malformed")


def labelled(term: str, among: range) -> int:
    """The number that tells what a row is about. Raises `KGUnavailable` for one that its query does not have."""
    text = term.removeprefix(LABEL)
    if text == term or not (text.isascii() and text.isdigit()) or int(text[:9]) not in among:
        raise malformed(f"a row labelled {term[:40]!r} came, which was not asked for")
    return int(text)


def number(term: str) -> int:
    """A count in a row. Raises `KGUnavailable` where the server sent something else."""
    try:
        return int(literal_value(term))
    except ValueError as error:
        raise malformed(f"{term[:40]!r} came for a number") from error


def _followed(relation: str, shown: list[Step], every: list[Step]) -> list[Step]:
    """The steps that a relation stands for at an entity (see `KGStore.expand`).

    A way in that `steps` leaves out as a declared reverse is followed only where there is no way out.
    """
    out = [s for s in shown if not s.inverse and relation in (s.relation, s.parts[0])]
    back = [s for s in (shown if out else every) if s.inverse and s.relation == relation]
    return out + back


def _expansion(
    node: str,
    relation: str,
    steps: list[Step],
    ends: dict[Step, list[tuple[str, str]]],
    capped: set[Step],
    limit: int,
) -> Expansion:
    rows = sorted((s.inverse, name, end, s.relation) for s in steps for name, end in ends[s])
    triples = tuple(
        Triple(end, name, node) if inverse else Triple(node, name, end)
        for inverse, _, end, name in rows[: max(0, limit)]
    )
    return Expansion(relation, triples, len(rows), not capped.isdisjoint(steps))
