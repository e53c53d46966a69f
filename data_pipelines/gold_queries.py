"""A gold query as an actor has to find it: the entities it names, the patterns it is made of, and the rest.

An id becomes a variable with a name, as the interactive protocol writes queries; what the query asks beside its
patterns (filters, order, counts) stays as it is.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from data_pipelines.gold_paths import NotWalkable, gold_sparql
from graphwalker.errors import QueryRefused
from graphwalker.kg.dialect import KNOWN_PREFIXES, normal_tokens
from graphwalker.kg.schema import Schema
from graphwalker.kg.sparql_patterns import QueryParts, Tokens, TriplePattern, query_parts
from graphwalker.kg.sparql_tokens import Token, tokenize
from graphwalker.kg.store import KGStore
from graphwalker.kg.terms import XSD
from graphwalker.tools.kbqa.forms import quoted
from graphwalker.types import Question

RDF_TYPE = KNOWN_PREFIXES["rdf"] + "type"
DOT = Token("PUNCT", ".")
_LANGUAGE_WORDS = {"ISLITERAL", "LANG", "LANGMATCHES"}
_LOCAL = re.compile(r"\w(?:[\w.-]*[\w-])?")
_OURS = re.compile(r"e\d*")  # the variables that are entities here
_YEAR = re.compile(r"-?\d{4}(?=-|$)")


@dataclass(frozen=True, slots=True)
class Named:
    """An entity of a query: what stands for it there, and what it is called."""

    term: Token
    """Its IRI, or the variable that the query finds by name."""
    names: tuple[str, ...]
    """The name, then others."""
    members: Token | None = None
    """Of a concept the variable of what is an instance of it."""
    outer: bool = True
    """Whether the outer group finds it."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A pattern between two nodes; ``relation`` as the KG prints it, a node as SPARQL does."""

    subject: str
    relation: str
    object: str


@dataclass(frozen=True, slots=True)
class Chain:
    """One or two edges from a node, as SearchGraphPatterns shows them."""

    edges: tuple[Edge, ...]
    inverse: bool
    far: str

    def __str__(self) -> str:
        return " -> ".join(edge.relation for edge in self.edges)


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact whose qualifiers a query asks for or compares."""

    edge: Edge
    qualifiers: tuple[str, ...]
    statements: tuple[Tokens, ...]
    """What the outer group says of it."""
    bracket: Tokens
    """The node that stands for it: ``[ … ]``."""


@dataclass(frozen=True)
class GoldQuery:
    """A query in parts. ``patterns`` are the outer ones but for names and types; ``inner`` are those in filters and in
    OPTIONAL."""

    schema: Schema
    parts: QueryParts
    entities: tuple[Named, ...]
    patterns: tuple[TriplePattern, ...]
    inner: tuple[TriplePattern, ...]
    types: tuple[TriplePattern, ...] = ()
    """The patterns that say of what class a node is."""
    facts: tuple[Fact, ...] = ()
    """Those with qualifiers, where the KG has such."""

    def variables(self, entities: Sequence[Named]) -> dict[Token, str]:
        """The variable of each of the entities that the query has by their ids or other names."""
        return {entity.term: f"?e{place}" for place, entity in enumerate(entities)}

    def node(self, entity: Named, variables: Mapping[Token, str]) -> str:
        """The variable around which to look for what an entity leads to."""
        return variables[entity.term]

    def finding(self, entity: Named) -> tuple[Tokens, ...]:
        """The statements that find that variable by the entity's name."""
        return (self.name_statement(entity),)

    def is_named(self, entity: Named, observation: str) -> bool:
        """Whether SearchNodes shows an entity."""
        return f"'{quoted(entity.names[0])} | " in observation

    def is_shown(self, chain: Chain, observation: str) -> bool:
        """Whether SearchGraphPatterns shows a chain."""
        return (f", {chain}, ?e)" if chain.inverse else f"(?e, {chain}, ") in observation

    def statements(self, edge: Edge, pattern: TriplePattern) -> tuple[Tokens, ...]:
        """What the outer group says of an edge; nothing of one within a filter."""
        return (statement(pattern),) if pattern.depth == 1 else ()

    def starts(self, variables: Mapping[Token, str]) -> tuple[Edge, ...]:
        """The edges by whose value a node is found that no entity may lead to."""
        return ()

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The literals that the query compares with: texts, numbers, and of dates the year."""
        tokens = [token for part in self.parts.rest for token in part]
        return values_of([*tokens, *(token for p in self.with_values for token in (*p.subject, *p.object))])

    @property
    def with_values(self) -> tuple[TriplePattern, ...]:
        """The outer patterns that may have a literal to compare with."""
        return self.patterns

    def edge(self, pattern: TriplePattern, variables: Mapping[Token, str]) -> Edge:
        """A pattern with the entities under their variables."""
        relation = self.schema.compact(pattern.predicate[0].text)
        subject, end = (self.write(node, variables) for node in (pattern.subject, pattern.object))
        return Edge(subject, relation, end)

    def name_statement(self, entity: Named) -> Tokens:
        """What finds an entity by its name, as the interactive protocol writes it."""
        predicate = Token("IRI", self.schema.expand(self.schema.name_predicates[0]))
        language = [Token("LANG", f"@{self.schema.languages[0]}")] if self.schema.languages[0] else []
        return (entity.term, predicate, Token("STRING", entity.names[0]), *language, DOT)

    def state(self, node: str, statements: Iterable[Tokens], variables: Mapping[Token, str]) -> str:
        """The query of SearchGraphPatterns: a node as ``?e``, found by the statements that lead to it."""
        center = {term: "?e" for term, variable in variables.items() if variable == node}
        center = center or {Token("VAR", "e"): "?e0", Token("VAR", node[1:]): "?e"}
        body = " ".join(self.write(statement, {**variables, **center}) for statement in statements)
        return f"SELECT ?e WHERE {{ {body} }}"

    def qualifiers(self, fact: Fact, ways: Iterable[Tokens], variables: Mapping[Token, str]) -> str:
        """The query that lists the qualifiers of a fact, found by the statements that lead to its ends."""
        body = " ".join(self.write(tokens, variables) for tokens in [*ways, fact.bracket])
        return f"SELECT DISTINCT ?p (SAMPLE(?v) AS ?v) WHERE {{ {body} ?p ?v . }} GROUP BY ?p"

    def whole(self, statements: Iterable[Tokens], variables: Mapping[Token, str]) -> str:
        """The query anew, of statements for its outer patterns and of what it has beside them."""
        parts = [self.parts.head, (Token("PUNCT", "{"),), *statements, *self.parts.rest, (Token("PUNCT", "}"),)]
        return " ".join(self.write(part, variables) for part in (*parts, self.parts.tail) if part)

    def write(self, tokens: Iterable[Token], variables: Mapping[Token, str]) -> str:
        """Tokens as text: entities as their variables, IRIs short where a prefix is known."""
        text, before = "", None
        for token in tokens:
            close = token.kind == "LANG" or (token.kind == "PUNCT" and token.text in ("^^", ")", ","))
            if before is None:
                close = True
            elif before.kind == "PUNCT":
                close |= before.text in ("^^", "(", "!")
            elif token == ("PUNCT", "(") and before.kind in ("WORD", "IRI"):
                close |= before.word() not in _SPACED
            text += ("" if close else " ") + (variables.get(token) or self._term(token))
            before = token
        return text

    def _term(self, token: Token) -> str:
        return self.short_iri(token.text) if token.kind == "IRI" else token.written()

    def short_iri(self, iri: str) -> str:
        return short_iri(iri, self.schema)


def values_of(tokens: Iterable[Token]) -> tuple[str, ...]:
    """The literals among tokens: texts, numbers, and of dates the year."""
    found = (token.text for token in tokens if token.kind in ("STRING", "NUMBER"))
    years = (year[0] if (year := _YEAR.match(text)) else text for text in found)
    return tuple(dict.fromkeys(text for text in years if text))


def statement(pattern: TriplePattern) -> Tokens:
    """A pattern as a statement of its own."""
    return (*pattern.subject, *pattern.predicate, *pattern.object, DOT)


_SPACED = ("SELECT", "DISTINCT", "WHERE", "IN", "VALUES", "BY")


def short_iri(iri: str, schema: Schema) -> str:
    """An IRI with a prefix that needs no declaration, or in full.

    >>> from graphwalker.kg.schema import load_schema
    >>> short_iri("http://rdf.freebase.com/ns/people.person.gender", load_schema("freebase"))
    'ns:people.person.gender'
    """
    prefixes = {**{p: base for p, base in schema.namespaces.items() if p}, **KNOWN_PREFIXES}
    fitting = [(len(base), prefix, iri[len(base) :]) for prefix, base in prefixes.items() if iri.startswith(base)]
    _, prefix, local = max(fitting, default=(0, "", ""))
    return f"{prefix}:{local}" if _LOCAL.fullmatch(local) else f"<{iri}>"


def gold_parts(sparql: str, schema: Schema, *, rename: bool = True) -> QueryParts:
    """A gold query in parts, its IRIs whole. With ``rename`` a variable that would be an entity here gets another name.

    Raises `NotWalkable` for what cannot be read.
    """
    base = [Token("WORD", "BASE"), Token("IRI", schema.namespaces[""])] if "" in schema.namespaces else []
    try:
        tokens = normal_tokens([*base, *tokenize(sparql)], schema.namespaces, dates=False)
        return query_parts([_renamed(token) for token in tokens] if rename else tokens)
    except QueryRefused as error:
        raise NotWalkable(f"its SPARQL cannot be read: {error}") from error


def read_gold(question: Question, store: KGStore) -> GoldQuery:
    """The gold query of a question: its SPARQL, or what its gold paths say.

    Raises `NotWalkable` where there is neither, and for what the interactive tools cannot find.
    """
    return _Reader(store, _unwrapped(gold_parts(gold_sparql(question, store), store.schema))).read()


def _renamed(token: Token) -> Token:
    return Token("VAR", f"v{token.text}") if token.kind == "VAR" and _OURS.fullmatch(token.text) else token


def _unwrapped(parts: QueryParts) -> QueryParts:
    """GrailQA's ``SELECT (?x0 AS ?value) { SELECT DISTINCT ?x0 { … } }`` as the query inside; its count likewise."""
    head = [token.written() for token in parts.head]
    if len(parts.rest) != 1 or parts.rest[0][0].word() != "SELECT" or any(p.depth == 1 for p in parts.patterns):
        return parts
    inner = list(parts.rest[0])
    count = head[:4] == ["SELECT", "(", "COUNT", "("]
    asked = head[4 if count else 2 : 5 if count else 3]
    if inner[1].word() != "DISTINCT" or [inner[2].written()] != asked or inner[3].kind == "VAR":
        return parts
    if count:
        distinct = tokenize(" ".join([*head[:4], "DISTINCT", *head[4:]]))
        inner = [*distinct, *inner[4 if inner[3].word() == "WHERE" else 3 :]]
    return query_parts([*inner, *parts.tail])


class _Reader:
    def __init__(self, store: KGStore, parts: QueryParts):
        self.store, self.schema, self.parts = store, store.schema, parts
        self._typing = {self.schema.compact(RDF_TYPE), "a", *self.schema.type_predicates}

    def read(self) -> GoldQuery:
        patterns = self.parts.patterns
        for pattern in patterns:
            self._check(pattern)
        named = [pattern for pattern in patterns if self._finds_by_name(pattern)]
        types = [
            p for p in patterns if self._relation(p) in self._typing and p.object[0].kind == "IRI" and p.depth == 1
        ]
        others = [pattern for pattern in patterns if pattern not in named and pattern not in types]
        entities = {p.subject[0]: Named(p.subject[0], (p.object[0].text,)) for p in named}
        rest = []
        for part in self.parts.rest:
            if (
                part[0].word() == "VALUES"
                and [t.written() for t in (part[2], part[-1])] == ["{", "}"]
                and len(part) == 5
            ):
                entities[part[1]] = Named(part[1], self._names(part[3]))
            elif not self._is_of_language(part):
                rest.append(part)
        nodes = [token for p in others for token in (*p.subject, *p.object)]
        known = {token for p in patterns for token in p.predicate}
        for token in [*nodes, *(token for part in rest for token in part if token not in known)]:
            if token.kind == "IRI" and token not in entities and not token.text.startswith(XSD):
                entities[token] = Named(token, self._names(token))
        if not entities:
            raise NotWalkable("it names no entity")
        outer, inner = (tuple(p for p in others if (p.depth == 1) is is_outer) for is_outer in (True, False))
        parts = replace(self.parts, rest=tuple(rest))
        return GoldQuery(self.schema, parts, tuple(entities.values()), outer, inner, tuple(types))

    def _finds_by_name(self, pattern: TriplePattern) -> bool:
        is_name = self._relation(pattern) in self.schema.name_predicates
        return (
            is_name and pattern.depth == 1 and pattern.subject[0].kind == "VAR" and pattern.object[0].kind == "STRING"
        )

    def _relation(self, pattern: TriplePattern) -> str:
        return self.schema.compact(pattern.predicate[0].text) if len(pattern.predicate) == 1 else ""

    def _check(self, pattern: TriplePattern) -> None:
        if len(pattern.predicate) > 1:
            raise NotWalkable("it has a property path")
        if pattern.predicate[0].kind == "VAR":
            raise NotWalkable("it asks for a relation")

    def _is_of_language(self, part: Sequence[Token]) -> bool:
        """WebQSP's filter on the language of literals, which names here have anyway."""
        words = {token.word() for token in part} - {"", "FILTER"}
        return bool(words) and words <= _LANGUAGE_WORDS

    def _names(self, token: Token) -> tuple[str, ...]:
        return (name_of(token, self.store), *self.store.aliases(self.schema.compact(token.text)))


def name_of(token: Token, store: KGStore) -> str:
    """What the KG calls an entity of a query; raises `NotWalkable` where it does not have it, or no name for it."""
    node = store.schema.compact(token.text)
    name = store.names([node])[0] if token.kind == "IRI" and store.has_node(node) else None
    if name is None:
        raise NotWalkable("an entity of its query is not in the KG, or has no name there")
    return name
