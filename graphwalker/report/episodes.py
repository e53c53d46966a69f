"""The episodes that a page shows: which of them, and their parts ready to print."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from graphwalker.metrics.normalise import forms
from graphwalker.metrics.run_folder import Evaluation
from graphwalker.metrics.trajectory import ERROR_STATUSES, EpisodeScore, gold_names, triples_in
from graphwalker.protocol.escape import sound
from graphwalker.types import Trajectory, Turn

PER_EVALUATION = 24  # episodes shown of each evaluation, more only where a kind of error would be missing
MOST_EPISODES = 400  # on one page
MOST_CHARACTERS = 1500  # of one thought, query, observation or answer

# Verdict, its label on the page; in the order of the filter.
VERDICTS = {
    "exact": "exactly the gold answers",
    "right": "right, but not all gold answers",
    "partly": "partly right",
    "wrong": "wrong",
    "none": "no answer",
    "unscored": "not scored",
}
_TAGS = re.compile(r"</?(?:think|kg-query|answer)>")
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


@dataclass(frozen=True, slots=True)
class TurnView:
    """A turn's parts; ``lines`` are the observation's, each with whether it is a triple with a gold answer."""

    number: int
    thought: str
    kind: str
    action: str
    raw: str
    status: str
    lines: tuple[tuple[str, bool], ...]


@dataclass(frozen=True, slots=True)
class EpisodeView:
    """An episode as the page shows it."""

    evaluation: Evaluation
    question: str
    question_id: str
    sample: int
    structure: str
    gold: tuple[str, ...]
    given: tuple[str, ...] | None
    verdict: str
    ending: str
    tokens: int
    errors: tuple[str, ...]
    turns: tuple[TurnView, ...]


def choose(scores: Sequence[EpisodeScore], most: int = PER_EVALUATION) -> list[int]:
    """The places of the episodes to show, in order: the first of each status, ending, verdict and structure there is,
    then the first samples of questions spread evenly over the run, the same questions for every evaluation of them.
    """
    chosen: dict[int, None] = {}
    seen: set[tuple[str, str]] = set()
    for i, score in enumerate(scores):
        kinds = {("status", status) for status in score.statuses} | {("ending", score.ending)}
        kinds |= {("verdict", verdict(score)), ("structure", score.structure)}
        if not kinds <= seen:
            chosen[i] = None
            seen |= kinds
    firsts: dict[str, int] = {}
    for i, score in enumerate(scores):
        firsts.setdefault(score.question_id, i)
    spread = [firsts[question] for question in sorted(firsts)]
    for j in range(most):
        if len(chosen) >= most:
            break
        if spread:
            chosen[spread[j * len(spread) // most]] = None
    return sorted(chosen)


def verdict(score: EpisodeScore) -> str:
    """A key of `VERDICTS`."""
    if score.left_out:
        return "unscored"
    if score.values["em_set"] == 1.0:
        return "exact"
    if score.values["em"] == 1.0:
        return "right"
    if score.values["f1"] > 0.0:
        return "partly"
    return "wrong" if score.values["answered"] else "none"


def view(evaluation: Evaluation, trajectory: Trajectory, score: EpisodeScore) -> EpisodeView:
    """The episode's parts as text that is safe to print (still to be escaped for HTML)."""
    question = trajectory.question
    gold = frozenset(form for name in gold_names(question.answers) for form in forms(name))
    return EpisodeView(
        evaluation,
        printable(question.text),
        printable(question.id),
        trajectory.sample,
        printable(question.structure or "unknown"),
        tuple(printable(entity.name) for entity in question.answers[:20]),
        None if trajectory.answer is None else tuple(printable(name) for name in trajectory.answer[:20]),
        verdict(score),
        trajectory.ending,
        trajectory.completion_tokens,
        tuple(status for status in ERROR_STATUSES if status in score.statuses),
        tuple(_turn(i, turn, gold) for i, turn in enumerate(trajectory.turns, 1)),
    )


def visible(text: str) -> str:
    """Text with what does not show made visible.

    A name may hold direction marks that reorder what a reader sees, or control characters that HTML does not allow.
    """
    return _UNSEEN.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)


def printable(text: str) -> str:
    """Text that is `visible`, and cut where it is long, saying so."""
    text = sound(text)
    more = len(text) - MOST_CHARACTERS
    if more > 0:
        text = f"{text[:MOST_CHARACTERS]} … ({more:,} more characters)"
    return visible(text)


def _turn(number: int, turn: Turn, gold: frozenset[str]) -> TurnView:
    left = _TAGS.sub("", turn.text).split()
    parsed = f"{turn.thought} {turn.action}".split()
    raw = turn.text if turn.kind == "none" or len("".join(left)) > len("".join(parsed)) else ""
    return TurnView(
        number,
        printable(turn.thought),
        turn.kind,
        printable(turn.action) if turn.kind != "none" else "",
        printable(raw),
        turn.status,
        tuple((line, _has_gold(line, gold)) for line in printable(turn.observation).split("\n"))
        if turn.observation
        else (),
    )


def _has_gold(line: str, gold: frozenset[str]) -> bool:
    return any(not gold.isdisjoint(forms(head) | forms(tail)) for head, _, tail in triples_in(line))
