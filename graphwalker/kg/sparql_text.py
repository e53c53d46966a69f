"""The SPARQL that a store sends: one text for the embedded database and for every server.

A schema says what names an entity and what may be a mediator; here that becomes patterns over the raw graph, so that
any server which holds the triples will do. Only SPARQL 1.1 that Virtuoso, Oxigraph, QLever, Fuseki and Blazegraph share
is used. Whether something has a name is asked with EXISTS and never with OPTIONAL and BOUND: Virtuoso takes ten times
as long for the latter at an entity with ten thousand edges.
"""

from collections.abc import Iterable, Sequence

import pyoxigraph as ox

from graphwalker.kg.schema import Schema
from graphwalker.kg.store import Step
from graphwalker.kg.terms import XSD, literal, parse_literal

BLANK = "urn:graphwalker-blank:"  # a blank node that a query can name
_VIRTUOSO_BLANK = "nodeID://"  # as Virtuoso lets its own be named
LABEL = "urn:k:"  # and a number, of what a row is about: no literal, which takes Virtuoso five times as long to write
MORE, OWN_NAME = 4, 5  # the values of ?k in `around` that are not ways
WAYS = ((False, 1), (False, 2), (True, 1), (True, 2))  # (inverse, number of edges); ?k is a place in it


def to_term(node: str, schema: Schema) -> ox.NamedNode | ox.Literal | None:
    """A node as SPARQL knows it; None for what is no term, or not in its one spelling."""
    try:
        if node[:1] == '"':
            value, lang, datatype = parse_literal(node)
            if literal(value, lang, datatype) != node:
                return None
            if lang:
                return ox.Literal(value, language=lang)
            return ox.Literal(value, datatype=ox.NamedNode(datatype)) if datatype else ox.Literal(value)
        if node.startswith("_:"):
            term = ox.NamedNode(node[2:] if node.startswith(_VIRTUOSO_BLANK, 2) else BLANK + node[2:])
        else:
            term = ox.NamedNode(schema.expand(node))
    except (ValueError, IndexError):
        return None
    return term if from_iri(term.value, schema) == node else None


def from_iri(iri: str, schema: Schema) -> str:
    """The node of an IRI: its short id, or a blank node for an IRI that stands for one."""
    if iri.startswith(_VIRTUOSO_BLANK):
        return "_:" + iri
    return "_:" + iri[len(BLANK) :] if iri.startswith(BLANK) else schema.compact(iri)


def any_of(items: Iterable[str]) -> str:
    """Groups as one: their union."""
    return " UNION ".join(f"{{ {item} }}" for item in items)


class Queries:
    """The queries of a schema. Arguments are terms as SPARQL writes them (`<iri>`, `"Rome"@en`)."""

    def __init__(self, schema: Schema):
        self.schema = schema
        self._name_predicates = [self.term(p) for p in schema.name_predicates]
        self._can_mediate = self._mediator_test()

    def term(self, node: str) -> str:
        """A node as SPARQL writes it, `""` for what is none."""
        term = to_term(node, self.schema)
        return "" if term is None else str(term)

    def language_filter(self, variable: str) -> str:
        """Whether a literal is in one of the schema's languages."""
        tests = [
            f'LANG({variable}) = "{lang}"'
            if lang
            else f'(LANG({variable}) = "" && DATATYPE({variable}) = <{XSD}string>)'
            for lang in self.schema.languages
        ]
        return f"FILTER(isLiteral({variable}) && ({' || '.join(tests)}))"

    def _name_patterns(self, node: str, variable: str) -> list[str]:
        """For each predicate, the pattern of a name that `node` has."""
        says = f'FILTER(STR({variable}) != "")'
        if self.schema.id_pattern:
            says += f" FILTER(!REGEX(STR({variable}), {_quoted(f'^({self.schema.id_pattern})$')}))"
        return [f"{node} {p} {variable} . {self.language_filter(variable)} {says}" for p in self._name_predicates]

    def _mediator_test(self) -> str | None:
        """The test, with NODE in it, that an unnamed node is a mediator; None where no node can be, `""` for any."""
        schema = self.schema
        if schema.mediators_unnamed:
            return ""
        tests = [f"STRSTARTS(STR(NODE), {_quoted(schema.expand(prefix))})" for prefix in schema.mediator_prefixes]
        if schema.mediators_blank:
            tests += ["isBlank(NODE)", f"STRSTARTS(STR(NODE), {_quoted(BLANK)})"]
        return " || ".join(tests) or None

    def is_mediator(self, node: str) -> str:
        """The filters that `node`, a variable bound to no literal, is a mediator."""
        unnamed = " ".join(f"FILTER NOT EXISTS {{ {name} }}" for name in self._name_patterns(node, f"{node}_name"))
        test = self._can_mediate or ""
        return (f"FILTER({test.replace('NODE', node)}) " if test else "") + unnamed

    def is_shown(self, node: str) -> str:
        """The filter that `node`, a variable, is a literal or an entity but no mediator."""
        if self._can_mediate is None:
            return ""
        tests = [f"isLiteral({node})"]
        if self._can_mediate:
            tests.append(f"!({self._can_mediate.replace('NODE', node)})")
        tests += [f"EXISTS {{ {name} }}" for name in self._name_patterns(node, f"{node}_name")]
        return f"FILTER({' || '.join(tests)})"

    def _mediators(self, variables: str, edges: str, most: int) -> str:
        """The first `most` edges, of these the ones at a mediator ?c: apart, or Virtuoso follows all others first."""
        first = f"{{ SELECT {variables} {{ {edges} }} LIMIT {most} }}"
        return f"{{ SELECT {variables} {{ {first} {self.is_mediator('?c')} }} }}"

    def _way(self, inverse: bool, edges: int, entity: str, first: str, second: str) -> str:
        """The ends ?x of the walks out of (into) an entity by one or two edges; `""` where there can be none."""
        other = _not_same("?x", entity)
        if edges == 1:
            return f"?x {first} {entity} . {other}" if inverse else f"{entity} {first} ?x ."
        if self._can_mediate is None:
            return ""
        if inverse:
            return f"?c {second} {entity} . {self.is_mediator('?c')} ?x {first} ?c . {other}"
        return f"{entity} {first} ?c . {self.is_mediator('?c')} ?c {second} ?x . {other}"

    def around(self, entities: Sequence[str], most: int) -> str:
        """The steps of an entity as rows (k, p, q): k is a place in `WAYS`, q is there for two edges.

        Beside them its names (k = `OWN_NAME`; p, n), so that one query answers for nearly every entity. Only the first
        `most` edges of each direction are looked at; a row k = `MORE` says that there are more, and then `degrees` and
        `sampled_steps` must be asked. (Virtuoso takes 15 ms more to compile a count.) Several entities, whose edges
        are counted together, are told apart by a column e.
        """
        entity, among = (entities[0], "") if len(entities) == 1 else ("?e", f"VALUES ?e {{ {' '.join(entities)} }} ")
        e = "?e " if among else ""
        blocks = []
        for k, (inverse, edges) in enumerate(WAYS):
            near = f"{among}?x ?p {entity}" if inverse else f"{among}{entity} ?p ?x"
            if edges == 1:
                other = _not_same("?x", entity) if inverse else ""
                block = f"{{ SELECT {e}?p ?x {{ {near} . {other} }} LIMIT {most} }} {self.is_shown('?x')}"
            elif self._can_mediate is None:
                continue
            else:
                edge, far = ("?c ?q", "?x ?p ?c") if inverse else ("?p ?c", "?c ?q ?x")
                near = f"{among}{edge} {entity}" if inverse else f"{among}{entity} {edge}"
                mediators = self._mediators(f"{e}?q ?c" if inverse else f"{e}?p ?c", near, most)
                block = f"{mediators} {far} . {_not_same('?x', entity)} {self.is_shown('?x')}"
            blocks.append(f"{block} {_labels(k)}")
        for pattern in (f"{entity} ?a ?b", f"?a ?b {entity}"):
            blocks.append(f"{{ SELECT (1 AS ?n) {{ {among}{pattern} }} LIMIT 1 OFFSET {most} }} {_labels(MORE)}")
        for predicate, name in zip(self._name_predicates, self._name_patterns(entity, "?n"), strict=True):
            blocks.append(f"{among}{name} BIND({predicate} AS ?p) {_labels(OWN_NAME)}")
        return f"SELECT DISTINCT {e}?k ?p ?q ?n {{ {any_of(blocks)} }}"

    def degrees(self, entity: str) -> str:
        """Rows (k, p, n): how many edges an entity has of each predicate, out (k = 0) and in (k = 2)."""
        blocks = [f"{entity} ?p ?x {_labels(0)}", f"?x ?p {entity} {_labels(2)}"]
        return f"SELECT ?k ?p (COUNT(*) AS ?n) {{ {any_of(blocks)} }} GROUP BY ?k ?p"

    def sampled_steps(self, entity: str, predicates: Sequence[tuple[bool, str]], most: int) -> str:
        """As `around`, for some predicates (inverse, term): the first `most` edges of each are looked at."""
        blocks = []
        for inverse, predicate in predicates:
            plain = self._way(inverse, 1, entity, predicate, "")
            blocks.append(
                f"{{ SELECT ?x {{ {plain} }} LIMIT {most} }} {self.is_shown('?x')} "
                f"BIND({predicate} AS ?p) {_labels(2 * inverse)}"
            )
            if self._can_mediate is None:
                continue
            near, far = (
                (f"?c {predicate} {entity}", "?x ?p ?c") if inverse else (f"{entity} {predicate} ?c", "?c ?q ?x")
            )
            blocks.append(
                f"{self._mediators('?c', near, most)} {far} . "
                f"{_not_same('?x', entity)} {self.is_shown('?x')} "
                f"BIND({predicate} AS {'?q' if inverse else '?p'}) {_labels(2 * inverse + 1)}"
            )
        return f"SELECT DISTINCT ?k ?p ?q {{ {any_of(blocks)} }}"

    def ends(self, entity: str, steps: Sequence[tuple[int, Step]], most: int) -> str:
        """Rows (k, x, n0, n1, ...): at most `most` other ends x of each numbered step, and what may name x.

        Mediators are among the ends of a step of one edge; only whoever reads all names can tell.
        """
        blocks = []
        for k, step in steps:
            first, second = [*map(self.term, step.parts), ""][:2]
            way = self._way(step.inverse, len(step.parts), entity, first, second)
            if way:
                blocks.append(f"{{ SELECT DISTINCT ?x {{ {way} }} LIMIT {most} }} {_labels(k)}")
        return f"SELECT DISTINCT ?k ?x {self._name_variables} {{ {any_of(blocks)} {self._optional_names()} }}"

    def all_ends(self, wanted: Sequence[tuple[str, Step]], most: int) -> str:
        """As `ends`, for (entity, step) of several entities, labelled as they come: at most `most` ends of each way.

        Virtuoso compiles it in half the time that a block for each step takes it.
        """
        blocks = []
        for inverse, edges in WAYS:
            variables = "?k ?e ?p" if edges == 1 else "?k ?e ?p ?q"
            values = [
                f"(<{LABEL}{k}> {entity} {' '.join(map(self.term, step.parts))})"
                for k, (entity, step) in enumerate(wanted)
                if (step.inverse, len(step.parts)) == (inverse, edges)
            ]
            way = self._way(inverse, edges, "?e", "?p", "?q")
            if values and way:
                among = f"VALUES ({variables}) {{ {' '.join(values)} }}"
                blocks.append(f"{{ SELECT DISTINCT ?k ?x {{ {among} {way} }} LIMIT {most} }}")
        return f"SELECT ?k ?x {self._name_variables} {{ {any_of(blocks)} {self._optional_names()} }}"

    def names(self, terms: Iterable[str]) -> str:
        """Rows (x, n0, n1, ...): what may name each of the entities."""
        values = " ".join(terms)
        return f"SELECT DISTINCT ?x {self._name_variables} {{ VALUES ?x {{ {values} }} {self._optional_names()} }}"

    @property
    def _name_variables(self) -> str:
        return " ".join(f"?n{level}" for level in range(len(self._name_predicates)))

    def _optional_names(self) -> str:
        return " ".join(
            f"OPTIONAL {{ ?x {predicate} ?n{level} . {self.language_filter(f'?n{level}')} }}"
            for level, predicate in enumerate(self._name_predicates)
        )

    def named(self, labels: Sequence[str], ids: Sequence[str]) -> str:
        """Rows (e, n): the entities that bear one of the labels, and those of `ids` without a name; n types each."""
        values = " ".join(str(_tagged(label, lang)) for label in labels for lang in self.schema.languages)
        blocks = [f"VALUES ?l {{ {values} }} ?e {p} ?l" for p in self._name_predicates if values]
        if ids:
            unnamed = " ".join(f"FILTER NOT EXISTS {{ {name} }}" for name in self._name_patterns("?e", "?own"))
            there = "FILTER(EXISTS { ?e ?a ?b } || EXISTS { ?c ?d ?e })"
            blocks.append(f"VALUES ?e {{ {' '.join(ids)} }} {there} {unnamed}")
        types = any_of(f"?e {self.term(p)} ?t" for p in self.schema.type_predicates)
        optional = f"OPTIONAL {{ {types} }}" if types else ""
        count = "(COUNT(DISTINCT ?t) AS ?n)" if types else "(0 AS ?n)"
        return f"SELECT ?e {count} {{ {any_of(blocks)} {optional} }} GROUP BY ?e"

    def present(self, terms: Iterable[str]) -> str:
        """Rows (x): those of the entities that are in the graph."""
        there = "FILTER(EXISTS { ?x ?a ?b } || EXISTS { ?c ?d ?x })"
        return f"SELECT ?x {{ VALUES ?x {{ {' '.join(terms)} }} {there} }}"

    def objects(self, entity: str, predicates: Sequence[str]) -> str:
        """Rows (p, x): what an entity has under some predicates."""
        return f"SELECT DISTINCT ?p ?x {{ VALUES ?p {{ {' '.join(map(self.term, predicates))} }} {entity} ?p ?x }}"

    def relations_of(self, predicate: str, most: int) -> str:
        """Rows (k, q): whether a predicate is a step by itself (k = 0), and its second halves (k = 1)."""
        shown = f"{self.is_shown('?s')} {self.is_shown('?x')}"
        blocks = [
            f"{{ SELECT ?s ?x {{ {{ SELECT ?s ?x {{ ?s {predicate} ?x }} LIMIT {most} }} {shown} }} LIMIT 1 }} "
            f"{_labels(0)}"
        ]
        if self._can_mediate is not None:
            blocks.append(
                f"{self._mediators('?s ?c', f'?s {predicate} ?c', most)} ?c ?q ?x . "
                f"{_not_same('?x', '?s')} {shown} {_labels(1)}"
            )
        return f"SELECT DISTINCT ?k ?q {{ {any_of(blocks)} }}"

    def unnamed(self) -> str:
        """Rows (e): the entities that a name would have to be made for from their ids."""
        nameless = " ".join(f"FILTER NOT EXISTS {{ {name} }}" for name in self._name_patterns("?e", "?own"))
        return f"SELECT DISTINCT ?e {{ {{ ?e ?a ?b }} UNION {{ ?c ?d ?e }} FILTER(isIRI(?e)) {nameless} }}"

    def all_names(self) -> str:
        """Rows (n): the texts that name anything."""
        return f"SELECT DISTINCT ?n {{ {any_of(self._name_patterns('?e', '?n'))} }}"


def _labels(number: int) -> str:
    """What labels a row with a number, as ?k."""
    return f"BIND(<{LABEL}{number}> AS ?k)"


def _not_same(variable: str, entity: str) -> str:
    """The filter that a variable is not an entity; blank nodes, which have no STR, do not pass it on most servers.

    Beside a subquery Virtuoso 7.2.5 finds no two terms `sameTerm`, and `!=` between two variables has crashed it.
    """
    return f"FILTER(isLiteral({variable}) || STR({variable}) != STR({entity}))"


def _tagged(text: str, lang: str) -> ox.Literal:
    return ox.Literal(text, language=lang) if lang else ox.Literal(text)


def _quoted(text: str) -> str:
    return str(ox.Literal(text))
