"""Scores of one episode, from its trajectory alone: no model, no knowledge graph."""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from graphwalker.metrics.normalise import forms
from graphwalker.protocol.parse import Query, parse_query
from graphwalker.protocol.reflection import PARAGRAPH_END, RETRIEVE_ENTITY, read_name
from graphwalker.rewards import REWARDS, em
from graphwalker.types import STATUSES, Entity, Trajectory, Turn

# What an agent can do wrong, or in vain, in a query; a dead end ("No triples found.") is one, an outage is not.
FAILED_QUERY = frozenset({"empty", "bad_query", "unknown_entity", "unknown_relation", "refused"})
# A status that is no plain success; every one is counted, so that none can hide.
ERROR_STATUSES = tuple(status for status in STATUSES if status != "ok")

# The metrics of an episode, in the order of reports; the rewards come first.
METRICS = (
    *REWARDS,
    *("answered", "retrieval_rate", "grounding_rate", "failed_query_rate", "recovery_rate", "recovered_share"),
    *("reflection_rate", "turns", "tool_calls", "repeated_queries", "completion_tokens"),
)

# A thought that judges an earlier step to have failed, or turns back. English, and only as good as a word list is.
_REFLECTION = re.compile(
    r"\b(?:(?:did|does|do|was|is|are|were)(?: not|n['’]t) (?:help|work|answer|contain|include|give|have|show|exist"
    r"|found|what|right|relevant|useful|enough)|no (?:help|use|such|triples|relations|results?|answers?)|not helpful"
    r"|unhelpful|dead end|wrong|mistake|misspel\w+|incorrect|instead|go(?:ing)? back|back to|backtrack\w*"
    r"|try (?:again|another|other|a different)|another (?:way|path|relation|entity)|reconsider|re-?check|wait)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class EpisodeScore:
    """The scores of one episode.

    ``values`` maps a metric to its value; NaN where it is not defined (recovery without a failed query). ``statuses``
    counts the turns of each status. ``left_out`` says why an episode takes no part in any mean (``"outage"`` of the
    KG, ``"no_gold"``), "" when it does; ``outage`` of what kind the outage was.
    """

    question_id: str
    sample: int
    structure: str
    hops: int | None
    ending: str
    left_out: str
    values: dict[str, float] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    outage: str = ""


def score_trajectory(trajectory: Trajectory) -> EpisodeScore:
    """All scores of an episode; the rewards are those of `graphwalker.rewards`."""
    question, turns = trajectory.question, trajectory.turns
    given = trajectory.answer or ()
    values = {name: reward(given, question.answers) for name, reward in REWARDS.items()}
    seen = seen_names(turns)
    failed = any(turn.status in FAILED_QUERY for turn in turns)
    recovered = float(failed and values["em"] == 1.0)
    queries = [turn.action for turn in turns if turn.kind == "query"]
    values |= {
        "answered": float(trajectory.answer is not None),
        "retrieval_rate": float(_any_seen(seen, gold_names(question.answers))),
        "grounding_rate": float(all(_any_seen(seen, (name,)) for name in given)) if given else math.nan,
        "failed_query_rate": float(failed),
        "recovery_rate": recovered if failed else math.nan,
        "recovered_share": recovered,
        "reflection_rate": float(any(reflects(turn.thought) for turn in turns)),
        "turns": float(len(turns)),
        "tool_calls": float(len(queries)),
        "repeated_queries": float(len(queries) - len(set(queries))),
        "completion_tokens": float(trajectory.completion_tokens),
    }
    return EpisodeScore(
        question.id,
        trajectory.sample,
        question.structure,
        question.hops,
        trajectory.ending,
        "outage" if trajectory.ending == "outage" else "" if question.answers else "no_gold",
        values,
        dict(Counter(turn.status for turn in turns)),
        _outage_kind(trajectory) if trajectory.ending == "outage" else "",
    )


def _outage_kind(trajectory: Trajectory) -> str:
    """What the environment noted; an episode from elsewhere has its last status only."""
    noted = trajectory.extra.get("outage")
    return noted if noted and isinstance(noted, str) else trajectory.turns[-1].status if trajectory.turns else "error"


def seen_in(observation: str, names: Iterable[str], relations: Collection[str] = ()) -> bool:
    """Whether any of ``names`` is the head or the tail of a triple in an observation; see `triples_in`.

    >>> seen_in("[France, location.country.capital, Paris]", ["paris"]), seen_in("[Paris Hilton, r, US]", ["Paris"])
    (True, False)
    """
    return _any_seen(
        {form for head, _, tail in triples_in(observation, relations) for form in _both(head, tail)}, names
    )


def grounded(trajectory: Trajectory) -> bool:
    """Whether there is an answer and every one of its names was seen in an observation (section 2.2.1, phase 2)."""
    seen = seen_names(trajectory.turns)
    return bool(trajectory.answer) and all(_any_seen(seen, (name,)) for name in trajectory.answer or ())


def recovered_from_error(trajectory: Trajectory) -> bool:
    """Whether a failed query was followed by a right answer (``em`` = 1)."""
    failed = any(turn.status in FAILED_QUERY for turn in trajectory.turns)
    return failed and em(trajectory.answer or (), trajectory.question.answers) == 1.0


def reflects(thought: str) -> bool:
    """Whether a thought says that an earlier step failed, or turns back; a list of English phrases decides.

    >>> reflects("That did not help; try another relation."), reflects("Ghazni is in Afghanistan.")
    (True, False)
    """
    return _REFLECTION.search(thought) is not None


def seen_names(turns: Sequence[Turn]) -> set[str]:
    """The normal forms of all heads and tails in the episode's observations, and of the entities on a path of ArG."""
    seen: set[str] = set()
    for turn in turns:
        if turn.action == RETRIEVE_ENTITY and turn.status == "ok":
            seen.update(forms(read_name(turn.observation.removesuffix(PARAGRAPH_END))))
        if turn.kind == "query" and turn.status == "ok" and "[" in turn.observation:
            query = parse_query(turn.action)
            relations = query.relations if isinstance(query, Query) else ()
            for head, _, tail in triples_in(turn.observation, relations):
                seen.update(_both(head, tail))
    return seen


def triples_in(observation: str, relations: Collection[str] = ()) -> list[tuple[str, str, str]]:
    """The triples in an observation, one a line as ``[head, relation, tail]``, names as they print.

    A name may hold ``", "``. What stands between two of those and is one of ``relations`` (those that the query asked
    for) is the relation; else the first that looks like a relation id does, having no space and a ``.``, ``_`` or
    ``/``; else the first without a space.

    >>> triples_in("[Paris, Texas, location.location.containedby, Texas]\\n... 3 more triples")
    [('Paris, Texas', 'location.location.containedby', 'Texas')]
    """
    triples = []
    for line in observation.split("\n"):
        if line.startswith("[") and line.endswith("]"):
            parts = line[1:-1].split(", ")
            if at := _relation_at(parts, relations):
                triples.append((", ".join(parts[:at]), parts[at], ", ".join(parts[at + 1 :])))
    return triples


def _relation_at(parts: Sequence[str], relations: Collection[str]) -> int:
    """The place of the relation; 0 when there is none."""
    inner = range(1, len(parts) - 1)
    if len(inner) == 1:
        return 1
    single = [i for i in inner if parts[i] and " " not in parts[i]]
    for fits in (lambda part: part in relations, lambda part: any(c in part for c in "._/"), lambda part: True):
        if places := [i for i in single if fits(parts[i])]:
            return places[0]
    return 0


def _both(head: str, tail: str) -> frozenset[str]:
    return forms(head) | forms(tail)


def _any_seen(seen: set[str], names: Iterable[str]) -> bool:
    return any(not seen.isdisjoint(forms(name)) for name in names)


def gold_names(answers: Sequence[Entity]) -> list[str]:
    """All names and aliases of the gold answers."""
    return [name for entity in answers for name in (entity.name, *entity.aliases)]
