"""KQA Pro's gold queries walked through the interactive tools (Cao et al. 2022; MCTS-KBQA, section 3.1).

Its queries name entities and concepts by ``<pred:name>``, keep values in nodes of their own and qualify facts in
brackets. So an entity or a concept is looked up by SearchNodes, a relation or an attribute by SearchGraphPatterns, in
the whole graph where the query names nothing, and what qualifies a fact by a query that lists its qualifiers, as in
the dialogues of Interactive-KBQA. The query is the gold one, in the tools' spelling.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from data_pipelines.actor_walk import Walk
from data_pipelines.gold_queries import NotWalkable, write_tokens
from data_pipelines.mentions import Span, content_words, find_mention
from envs.kbqa_env import KBQAEnv
from graphwalker.errors import QueryRefused
from graphwalker.kg.dialect import normal_tokens
from graphwalker.kg.schema import Schema
from graphwalker.kg.sparql_patterns import query_parts
from graphwalker.kg.sparql_tokens import Token, tokenize
from graphwalker.kg.terms import XSD
from graphwalker.protocol.interactive import EXECUTE, SEARCH_NODES, SEARCH_PATTERNS
from graphwalker.tools.kbqa.forms import quoted
from graphwalker.types import Question

NAME, INSTANCE_OF, HEAD, RELATION, TAIL = (
    "pred:name", "pred:instance_of", "pred:fact_h", "pred:fact_r", "pred:fact_t",
)  # fmt: skip
PARTS = ("pred:value", "pred:unit", "pred:date", "pred:year")
_YEAR = re.compile(r"-?\d{4}(?=-\d\d-\d\d$)")


@dataclass(frozen=True, slots=True)
class Statement:
    """A pattern: ends as they are written, the predicate as the KG prints it ("" for a variable), its place."""

    subject: str
    predicate: str
    object: str
    place: int

    def written(self) -> str:
        return f"{self.subject} <{self.predicate}> {self.object} ."


@dataclass(frozen=True)
class KQAProQuery:
    """A gold query as its tokens and its statements, of all groups, in order."""

    schema: Schema
    tokens: tuple[Token, ...]
    statements: tuple[Statement, ...]

    def of(self, *predicates: str) -> list[Statement]:
        return [statement for statement in self.statements if statement.predicate in predicates]

    @cached_property
    def names(self) -> list[Statement]:
        """The statements that give a name: what SearchNodes has to find."""
        return [statement for statement in self.of(NAME) if statement.object.startswith('"')]

    @cached_property
    def facts(self) -> dict[str, dict[str, Statement]]:
        """The brackets: of each the statements of what it qualifies, by predicate."""
        found: dict[str, dict[str, Statement]] = {}
        for statement in self.of(HEAD, RELATION, TAIL):
            found.setdefault(statement.subject, {})[statement.predicate] = statement
        return found

    @cached_property
    def edges(self) -> list[Statement]:
        """The relations and attributes that SearchGraphPatterns has to show."""
        others = (NAME, INSTANCE_OF, HEAD, RELATION, TAIL, *PARTS, "")
        return [s for s in self.statements if s.predicate not in others and s.subject not in self.facts]

    @cached_property
    def values(self) -> list[str]:
        """The literals that are no names: texts, units, numbers, and of dates the year."""
        names = {statement.object for statement in self.names}
        found = []
        for before, token in zip((Token("WORD", ""), *self.tokens), self.tokens, strict=False):
            if token.kind == "STRING" and token.written() not in names and token.text:
                year = _YEAR.match(token.text)
                found.append(year[0] if year else token.text)
            elif token.kind == "NUMBER" and before.word() not in ("LIMIT", "OFFSET"):
                found.append(token.text)
        return found

    def text(self) -> str:
        """The query as the tools' users write it."""
        return write_tokens(self.tokens, lambda token: _written(token, self.schema))


def read_kqapro(question: Question, schema: Schema) -> KQAProQuery:
    """The gold query of a question; raises `NotWalkable` where there is none that can be read."""
    if not question.sparql:
        raise NotWalkable("it has no SPARQL")
    try:
        base = f"BASE <{schema.namespaces['']}> "
        tokens = normal_tokens(tokenize(base + question.sparql), schema.namespaces, dates=False)
        patterns = query_parts(tokens).patterns
    except QueryRefused as error:
        raise NotWalkable(f"its SPARQL cannot be read: {error}") from error
    statements = []
    for place, pattern in enumerate(patterns):
        if len(pattern.predicate) > 1:
            raise NotWalkable("it has a property path")
        (predicate,) = pattern.predicate
        ends = [write_tokens(end, lambda token: _written(token, schema)) for end in (pattern.subject, pattern.object)]
        name = schema.compact(predicate.text) if predicate.kind == "IRI" else ""
        statements.append(Statement(ends[0], name, ends[1], place))
    return KQAProQuery(schema, tuple(tokens), tuple(statements))


def _written(token: Token, schema: Schema) -> str:
    if token.kind != "IRI":
        return token.written()
    if token.text.startswith(XSD):
        return f"xsd:{token.text.removeprefix(XSD)}"
    return f"<{schema.compact(token.text)}>"


class KQAProWalk(Walk):
    """A query of KQA Pro."""

    def __init__(self, env: KBQAEnv, question: Question):
        super().__init__(env, question)
        self.gold = read_kqapro(question, env.toolbox.store.schema)
        self.spans: dict[Statement, Span] = {}
        for named in self.gold.names:
            if (span := find_mention(question.text, [tokenize(named.object)[0].text])) is None:
                raise NotWalkable("an entity or a concept of its query is not named in the question")
            self.spans[named] = span
        self.meaning = content_words(question.text, self.spans.values())
        self.waiting = list(self.gold.edges)
        self.ways: dict[str, list[tuple[int, str]]] = {}
        """For each variable that was reached the statements that lead to it, and the place of the last of these."""
        self.searched: set[str] = set()

    def look_up(self) -> str:
        for named in sorted(self.gold.names, key=lambda named: self.spans[named]):
            self._find_node(named)
            self._look_around()
        if not self.gold.names:
            self._look_anywhere()
        if self.waiting:
            raise NotWalkable("SearchGraphPatterns does not show a relation of its query")
        for fact in self.gold.facts:
            self._find_qualifiers(fact)
        self.check_values(self.gold.values)
        return self.gold.text()

    def _find_node(self, named: Statement) -> None:
        mention = self.question.text[slice(*self.spans[named])]
        observation = self.say(f"I look for the node {quoted(mention)}.", SEARCH_NODES, mention)
        if not any(f"{mark}{named.object[1:-1]} | " in observation for mark in "'\""):
            raise NotWalkable("SearchNodes does not show an entity of its query")
        self.found = f"{named.object} is the node I want."
        self._reach(named.subject, named.place, named.written())
        for member in self.gold.of(INSTANCE_OF):
            if member.object == named.subject:
                self._reach(member.subject, member.place, f"{member.written()} {named.written()}")

    def _reach(self, variable: str, place: int, way: str) -> None:
        self.ways.setdefault(variable, []).append((place, way))

    def _look_around(self) -> None:
        """Search the patterns of what was reached for relations that were not shown, and go on where they lead."""
        concepts = {member.object for member in self.gold.of(INSTANCE_OF)}
        while asked := next(self._askable(concepts), None):
            edge, variable, way = asked
            query = _about(variable, way)
            self.searched.add(query)
            observation = self.say(f"I look for what {_called(way)} has.", SEARCH_PATTERNS, query, self.meaning)
            shown = [e for e in self.waiting if variable in (e.subject, e.object) and _shown(e, variable, observation)]
            self.found = " ".join(f"<{e.predicate}> is a predicate I want." for e in shown)
            for edge in shown:
                self.waiting.remove(edge)
                far = edge.object if edge.subject == variable else edge.subject
                if far.startswith("?"):
                    self._reach(far, edge.place, f"{way} {edge.written()}")

    def _askable(self, concepts: set[str]) -> Iterator[tuple[Statement, str, str]]:
        """What is to be searched next: an edge, its end that was reached, and the way there nearest before the edge."""
        for edge in self.waiting:
            for variable in (edge.subject, edge.object):
                for _, way in sorted(self.ways.get(variable, ()), key=lambda w: (w[0] > edge.place, -w[0])):
                    if variable not in concepts and _about(variable, way) not in self.searched:
                        yield edge, variable, way

    def _look_anywhere(self) -> None:
        """Of a query that names nothing, each relation by the patterns of the whole graph."""
        for edge in list(self.waiting):
            observation = self.say("I look for a predicate.", SEARCH_PATTERNS, "SELECT ?e WHERE { }", self.meaning)
            if f"<{edge.predicate}>" not in observation:
                return
            self.found = f"<{edge.predicate}> is a predicate I want."
            self.waiting.remove(edge)
            values = [s.written() for s in self.gold.of(*PARTS) if s.subject == edge.object]
            self._reach(edge.subject, edge.place, " ".join([edge.written(), *values]))
            self._look_around()

    def _find_qualifiers(self, fact: str) -> None:
        about = self.gold.facts[fact]
        if len(about) < 3:
            raise NotWalkable("a fact of its query is not said in full")
        head, relation, tail = (about[p].object for p in (HEAD, RELATION, TAIL))
        ways = self.ways.get(head, [(0, "")])
        named = [s.written() for s in self.gold.names if s.subject == tail]
        values = [s.written() for s in self.gold.of(*PARTS) if s.subject == tail and not s.object.startswith("?")]
        edge = f"{head} {relation} {tail} ."
        way = " ".join(dict.fromkeys([ways[-1][1], edge, *named, *values])).strip()
        bracket = f"[ <{HEAD}> {head} ; <{RELATION}> {relation} ; <{TAIL}> {tail} ]"
        query = f"SELECT DISTINCT ?p (SAMPLE(?x) AS ?sample) WHERE {{ {way} {bracket} ?p ?x . }}"
        observation = self.say(f"I look for what qualifies {relation}.", EXECUTE, query)
        for statement in self.gold.statements:
            if statement.subject == fact and statement.predicate not in (HEAD, RELATION, TAIL, ""):
                if f"('{statement.predicate}', " not in observation:
                    raise NotWalkable("a query for the qualifiers of a fact does not show one of its query")
                self.found = f"<{statement.predicate}> is the qualifier I want."


def _about(variable: str, way: str) -> str:
    """The query of SearchGraphPatterns: what a way leads to as ``?e``, another ``?e`` under another name."""
    others = {variable[1:]: "e", "e": variable[1:]}
    renamed = [Token("VAR", others.get(t.text, t.text)) if t.kind == "VAR" else t for t in tokenize(way)]
    return f"SELECT ?e WHERE {{ {write_tokens(renamed, Token.written)} }}"


def _called(way: str) -> str:
    names = re.findall(r'<pred:name> ("(?:[^"\\]|\\.)*") \.$', way)
    return names[0] if names else "that"


def _shown(edge: Statement, variable: str, observation: str) -> bool:
    if edge.subject == variable and f"?e <{edge.predicate}> ?" in observation:
        return True
    return edge.object == variable and f" <{edge.predicate}> ?e ." in observation
