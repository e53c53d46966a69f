"""The actor's trajectories from gold queries, on any KG: the interactive protocol walked to a known end.

For each entity that the gold query names: SearchNodes by the words that the question has for it, then
SearchGraphPatterns around it and around what its relations lead to, until every relation of the query was shown; then
the query, put together of what was shown, and Done. Every step runs through the environment of training and inference.

What a step takes of the gold is which of the entities, classes and relations shown are right. All else is the
question's: a name is looked for by its own words, the meaning of a pattern search is its words beside the entities, and
a value must stand in it. A question whose next step would need what no tool has shown is dropped, with the reason.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from data_pipelines.carry_on import Made
from data_pipelines.gold_kqapro import read_kqapro
from data_pipelines.gold_queries import Chain, Edge, Fact, Named, NotWalkable, read_gold, statement, values_of
from data_pipelines.importers.counts import Counts
from data_pipelines.mentions import Span, content_words, find_mention
from data_pipelines.support import has_number
from envs.kbqa_env import KBQAEnv
from graphwalker.errors import KGUnavailable
from graphwalker.kg.sparql_patterns import Tokens, TriplePattern
from graphwalker.protocol.interactive import (
    DONE,
    EXECUTE,
    SEARCH_NODES,
    SEARCH_PATTERNS,
    SEARCH_TYPES,
    format_call,
    render_turn,
)
from graphwalker.rewards import em_set
from graphwalker.tools.kbqa.forms import quoted
from graphwalker.types import Question, Trajectory


def actor_trajectories(
    questions: Iterable[Question], env: KBQAEnv, *, counts: Counts, made: Made | None = None
) -> Iterator[Trajectory]:
    """Trajectories of the questions whose gold can be walked, in order; the others are counted with the reason.

    What an interrupted run had ``made`` of the first questions is not made again. A trajectory is kept when its result
    is the question's gold (``em_set`` = 1). Raises `KGUnavailable` when the graph is out of order.
    """
    for place, question in enumerate(questions):
        if made is not None and place < len(made.records):
            record = made.records[place]
        else:
            record = _record(env, question)
            if made is not None:
                made.append(record)
        if "why_not" in record:
            counts.drop(record["why_not"], question.id)
        else:
            counts.kept += 1
            yield Trajectory.from_json(record)


def _record(env: KBQAEnv, question: Question) -> dict[str, Any]:
    """The question's trajectory as JSON, or why there is none."""
    try:
        return _Walk(env, question).run().to_json()
    except NotWalkable as reason:
        return {"why_not": str(reason)}


class _Walk:
    """One question's episode."""

    def __init__(self, env: KBQAEnv, question: Question):
        self.env, self.question = env, question
        self.gold = (read_kqapro if env.toolbox.kind == "kqapro" else read_gold)(question, env.toolbox.store)
        spans: dict[Named, Span] = {}
        for entity in self.gold.entities:
            if (span := find_mention(question.text, entity.names)) is not None:
                spans[entity] = span
            elif entity.members is None or not entity.outer:  # a concept that is not named is left out, as a class is
                raise NotWalkable("an entity of its query is not named in the question")
        self.entities = sorted(spans, key=lambda entity: (entity.members is not None, spans[entity]))
        self.mentions = {entity: question.text[slice(*spans[entity])] for entity in self.entities}
        self.variables = self.gold.variables(self.entities)
        self.anchors = {entity: self.gold.node(entity, self.variables) for entity in self.entities}
        self.meaning = content_words(question.text, spans.values())
        self.edges = {self.gold.edge(p, self.variables): p for p in (*self.gold.patterns, *self.gold.inner)}
        self.shown: dict[Edge, None] = {}
        self.ways: dict[str, list[Tokens]] = {}
        """For each node that was reached the patterns that lead to it."""
        self.searched: set[str] = set()
        """The queries around which patterns were looked for."""
        self.statements: dict[Tokens, None] = {}
        """The final query's patterns, in the order in which they were found."""
        self.found = ""
        """What the last observation gave, for the next thought."""

    def run(self) -> Trajectory:
        self.env.reset(options={"question": self.question})
        for pattern in self.gold.types:
            self._find_type(pattern)
        for entity in self.entities:
            self._find_entity(entity)
        for edge in self.gold.starts(self.variables):
            if edge not in self.shown and edge.subject not in self.ways:
                self._find_by_value(edge)
        for node in list(self.ways):  # from the other end, where one did not show a relation
            self._look_around(node, node)
        if len(self.shown) < len(self.edges):
            raise NotWalkable("SearchGraphPatterns does not show a relation of its query")
        for fact in self.gold.facts:
            self._find_qualifiers(fact)
        self._check_values(self.gold.values)
        self._say("Now I can write the query.", EXECUTE, self.gold.whole(self.statements, self.variables))
        self.found = ""
        self._say("The last result is the answer.", DONE)
        trajectory = self.env.trajectory()
        if em_set(trajectory.answer or (), self.question.answers) < 1:
            raise NotWalkable("its query gives another answer than its gold here")
        return replace(trajectory, extra={**trajectory.extra, "source": "gold"})

    def _find_type(self, pattern: TriplePattern) -> None:
        """A class that the question does not name is left out of the query: relations mostly imply it."""
        kind = self.gold.schema.compact(pattern.object[0].text)
        span = find_mention(self.question.text, [kind.rpartition(".")[2].replace("_", " ")])
        if span is None or SEARCH_TYPES not in self.env.toolbox.tools:
            return
        word = self.question.text[slice(*span)]
        observation = self._say(f"I look for the class {quoted(word)}.", SEARCH_TYPES, word)
        if f"'{kind}'" not in observation:
            raise NotWalkable("SearchTypes does not show a class of its query")
        self.found = f"{quoted(kind)} is the class I want."
        self.statements[statement(pattern)] = None

    def _find_entity(self, entity: Named) -> None:
        mention, name = self.mentions[entity], quoted(entity.names[0])
        observation = self._say(f"I look for the node {quoted(mention)}.", SEARCH_NODES, mention)
        if not self.gold.is_named(entity, observation):
            raise NotWalkable("SearchNodes does not show an entity of its query")
        self.found = f"{name} is the node I want."
        way = self.gold.finding(entity)
        if entity.outer:
            self.statements |= dict.fromkeys(way)
        self.ways[self.anchors[entity]] = list(way)
        self._look_around(self.anchors[entity], name)

    def _find_by_value(self, edge: Edge) -> None:
        """A node that nothing but a value tells: its relation is looked for in the whole graph."""
        said = self._say("I look for a relation to that value.", SEARCH_PATTERNS, "SELECT ?e WHERE {}", self.meaning)
        if f"'<{edge.relation}>'" not in said:
            raise NotWalkable("SearchGraphPatterns does not show a relation of its query")
        self.found = f"{edge.relation} is a predicate I want."
        way = self.gold.statements(edge, self.edges[edge])
        self._check_values(values_of(token for tokens in way for token in tokens))
        self.ways[edge.subject] = list(way)
        self._take(Chain((edge,), False, edge.object), [])
        self._look_around(edge.subject, "that")

    def _find_qualifiers(self, fact: Fact) -> None:
        """The qualifiers of a fact whose relation was shown: a query lists them, as the prompt explains."""
        ends = dict.fromkeys([*self.ways.get(fact.edge.subject, ()), *self.ways.get(fact.edge.object, ())])
        query = self.gold.qualifiers(fact, ends, self.variables)
        observation = self._say(f"I look for the qualifiers of {fact.edge.relation}.", EXECUTE, query)
        if not all(f"('{qualifier}', " in observation for qualifier in fact.qualifiers):
            raise NotWalkable("a qualifier of its query is not among those that its fact has")
        self.found = " ".join(f"{qualifier} is a qualifier I want." for qualifier in fact.qualifiers)
        self.statements |= dict.fromkeys(fact.statements)

    def _look_around(self, node: str, called: str) -> None:
        """Search the patterns of a node with relations of the query that were not shown, and go on where they lead."""
        waiting = set(self.anchors.values()) - self.ways.keys()
        chains = [chain for chain in self._chains(node) if not self.shown.keys() >= set(chain.edges)]
        query = self.gold.state(node, self.ways[node], self.variables)
        if query in self.searched or all(chain.far in waiting for chain in chains):
            return
        self.searched.add(query)
        observation = self._say(f"I look for what {called} has.", SEARCH_PATTERNS, query, self.meaning)
        fitting = [chain for chain in chains if self.gold.is_shown(chain, observation)]
        relations = dict.fromkeys(map(str, fitting))
        self.found = " ".join(f"{relation} is a predicate I want." for relation in relations)
        for chain in fitting:
            self._take(chain, self.ways[node])
        for chain in fitting:
            if chain.far in self.ways:
                self._look_around(chain.far, "that")

    def _take(self, chain: Chain, way: Sequence[Tokens]) -> None:
        for edge in chain.edges:
            if edge not in self.shown:
                self.statements |= dict.fromkeys(self.gold.statements(edge, self.edges[edge]))
            self.shown[edge] = None
        if chain.far.startswith("?") and chain.far not in self.anchors.values():
            self.ways.setdefault(chain.far, [*way, *(statement(self.edges[edge]) for edge in chain.edges)])

    def _chains(self, node: str) -> list[Chain]:
        """The query's edges at a node, alone and, over a variable, in pairs of one direction."""
        found = []
        for edge in self.edges:
            for inverse, near, far in ((False, edge.subject, edge.object), (True, edge.object, edge.subject)):
                if near != node:
                    continue
                found.append(Chain((edge,), inverse, far))
                if not far.startswith("?") or far in self.anchors.values():
                    continue
                for other in self.edges:
                    if not inverse and other.subject == far and other.object != node:
                        found.append(Chain((edge, other), False, other.object))
                    if inverse and other.object == far and other.subject != node:
                        found.append(Chain((other, edge), True, other.subject))
        return found

    def _check_values(self, values: Iterable[str]) -> None:
        texts = [self.question.text, *(turn.observation for turn in self.env.trajectory().turns)]
        seen = "\n".join(texts).casefold()
        if not all(value.casefold() in seen or has_number(value, seen) for value in values):
            raise NotWalkable("a value of its query is neither in the question nor in an observation")

    def _say(self, thought: str, tool: str, *arguments: str) -> str:
        text = render_turn(f"{self.found} {thought}", format_call(tool, *arguments))
        observation, _, answered, over, info = self.env.step(text)
        if over:
            if info["outage"]:
                raise KGUnavailable(f"question {self.question.id}: {info['message']}", "kg_error")
            raise NotWalkable("it takes more turns than there are")
        if not answered and info["status"] not in ("ok", "empty"):
            raise NotWalkable(f"a call came back {info['status']}")
        return observation
