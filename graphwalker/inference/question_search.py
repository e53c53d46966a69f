"""One question's search under way: its tree, its searcher, what it has cost, and what it asks for now."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import Any

from graphwalker.errors import KGUnavailable
from graphwalker.inference.evaluate import episode_seed
from graphwalker.search.arg_answers import answer_table
from graphwalker.search.node import Node
from graphwalker.search.requests import (
    Begin,
    Claim,
    Consult,
    Expand,
    Judge,
    Score,
    Together,
    Verdict,
    Write,
    Written,
)
from graphwalker.search.searchers import Searcher
from graphwalker.search.settings import SearchConfig
from graphwalker.search.tree import Tree
from graphwalker.search.tree_json import candidates_json, tree_json
from graphwalker.search.vote import winner
from graphwalker.types import Question, Trajectory

Key = tuple[int, int, int]
_made = count()


@dataclass(slots=True)
class Cost:
    """What a question's search took.

    ``actor_calls`` are turns sampled, each sample one, and texts written; ``tokens`` the tokens of those;
    ``value_calls`` states valued, or claims judged, and ``value_tokens`` the tokens of those claims. ``seconds`` are of
    work: the question's shares of the model's and the value function's passes, and the time of its environment's steps,
    so that they add up over questions that run at a time; ``value_seconds`` are those of the value function, or of
    judging, among them.
    """

    actor_calls: int = 0
    tokens: int = 0
    value_calls: int = 0
    value_tokens: int = 0
    seconds: float = 0.0
    value_seconds: float = 0.0


@dataclass(eq=False, slots=True)
class Sample:
    """A turn that is to be sampled from a state; ``place`` says whose answer it is part of.

    With a ``claim`` what is to be written after it, up to a token of ``stop``.
    """

    search: "QuestionSearch"
    parent: Node
    number: int
    place: tuple[int, int]
    claim: Claim | None = None
    stop: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """The engine's row."""
        return self.search.key_of(self.number)


@dataclass(eq=False)
class QuestionSearch:
    """Runs a searcher over one tree, a request at a time.

    What is sampled depends on the run's seed, the question's id and the number of the node that the sample becomes: on
    nothing that happens in other searches.
    """

    index: int
    question: Question
    root: Node
    searcher: Searcher
    config: SearchConfig
    seed: int = 0
    cost: Cost = field(default_factory=Cost)
    over: bool = False
    error: Exception | None = None
    scoring: Score | None = None
    judging: Judge | None = None
    asking: Begin | Consult | None = None
    rows: set[Key] = field(default_factory=set)  # its open rows in the engine
    _outage: Node | None = None
    _outage_kind: str = ""
    _missing: int = 0  # samples of the request that are under way
    _answer: list[list[Any]] = field(default_factory=list)
    _nested: bool = False

    def __post_init__(self) -> None:
        stream = random.Random(episode_seed(self.seed, self.question.id, 0))
        self.tree = Tree(self.root, self.config, stream)
        self._steps = self.searcher(self.tree)
        self._last = 0
        self._id = next(_made)  # an engine may keep rows of other runs

    def key_of(self, number: int) -> Key:
        """The engine's row for a node: question, node, and a number that no other search has."""
        return self.index, number, self._id

    def begin(self) -> list[Sample]:
        """Start the searcher; the samples it asks for."""
        if self.root.terminal:  # its prompt leaves no room
            self.stop(self.root.limit)
            return []
        return self._advance(None)

    def seed_of(self, sample: Sample) -> int:
        return episode_seed(self.seed, self.question.id, sample.number)

    def took(self, sample: Sample, node: Node) -> list[Sample]:
        """Take a sample's node; the samples that the searcher asks for next, once none is missing."""
        group, place = sample.place
        self._answer[group][place] = node
        self._missing -= 1
        if node.ending == "outage" and node.turn is not None and node.turn.status == "kg_error":
            self._outage = node  # the graph itself is out of order; a query that timed out ends its branch alone
            self.stop("outage")
            return []
        return [] if self._missing else self._advance(self._answer if self._nested else self._answer[0])

    def scored(self, values: Sequence[float]) -> list[Sample]:
        """Take the values that were asked for; the samples that the searcher asks for next."""
        self.cost.value_calls += len(values)
        self.scoring = None
        return self._advance(list(values))

    def judged(self, verdicts: Sequence[Verdict]) -> list[Sample]:
        """Take the verdicts that were asked for; the samples that the searcher asks for next."""
        self.cost.value_calls += len(verdicts)
        self.cost.value_tokens += sum(len(verdict.ids) for verdict in verdicts)
        self.judging = None
        return self._advance(list(verdicts))

    def wrote(self, sample: Sample, written: Written) -> list[Sample]:
        """Take a text that was written; the samples that the searcher asks for next, once none is missing."""
        group, place = sample.place
        self._answer[group][place] = written
        self._missing -= 1
        return [] if self._missing else self._advance(self._answer[0])

    def told(self, answer: Sequence[Any]) -> list[Sample]:
        """Take what was asked of the graph or the tokenizer; the samples that the searcher asks for next."""
        self.asking = None
        return self._advance(list(answer))

    def out_of_order(self, problem: KGUnavailable) -> None:
        """End because the graph gave no answer: such a question cannot be scored."""
        self._outage = Node(self.root.episode, self.root, ending="outage")
        self._outage_kind = problem.kind
        self.stop("outage")

    def fail(self, error: Exception) -> None:
        """End by an exception, which is this question's alone."""
        self.error = error
        self.stop("error")

    def stop(self, why: str) -> None:
        self.tree.stopped = self.tree.stopped or why
        self.over, self.scoring, self.judging, self.asking = True, None, None, None
        self._steps.close()

    def _advance(self, answer: list[Any] | None) -> list[Sample]:
        try:
            request = next(self._steps) if answer is None else self._steps.send(answer)
        except StopIteration:
            self.over = True
            return []
        except Exception as error:  # a searcher's own fault ends its question alone
            self.fail(error)
            return []
        if spent := self._spent():
            self.stop(spent)
            return []
        if isinstance(request, Score):
            self.scoring = request
        elif isinstance(request, Judge | Write) and not request.claims:
            return self._advance([])
        elif isinstance(request, Judge):
            self.judging = request
        elif isinstance(request, Begin | Consult):
            self.asking = request
        elif isinstance(request, Write):
            return self._writings(request)
        else:
            return self._samples(request)
        return []

    def _writings(self, request: Write) -> list[Sample]:
        most = self.config.max_actor_calls
        if most is not None and self.cost.actor_calls + len(request.claims) > most:
            self.stop("actor_calls")
            return []
        self._answer = [[None] * len(request.claims)]
        self._missing = len(request.claims)
        self.cost.actor_calls += self._missing
        asked = []
        for place, claim in enumerate(request.claims):
            self._last += 1
            asked.append(Sample(self, claim.after, self._last, (0, place), claim, request.stop))
        return asked

    def _samples(self, request: Expand | Together) -> list[Sample]:
        """The samples of a request, fewer where the budget of calls does not allow for all."""
        self._nested = not isinstance(request, Expand)
        expansions = [request] if isinstance(request, Expand) else list(request.expansions)
        most = self.config.max_actor_calls
        left = None if most is None else (most - self.cost.actor_calls) // len(expansions)
        if left == 0:
            self.stop("actor_calls")
            return []
        counts = [e.samples if left is None else min(e.samples, left) for e in expansions]
        self._answer = [[None] * count for count in counts]
        self._missing = sum(counts)
        self.cost.actor_calls += self._missing
        asked = []
        for group, expansion in enumerate(expansions):
            for place in range(counts[group]):
                self._last += 1
                asked.append(Sample(self, expansion.node, self._last, (group, place)))
        return asked

    def _spent(self) -> str:
        """The budget that is used up, "" when none is."""
        config, cost = self.config, self.cost
        for name, most, used in (
            ("actor_calls", config.max_actor_calls, cost.actor_calls),
            ("tokens", config.max_tokens, cost.tokens),
            ("seconds", config.max_seconds, cost.seconds),
        ):
            if most is not None and used >= most:
                return name
        return ""

    def result(self) -> "Searched":
        return Searched(self.trajectory(), self.tree, self.cost)

    def trajectory(self) -> Trajectory:
        """The question's prediction: the winning terminal's branch, and in ``extra`` what the search found and cost.

        Ending ``outage``: the graph went out of order, or a query timed out and no branch found an answer; such a
        question cannot be scored. Ending ``error``: ``extra["error"]`` names the exception.
        """
        tree = self.tree
        timed_out = next((node for node in tree.ends if node.ending == "outage"), None)
        node = self._outage or (None if tree.valid else timed_out) or winner(tree)
        extra = {
            "searcher": self.config.searcher,
            "stopped": tree.stopped,
            "candidates": candidates_json(tree),
            "endings": dict(sorted(Counter(_kind(end, tree) for end in tree.ends).items())),
            "cost": {name: round(value, 6) for name, value in asdict(self.cost).items()},
        }
        if self.error is not None:
            extra["error"] = f"{type(self.error).__name__}: {self.error}"
            return Trajectory(self.question, ending="error", extra=extra)
        if self._outage_kind:
            extra["outage"] = self._outage_kind
        if tree.ranked:
            extra["answers"] = answer_table(tree)
        whole = node.episode.trajectory()
        path = node.path()
        made = sum(len(at.logprobs) for at in path)
        prompt = [at for at in path if at.turn is None][-1]  # a topic of ArG has a prompt of its own
        return Trajectory(
            self.question,
            tuple(node.turns()),
            node.answer,
            node.ending or "budget",
            prompt_tokens=len(prompt.ids),
            completion_tokens=made,
            observation_tokens=sum(len(at.ids) for at in path if at.turn is not None) - made,
            extra={**whole.extra, **extra},
        )


@dataclass(frozen=True, slots=True)
class Searched:
    """A finished search: the prediction, the tree and the cost."""

    trajectory: Trajectory
    tree: Tree
    cost: Cost

    def tree_json(self) -> dict[str, Any]:
        """The tree as JSON (`graphwalker.search.tree_json`)."""
        return tree_json(self.tree, self.trajectory.question.id)


def _kind(end: Node, tree: Tree) -> str:
    """How a branch ended: ``valid``, or the name of its limit, or its ending."""
    return "valid" if end in tree.valid else end.limit or end.ending or ""
