"""The actor's trajectories from gold queries, on any KG: the interactive protocol walked to a known end.

For each entity that the gold query names: SearchNodes by the words that the question has for it, then
SearchGraphPatterns around it and around what its relations lead to, until every relation of the query was shown; then
the query, put together of what was shown, and Done. Every step runs through the environment of training and inference.

What a step takes of the gold is which of the entities, classes and relations shown are right. All else is the
question's: a name is looked for by its own words, the meaning of a pattern search is its words beside the entities, and
a value must stand in it. A question whose next step would need what no tool has shown is dropped, with the reason.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from data_pipelines.carry_on import Made
from data_pipelines.gold_queries import DOT, Edge, NotWalkable, read_gold
from data_pipelines.importers.counts import Counts
from data_pipelines.mentions import Span, content_words, find_mention
from envs.kbqa_env import KBQAEnv
from graphwalker.errors import KGUnavailable, UserError
from graphwalker.kg.sparql_patterns import Tokens, TriplePattern
from graphwalker.kg.sparql_tokens import Token
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
    is the question's gold (``em_set`` = 1). Raises ``UserError`` for an environment whose query language has other
    patterns (KQA Pro's), `KGUnavailable` when the graph is out of order.
    """
    if env.toolbox.kind == "kqapro":
        raise UserError("KQA Pro's values and qualifiers are not walked: import its dialogues, or have them annotated")
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


@dataclass(frozen=True, slots=True)
class _Chain:
    """One or two edges from a node, as SearchGraphPatterns shows them."""

    edges: tuple[Edge, ...]
    inverse: bool
    far: str

    def shown_in(self, observation: str) -> bool:
        between = " -> ".join(edge.relation for edge in self.edges)
        return (f", {between}, ?e)" if self.inverse else f"(?e, {between}, ") in observation


class _Walk:
    """One question's episode."""

    def __init__(self, env: KBQAEnv, question: Question):
        self.env, self.question = env, question
        self.gold = read_gold(question, env.toolbox.store)
        spans: dict[Token, Span] = {}
        for entity in self.gold.entities:
            if (span := find_mention(question.text, entity.names)) is None:
                raise NotWalkable("an entity of its query is not named in the question")
            spans[entity.term] = span
        self.entities = sorted(self.gold.entities, key=lambda entity: spans[entity.term])
        self.mentions = {entity.term: question.text[slice(*spans[entity.term])] for entity in self.entities}
        self.variables = {entity.term: f"?e{place}" for place, entity in enumerate(self.entities)}
        self.meaning = content_words(question.text, spans.values())
        self.edges = {self.gold.edge(p, self.variables): p for p in (*self.gold.patterns, *self.gold.inner)}
        self.shown: dict[Edge, None] = {}
        self.ways: dict[str, list[Tokens]] = {}
        """For each node that was reached the patterns that lead to it."""
        self.searched: set[str] = set()
        self.statements: list[Tokens] = []
        """The final query's patterns, in the order in which they were found."""
        self.found = ""
        """What the last observation gave, for the next thought."""

    def run(self) -> Trajectory:
        self.env.reset(options={"question": self.question})
        for pattern in self.gold.types:
            self._find_type(pattern)
        for entity in self.entities:
            self._find_entity(entity.term, entity.names[0])
            self.statements.append(self.gold.name_statement(entity))
            self.ways[self.variables[entity.term]] = [self.statements[-1]]
            self._look_around(self.variables[entity.term], quoted(entity.names[0]))
        for node in list(self.ways):  # from the other end, where one did not show a relation
            self._look_around(node, node)
        if len(self.shown) < len(self.edges):
            raise NotWalkable("SearchGraphPatterns does not show a relation of its query")
        self._check_values()
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
        self.statements.append(_statement(pattern))

    def _find_entity(self, term: Token, name: str) -> None:
        mention = self.mentions[term]
        observation = self._say(f"I look for the node {quoted(mention)}.", SEARCH_NODES, mention)
        if f"'{quoted(name)} | " not in observation:
            raise NotWalkable("SearchNodes does not show an entity of its query")
        self.found = f"{quoted(name)} is the node I want."

    def _look_around(self, node: str, called: str) -> None:
        """Search the patterns of a node with relations of the query that were not shown, and go on where they lead."""
        waiting = {self.variables[entity.term] for entity in self.entities} - self.ways.keys()
        chains = [chain for chain in self._chains(node) if not self.shown.keys() >= set(chain.edges)]
        if node in self.searched or all(chain.far in waiting for chain in chains):
            return
        self.searched.add(node)
        query = self.gold.state(node, self.ways[node], self.variables)
        observation = self._say(f"I look for what {called} has.", SEARCH_PATTERNS, query, self.meaning)
        fitting = [chain for chain in chains if chain.shown_in(observation)]
        relations = dict.fromkeys(" -> ".join(edge.relation for edge in chain.edges) for chain in fitting)
        self.found = " ".join(f"{relation} is a predicate I want." for relation in relations)
        for chain in fitting:
            self._take(chain, self.ways[node])
        for chain in fitting:
            if chain.far in self.ways:
                self._look_around(chain.far, "that")

    def _take(self, chain: _Chain, way: Sequence[Tokens]) -> None:
        for edge in chain.edges:
            if edge not in self.shown and self.edges[edge].depth == 1:
                self.statements.append(_statement(self.edges[edge]))
            self.shown[edge] = None
        if chain.far.startswith("?") and chain.far not in self.variables.values():
            self.ways.setdefault(chain.far, [*way, *(_statement(self.edges[edge]) for edge in chain.edges)])

    def _chains(self, node: str) -> list[_Chain]:
        """The query's edges at a node, alone and, over a variable, in pairs of one direction."""
        found = []
        for edge in self.edges:
            for inverse, near, far in ((False, edge.subject, edge.object), (True, edge.object, edge.subject)):
                if near != node:
                    continue
                found.append(_Chain((edge,), inverse, far))
                if not far.startswith("?") or far in self.variables.values():
                    continue
                for other in self.edges:
                    if not inverse and other.subject == far and other.object != node:
                        found.append(_Chain((edge, other), False, other.object))
                    if inverse and other.object == far and other.subject != node:
                        found.append(_Chain((other, edge), True, other.subject))
        return found

    def _check_values(self) -> None:
        texts = [self.question.text, *(turn.observation for turn in self.env.trajectory().turns)]
        seen = "\n".join(texts).casefold()
        if not all(value.casefold() in seen for value in self.gold.values):
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


def _statement(pattern: TriplePattern) -> Tokens:
    return (*pattern.subject, *pattern.predicate, *pattern.object, DOT)
