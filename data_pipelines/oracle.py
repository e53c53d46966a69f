"""An oracle that replays gold paths through the environment, to see what the environment lets an agent reach.

Per entity and hop it asks ``get_relations``, then ``get_triples`` for the gold relation, and goes on with every entity
that the observation showed; its answer is what the last observations showed. It never looks into the KG, so what the
tools cut (triples per relation, turns) it does not know either; only where in the whole ranking a gold relation stands
is looked up beside it.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from envs.kg_env import KGEnv
from graphwalker.errors import UserError
from graphwalker.files import atomic_files, dump_json, dump_jsonl
from graphwalker.kg.open import open_kg
from graphwalker.protocol.escape import escape_name, unescape_name
from graphwalker.protocol.parse import GET_RELATIONS, GET_TRIPLES
from graphwalker.protocol.render import format_answer, format_query, render_turn
from graphwalker.rewards import REWARDS
from graphwalker.tools.questions import read_questions
from graphwalker.tools.toolbox import Toolbox
from graphwalker.types import Question, Trajectory

RANKS_AT = (10, 20, 30)
Move = Literal["explore", "follow", "answer"]
"""get_relations, get_triples, or the answer."""
THOUGHTS: dict[Move, str] = {
    "explore": "Which relations are there?",
    "follow": "The gold path goes on here.",
    "answer": "The gold path ends here.",
}


@dataclass
class Replay:
    """One question replayed."""

    trajectory: Trajectory
    ranks: list[list[int | None]] = field(default_factory=list)
    """Per hop, the place (from 1) of the gold relation at each entity expanded; ``None`` where it is not incident."""
    cut: bool = False
    """Whether an observation of triples, or the budget of turns, left something out."""
    not_listed: bool = False
    """Whether a list of relations was cut and did not show the gold one."""

    def rank(self) -> int | None:
        """The place of the question's worst hop, each hop by its best entity; ``None`` if a hop was not reached."""
        best = [min((place for place in hop if place is not None), default=None) for hop in self.ranks]
        known = [place for place in best if place is not None]
        return max(known) if known and len(known) == len(best) else None


@dataclass(frozen=True)
class Trail:
    """Where a replay stands: the names from a branch's topic entity to here, along the branch's gold path."""

    branch: int
    names: tuple[str, ...]
    path: tuple[str, ...]
    back: bool = False
    """Whether the entity that was followed before this one led nowhere."""

    @property
    def hop(self) -> int:
        """How many hops are behind."""
        return len(self.names) - 1

    def to(self, name: str, back: bool = False) -> "Trail":
        """One hop further."""
        return Trail(self.branch, (*self.names, name), self.path, back)


class Oracle:
    """Replays questions with gold paths, depth first; one environment serves them all, one after another.

    Of the entities that an observation shows on the way, `width` are followed to an end of the path; those that lead
    nowhere do not count. ``None`` follows all that the turns allow.
    """

    def __init__(self, env: KGEnv, *, width: int | None = None):
        self.env, self.width = env, width

    def replay(self, question: Question) -> Replay:
        """Raises ``UserError`` when the question has not one gold path for each topic entity."""
        if not has_paths(question):
            raise UserError(
                f"question {question.id} has {len(question.paths)} gold paths for {len(question.topic_entities)} topics"
            )
        self.env.reset(options={"question": question})
        replay = Replay(self.env.trajectory())
        found: list[dict[str, Trail]] = []
        for branch, (topic, path) in enumerate(zip(question.topic_entities, question.paths, strict=True)):
            replay.ranks += [[] for _ in path]
            spare = 2 * sum(map(len, question.paths[branch + 1 :]))  # turns that the other branches need
            ends: dict[str, Trail] = {}
            self._descend(replay, question, Trail(branch, (topic.name,), path), ends, spare)
            found.append(ends)
        answers = [name for name in found[0] if all(name in other for other in found[1:])]
        if not self.env.over:
            way = found[0][answers[0]] if answers else Trail(0, (question.topic_entities[0].name,), question.paths[0])
            named = "".join(answers[:1]) + (" and others" if len(answers) > 1 else "")  # a thought need not name all
            self._turn("answer", way.to(named), format_answer(answers))
        replay.trajectory = self.env.trajectory()
        return replay

    def _descend(self, replay: Replay, question: Question, trail: Trail, ends: dict[str, Trail], spare: int) -> bool:
        """Follow a path from one entity to the names at its end, as far as the turns allow; whether it has any.

        The topic itself is left out, as in the gold of WebQSP and MetaQA.
        """
        turns_left = self.env.max_turns - len(self.env.trajectory().turns) - 1 - spare
        if self.env.over or turns_left < 2:
            replay.cut = True
            return False
        hop = len(replay.ranks) - len(trail.path) + trail.hop
        replay.ranks[hop].append(self._place(question, trail))
        reached, back = 0, False
        for end in dict.fromkeys(self._expand(replay, trail)):
            if end == trail.names[0]:
                continue
            if trail.hop + 1 == len(trail.path):
                ends.setdefault(end, trail)
                reached += 1
            elif reached == self.width:
                replay.cut = True
                break
            else:
                back = not self._descend(replay, question, trail.to(end, back), ends, spare)
                reached += not back
        return reached > 0

    def _expand(self, replay: Replay, trail: Trail) -> Iterator[str]:
        name, hop = trail.names[-1], trail.path[trail.hop]
        relation, inverse = hop.removeprefix("^"), hop.startswith("^")
        if self.env.over:
            return
        listed = self._turn("explore", trail, format_query(GET_RELATIONS, name)).split("\n")
        if escape_name(relation) not in listed:
            cut = any(line.startswith("... ") and line.endswith(" more relations") for line in listed)
            replay.not_listed |= cut
            if self.env.toolbox.strict or not cut:
                return  # it would be refused, or there is none
        if self.env.over:
            return
        body = self._turn("follow", trail, format_query(GET_TRIPLES, name, [relation]))
        shown = escape_name(name)
        for line in body.split("\n"):
            head, found, tail = line.removeprefix("[").removesuffix("]").partition(f", {escape_name(relation)}, ")
            near, far = (tail, head) if inverse else (head, tail)
            if found and (near == shown or far != shown):
                yield unescape_name(far)
            replay.cut |= line.startswith("... ") and " more triples of " in line

    def _turn(self, move: Move, trail: Trail, action: str) -> str:
        """Take one turn and return what was observed; an expert has more to say."""
        return self.env.step(render_turn(THOUGHTS[move], "answer" if move == "answer" else "query", action))[0]

    def _place(self, question: Question, trail: Trail) -> int | None:
        toolbox, relation = self.env.toolbox, trail.path[trail.hop].removeprefix("^")
        node = toolbox.session(question).resolve(trail.names[-1])
        relations = [] if node is None else [step.relation for step in toolbox.store.steps(node)]
        if relation not in relations:
            return None
        return toolbox.ranker.rank(question.text, dict.fromkeys(relations)).index(relation) + 1


def summarise(replays: list[Replay], top_k: int) -> dict[str, Any]:
    """The ranks of the gold relations (a question counts by its worst hop) and every question that is not perfect."""
    worst = {replay.trajectory.question.id: replay.rank() for replay in replays}
    at = {str(k): sum(rank is not None and rank <= k for rank in worst.values()) for k in sorted({*RANKS_AT, top_k})}
    exceptions = []
    for replay in replays:
        given, gold = replay.trajectory.answer or (), replay.trajectory.question.answers
        scores = {name: REWARDS[name](given, gold) for name in ("em", "em_set")}
        if min(scores.values()) < 1:
            exceptions.append(
                {
                    "question": replay.trajectory.question.id,
                    **scores,
                    "gold": len(gold),
                    "given": len(given),
                    "rank": worst[replay.trajectory.question.id],
                    "why": explain(replay, scores),
                }
            )
    return {
        "questions": len(replays),
        "gold_relation_in_top": at,
        "gold_relation_missing": sum(rank is None for rank in worst.values()),
        "exceptions": exceptions,
        "ranks": worst,
    }


def explain(replay: Replay, scores: dict[str, float]) -> str:
    """Why a replay is not perfect, from what the environment said."""
    if replay.trajectory.answer:
        if scores["em"] < 1:
            return "the path leads to more than the gold"
        if replay.cut:
            return "not all was shown (triples per relation, or turns)"
        return "a gold relation was not listed" if replay.not_listed else "the path leads to less than the gold"
    statuses = Counter(turn.status for turn in replay.trajectory.turns if turn.kind == "query" and turn.status != "ok")
    if statuses:
        return "queries failed: " + ", ".join(f"{status} x{n}" for status, n in statuses.items())
    if replay.not_listed:
        return "a gold relation was not listed"
    return "what was shown leads to no end of the path" if replay.cut else "the path has no end"


def has_paths(question: Question) -> bool:
    """Whether a question can be replayed: it has one gold path for each topic entity."""
    return 0 < len(question.paths) == len(question.topic_entities) and all(question.paths)


def read_replayable(path: str | Path, toolbox: Toolbox) -> tuple[list[Question], list[Question]]:
    """The questions of a file that have gold paths, and the others.

    Raises ``UserError`` when none has, and as ``read_questions`` on what is broken; the others' topics are not checked.
    """
    records = read_questions(path, toolbox, to_run=has_paths)
    usable = [question for question in records if has_paths(question)]
    if not usable:
        raise UserError(f"{path}: no question has a gold path")
    return usable, [question for question in records if not has_paths(question)]


def run_oracle(
    kg: str | Path,
    questions: str | Path,
    out: str | Path,
    *,
    strict: bool = False,
    top_k: int = 20,
    max_turns: int = 10,
    width: int | None = None,
    seed: int = 0,
) -> list[str]:
    """Replay a file of questions; writes ``trajectories.jsonl``, ``metrics.json`` and ``oracle.json`` into the folder
    ``out`` and returns what was found, as lines to print. Raises ``UserError`` when no question has a gold path, or one
    has a topic entity that the KG lacks."""
    from tqdm import tqdm

    from graphwalker.metrics.aggregate import score_run

    env = KGEnv(Toolbox(open_kg(kg), top_k=top_k, strict=strict), max_turns=max_turns)
    usable, others = read_replayable(questions, env.toolbox)
    oracle = Oracle(env, width=width)
    replays = [oracle.replay(question) for question in tqdm(usable, unit=" questions", leave=False, disable=None)]
    metrics = score_run([replay.trajectory for replay in replays], seed=seed)
    settings = {"strict": strict, "top_k": top_k, "max_turns": max_turns} | ({"width": width} if width else {})
    summary = {**settings, **summarise(replays, top_k)}
    names = ("trajectories.jsonl", "metrics.json", "oracle.json")
    with atomic_files(*(Path(out) / name for name in names)) as (trajectories, scores, oracle_json):
        dump_jsonl(trajectories, (replay.trajectory for replay in replays))
        dump_json(scores, metrics)
        dump_json(oracle_json, summary)
    return report_lines(replays, summary, skipped=len(others))


def report_lines(replays: list[Replay], summary: dict[str, Any], skipped: int) -> list[str]:
    """The summary for the console."""
    few = [replay for replay in replays if len(replay.trajectory.question.answers) <= 5]
    strictness = "strict" if summary["strict"] else "not strict"
    lines = [f"{len(replays)} questions replayed, {skipped} without a gold path, {strictness}"]
    for name, group, metric in (("em", replays, "em"), ("em_set, at most five answers", few, "em_set")):
        right = sum(REWARDS[metric](r.trajectory.answer or (), r.trajectory.question.answers) == 1 for r in group)
        lines.append(f"{name}: {right} of {len(group)}")
    places = ", ".join(f"top {k}: {n}" for k, n in summary["gold_relation_in_top"].items())
    lines.append(f"gold relation in get_relations: {places} of {summary['questions']}")
    lines += [
        f"  {e['question']}: em {e['em']:g}, em_set {e['em_set']:g}: {e['why']}" for e in summary["exceptions"][:20]
    ]
    if len(summary["exceptions"]) > 20:
        lines.append(f"  ... and {len(summary['exceptions']) - 20} more in oracle.json")
    return lines
