"""Recorded dialogues of the interactive protocol, their calls made again on a KG, and how what comes back differs."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from data_pipelines.importers import interactive_kbqa
from graphwalker.errors import KGUnavailable
from graphwalker.files import read_jsonl
from graphwalker.kg.search_index import fold_accents
from graphwalker.protocol.interactive import EXECUTE, SEARCH_NODES, SEARCH_PATTERNS, Call, parse_call, parse_turn
from graphwalker.tools.kbqa.patterns import center, readable
from graphwalker.tools.kbqa.toolbox import KBQAToolbox, Said
from graphwalker.types import RAN, Trajectory, Turn

SAME = "the same"
NOTHING = "the same: nothing"
NOT_RECORDED = "no observation is recorded"
UNREADABLE = "the turn has no call that can be read"
REJECTED = "it could not be read there, here it is"
TIMED_OUT = "it timed out there"
NOT_RUN = "it is not run here: "
LESS, NONE, MORE, OTHER = "a part of it is in this KG", "none of it is in this KG", "this KG has more", "other results"
UNNAMED = "no entity of that name is in this KG"
NEIGHBOURS = "the entity of that name comes first in both, other names after it"
FIRST = "another name comes first"
UNBOUND = "the query binds nothing in this KG"
DESCRIBED = "the query filters by a description, which this KG lacks"
LACKING = "its other patterns are not in this KG"
RANKED = "its other patterns are in this KG and ranked lower"

_TYPED = re.compile(r'"(.*)"\^\^\S+', re.DOTALL)
_OUT = re.compile(r"\(\?e, ([\w.-]+(?: -> [\w.-]+)?), ")
_IN = re.compile(r", ([\w.-]+(?: -> [\w.-]+)?), \?e\)")
_COUNTS = ("recorded", "shown", "lower", "elsewhere")
_NAME = re.compile(r"[\"'](.*?)[\"'] \| ")


@dataclass(frozen=True, slots=True)
class Replayed:
    """One recorded call: what came back then and now, and how the two compare (``outcome``).

    Of a pattern search: how many patterns were `recorded`, examples aside, and how many of them were `shown` here,
    ranked `lower`, or have their predicates `elsewhere` in this KG; the others' predicates it lacks.
    """

    dialogue: str
    turn: int
    tool: str
    action: str
    then: str
    now: str
    status: str
    outcome: str
    recorded: int = 0
    shown: int = 0
    lower: int = 0
    elsewhere: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A replayed dialogue; it fits the KG where its last query that ran here found something."""

    id: str
    fits: bool
    calls: tuple[Replayed, ...]


def read_dialogues(path: Path) -> Iterator[Trajectory]:
    """Dialogues as they are published (a JSON file, a few-shot text, a folder of them), or as Trajectory JSONL."""
    if path.suffix == ".jsonl":
        yield from read_jsonl(path, Trajectory)
        return
    for found in interactive_kbqa.read(path):
        if isinstance(found.item, Trajectory) and not found.drop:
            yield found.item


def replay(trajectories: Iterable[Trajectory], toolbox: KBQAToolbox) -> Iterator[Dialogue]:
    """Make every call of each dialogue again. A graph that is out of order raises `KGUnavailable`."""
    for trajectory in trajectories:
        calls, fits = [], False
        for number, turn in enumerate(trajectory.turns):
            parsed = parse_turn(turn.text)
            if parsed.kind == "answer":
                continue
            call = parse_call(parsed.action) if parsed.kind == "query" else None
            if not isinstance(call, Call):
                calls.append(_record(trajectory, number, turn, "", "", "no_action", UNREADABLE))
                continue
            said = toolbox.call(call)
            if said.observation.status == "kg_error":
                raise KGUnavailable(said.observation.text)
            if said.executed is not None:
                fits = said.executed.found
            calls.append(_compared(trajectory, number, turn, call, said, toolbox))
        yield Dialogue(trajectory.question.id, fits, tuple(calls))


def report(dialogues: Iterable[Dialogue]) -> list[str]:
    """The counts as lines: of all calls, and of those in dialogues that fit the KG."""
    dialogues = list(dialogues)
    everything = [(dialogue.fits, call) for dialogue in dialogues for call in dialogue.calls]
    fitting = sum(dialogue.fits for dialogue in dialogues)
    lines = [f"{len(dialogues)} dialogues, {fitting} of them fit this KG; {len(everything)} calls"]
    lines.append(f"{'all':>6}{'fitting':>9}  of the calls")
    for tool in dict.fromkeys(call.tool for _, call in sorted(everything, key=lambda item: item[1].tool)):
        of_tool = [(fits, call) for fits, call in everything if call.tool == tool]
        lines.append(_line(tool or "(none)", len(of_tool), sum(fits for fits, _ in of_tool)))
        counts = Counter(call.outcome for _, call in of_tool)
        among = Counter(call.outcome for fits, call in of_tool if fits)
        order = sorted(counts, key=lambda outcome: (not outcome.startswith(SAME), -counts[outcome], outcome))
        lines += [_line(f"  {outcome}", counts[outcome], among[outcome]) for outcome in order]
        for which, calls in (("all", of_tool), ("fitting", [(fits, call) for fits, call in of_tool if fits])):
            recorded, *rest = (sum(getattr(call, count) for _, call in calls) for count in _COUNTS)
            if recorded:
                shown, lower, elsewhere = rest
                said = f"{shown} shown here, {lower} ranked lower, {elsewhere} only at other entities"
                lacking = f"{recorded - sum(rest)} of predicates that this KG lacks"
                lines.append(f"  patterns recorded in {which}: {recorded}, of these {said}, {lacking}")
    return lines


def _line(text: str, every: int, fitting: int) -> str:
    return f"{every:>6}{fitting:>9}  {text}"


def _record(
    trajectory: Trajectory, number: int, turn: Turn, tool: str, now: str, status: str, outcome: str, *counts: int
) -> Replayed:
    action = parse_turn(turn.text).action
    return Replayed(trajectory.question.id, number, tool, action, turn.observation, now, status, outcome, *counts)


def _compared(
    trajectory: Trajectory, number: int, turn: Turn, call: Call, said: Said, toolbox: KBQAToolbox
) -> Replayed:
    counts: tuple[int, ...] = ()
    now, status = said.observation.text, said.observation.status
    if not turn.observation:
        outcome = NOT_RECORDED
    elif turn.observation.startswith("Error"):
        outcome = TIMED_OUT if "timed out" in turn.observation else REJECTED if status in RAN else SAME
    elif status not in RAN:
        outcome = NOT_RUN + status
    elif " ".join(turn.observation.split()) == " ".join(now.split()):
        outcome = SAME if status == "ok" else NOTHING
    elif call.tool == EXECUTE:
        outcome = _results(turn.observation, said)
    elif call.tool == SEARCH_NODES:
        outcome = _names(call.arguments["name"], turn.observation, now)
    elif call.tool == SEARCH_PATTERNS:
        outcome, counts = _patterns(call, turn.observation, toolbox)
    else:
        outcome = OTHER
    return _record(trajectory, number, turn, call.tool, now, status, outcome, *counts)


def _results(then: str, said: Said) -> str:
    """How the first column of a recorded result compares with what the query finds here."""
    try:
        value = ast.literal_eval(then)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return OTHER
    if isinstance(value, bool):
        return OTHER  # the same one has the same text
    rows = [row[0] if isinstance(row, tuple) and row else row for row in value] if isinstance(value, list) else []
    recorded = {_TYPED.sub(r"\1", str(row)) for row in rows}
    found = set(said.executed.answer) if said.executed else set()
    if recorded == found:
        return SAME
    if not recorded & found:
        return OTHER if found and recorded else NONE if recorded else MORE
    return LESS if found < recorded else MORE if recorded < found else OTHER


def _names(name: str, then: str, now: str) -> str:
    recorded, found = _NAME.findall(then), _NAME.findall(now)
    wanted = fold_accents(name)
    if recorded == found:
        return SAME
    if recorded[:1] == found[:1]:
        return NEIGHBOURS
    return FIRST if any(fold_accents(other) == wanted for other in found) else UNNAMED


def _patterns(call: Call, then: str, toolbox: KBQAToolbox) -> tuple[str, tuple[int, ...]]:
    """How the recorded patterns compare, whatever the examples in them; and the counts of `Replayed`."""
    recorded = {(False, relation) for relation in _OUT.findall(then)} | {(True, r) for r in _IN.findall(then)}
    if (asked := center(readable(call.arguments["sparql"]))) and asked.open:
        recorded = {(False, relation) for relation in re.findall(r"'([^']+)'", then)}
        every = [(False, relation) for relation in toolbox.predicates(call.arguments.get("semantic", ""))]
    else:
        every = [(step.inverse, " -> ".join(step.parts)) for step, _ in toolbox.around(**call.arguments).found]
    here, seen = set(every), set(every[: toolbox.limits.patterns])
    known = {part for relation in toolbox.predicates() for part in relation.split(" -> ")}
    elsewhere = {item for item in recorded - here if known.issuperset(item[1].split(" -> "))}
    counts = len(recorded), len(recorded & seen), len(recorded & here - seen), len(elsewhere)
    if not every:
        return (DESCRIBED if "description" in call.arguments["sparql"] else UNBOUND), counts
    if recorded == seen:
        return SAME, counts
    return (RANKED if counts[2] else LACKING), counts
