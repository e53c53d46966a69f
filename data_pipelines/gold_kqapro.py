"""KQA Pro's gold queries (Cao et al. 2022) as an actor has to find them.

A name is a plain literal of a variable, ``?e <pred:name> "Old Town"``; a concept names what its members are, ``?e
<pred:instance_of> ?c``; an attribute leads to a node with ``pred:value`` and ``pred:unit``, ``pred:date`` or
``pred:year``, which the prompt explains, so that only the attribute has to be shown; qualifiers hang on a node that
stands for a fact, and a query of its own lists them (Interactive-KBQA's prompt for KQA Pro, tool 2, example 2).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from data_pipelines.gold_paths import NotWalkable, gold_sparql
from data_pipelines.gold_queries import (
    DOT,
    Chain,
    Edge,
    Fact,
    GoldQuery,
    Named,
    gold_parts,
    name_of,
    statement,
)
from graphwalker.kg.sparql_patterns import Tokens, TriplePattern
from graphwalker.kg.sparql_tokens import Token
from graphwalker.kg.store import KGStore
from graphwalker.kg.terms import XSD
from graphwalker.tools.kbqa.forms import quoted
from graphwalker.tools.kbqa.kqapro import INSTANCE_OF, NAME, PARTS
from graphwalker.types import Question

FACT = ("pred:fact_h", "pred:fact_r", "pred:fact_t")


@dataclass(frozen=True)
class KQAProGold(GoldQuery):
    """A query of KQA Pro's, whose entities are variables already."""

    of_values: tuple[TriplePattern, ...] = ()
    """The patterns of the nodes of values."""
    unlisted: tuple[Tokens, ...] = ()
    """The patterns that ask for a relation or a name, which stay as they are."""

    def variables(self, entities: Sequence[Named]) -> dict[Token, str]:
        return super().variables([entity for entity in entities if entity.term.kind == "IRI"])

    def node(self, entity: Named, variables: Mapping[Token, str]) -> str:
        return self.write([entity.members or entity.term], variables)

    def finding(self, entity: Named) -> tuple[Tokens, ...]:
        named = self.name_statement(entity)
        if entity.members is None:
            return (named,)
        return ((entity.members, self._iri(INSTANCE_OF), entity.term, DOT), named)

    def name_statement(self, entity: Named) -> Tokens:
        return (entity.term, self._iri(NAME), Token("STRING", entity.names[0]), DOT)

    def is_named(self, entity: Named, observation: str) -> bool:
        name = quoted(entity.names[0])[1:-1]
        return any(f"{quote}{name} | " in observation for quote in "'\"")

    def is_shown(self, chain: Chain, observation: str) -> bool:
        way = f"?h <{chain}> ?e ." if chain.inverse else f"?e <{chain}> ?"
        return len(chain.edges) == 1 and way in observation

    def statements(self, edge: Edge, pattern: TriplePattern) -> tuple[Tokens, ...]:
        own = super().statements(edge, pattern)
        return own + tuple(statement(p) for p in self._parts(pattern.object) if p.depth == 1)

    @property
    def with_values(self) -> tuple[TriplePattern, ...]:
        return (*self.patterns, *self.of_values)

    def starts(self, variables: Mapping[Token, str]) -> tuple[Edge, ...]:
        return tuple(
            self.edge(pattern, variables)
            for pattern in self.patterns
            if any(part.object[0].kind in ("STRING", "NUMBER") for part in self._parts(pattern.object))
        )

    def whole(self, statements: Iterable[Tokens], variables: Mapping[Token, str]) -> str:
        return super().whole(dict.fromkeys([*statements, *self.unlisted]), variables)

    def short_iri(self, iri: str) -> str:
        return super().short_iri(iri) if iri.startswith(XSD) else f"<{self.schema.compact(iri)}>"

    def _parts(self, node: Tokens) -> list[TriplePattern]:
        return [part for part in self.of_values if part.subject == node]

    def _iri(self, short: str) -> Token:
        return Token("IRI", self.schema.expand(short))


def read_kqapro(question: Question, store: KGStore) -> KQAProGold:
    """As `data_pipelines.gold_queries.read_gold`, on a KG with the schema kqapro."""
    return _Reader(store, gold_sparql(question, store)).read()


class _Reader:
    def __init__(self, store: KGStore, sparql: str):
        self.store, self.schema = store, store.schema
        self.parts = gold_parts(sparql, store.schema, rename=False)

    def read(self) -> KQAProGold:
        patterns = self.parts.patterns
        if any(len(pattern.predicate) > 1 for pattern in patterns):
            raise NotWalkable("it has a property path")
        of = {pattern: self._relation(pattern) for pattern in patterns}
        names = [p for p in patterns if of[p] == NAME and p.object[0].kind == "STRING"]
        kinds = [p for p in patterns if of[p] == INSTANCE_OF and p.object[0] in {n.subject[0] for n in names}]
        values = [p for p in patterns if of[p] in PARTS]
        stated = {p.subject[0] for p in patterns if of[p] in FACT}
        about = [p for p in patterns if p.subject[0] in stated]
        unlisted = [p for p in patterns if p.predicate[0].kind == "VAR" or (of[p] == NAME and p not in names)]
        if any(p.subject[0] in stated for p in unlisted):
            raise NotWalkable("it asks for a qualifier's name")
        taken = {*names, *kinds, *values, *about, *unlisted}
        edges = [p for p in patterns if p not in taken]
        facts = [self._fact(node, about, values) for node in dict.fromkeys(p.subject[0] for p in about)]
        gold = KQAProGold(
            self.schema,
            self.parts,
            (*self._entities(names, kinds), *self._by_id(edges)),
            tuple(p for p in edges if p.depth == 1),
            tuple(p for p in edges if p.depth > 1),
            of_values=tuple(values),
            unlisted=tuple(statement(p) for p in unlisted if p.depth == 1),
        )
        gold = self._with_facts(gold, facts)
        ends = {p.object for p in (*edges, *about)}
        if any(p.subject not in ends for p in values):
            raise NotWalkable("it has a value that no relation leads to")
        return gold

    def _relation(self, pattern: TriplePattern) -> str:
        predicate = pattern.predicate[0]
        return self.schema.compact(predicate.text) if predicate.kind == "IRI" else ""

    def _entities(self, names: Sequence[TriplePattern], kinds: Sequence[TriplePattern]) -> list[Named]:
        found = []
        for pattern in names:
            node, name, outer = pattern.subject[0], (pattern.object[0].text,), pattern.depth == 1
            members = [kind for kind in kinds if kind.object[0] == node]
            found += [Named(node, name, kind.subject[0], outer and kind.depth == 1) for kind in members]
            found += [] if members else [Named(node, name, outer=outer)]
        return found

    def _by_id(self, edges: Sequence[TriplePattern]) -> list[Named]:
        """The nodes that the query of a gold path has by their ids."""
        relations = {p.predicate[0] for p in self.parts.patterns}
        relations |= {p.object[0] for p in self.parts.patterns if self._relation(p) == FACT[1]}
        tokens = [end for p in edges for end in (p.subject[0], p.object[0])]
        tokens += [token for part in self.parts.rest for token in part if token not in relations]
        ids = dict.fromkeys(t for t in tokens if t.kind == "IRI" and not t.text.startswith(XSD))
        return [Named(token, (name_of(token, self.store),)) for token in ids]

    def _fact(
        self, node: Token, about: Sequence[TriplePattern], values: Sequence[TriplePattern]
    ) -> tuple[TriplePattern, Fact]:
        """The fact that a node stands for, as a pattern too."""
        own = [p for p in about if p.subject[0] == node]
        ends = {self._relation(p): p for p in own}
        if not ends.keys() >= set(FACT) or [ends[part].object[0].kind for part in FACT] != ["VAR", "IRI", "VAR"]:
            raise NotWalkable("it has a fact without a relation or an end")
        head, relation, tail = (ends[part].object for part in FACT)
        inside = [token for part in FACT for token in (*ends[part].predicate, *ends[part].object, Token("PUNCT", ";"))]
        bracket = (Token("PUNCT", "["), *inside[:-1], Token("PUNCT", "]"))
        pattern = TriplePattern(head, relation, tail, ends[FACT[0]].depth)
        qualifying = [p for p in own if self._relation(p) not in FACT]
        said = [(*bracket, *p.predicate, *p.object, DOT) for p in qualifying if p.depth == 1]
        said += [statement(v) for p in qualifying for v in values if v.subject == p.object and v.depth == 1]
        edge = Edge(head[0].written(), self.schema.compact(relation[0].text), tail[0].written())
        return pattern, Fact(edge, tuple(self._relation(p) for p in qualifying), tuple(said), bracket)

    def _with_facts(self, gold: KQAProGold, facts: Sequence[tuple[TriplePattern, Fact]]) -> KQAProGold:
        """Facts are edges that must be shown, in either direction, though they state themselves."""
        known = {gold.edge(p, {}) for p in (*gold.patterns, *gold.inner)}
        inner = [
            replace(pattern, depth=2)
            for pattern, fact in facts
            if not known & {fact.edge, Edge(fact.edge.object, fact.edge.relation, fact.edge.subject)}
        ]
        return replace(gold, inner=(*gold.inner, *inner), facts=tuple(fact for _, fact in facts))
