"""Interactive-KBQA's dialogues (Xiong et al. 2024, 2024.acl-long.569) as ``Trajectory`` records.

Two forms: JSON with ``messages`` (an agent's runs), and the few-shot texts, one dialogue a file under a head of
comments. A turn is ``Thought: …`` and ``Action: Tool(…)``; the actions are those of its own protocol (SearchNodes,
SearchGraphPatterns, ExecuteSPARQL, Done), kept as they are. Dialogues on test questions are no training data.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from data_pipelines.importers.found import Found, split_of, unique
from data_pipelines.importers.lines import read_lines
from data_pipelines.importers.records import Row, read_records
from graphwalker.errors import FileFormatError, UserError
from graphwalker.protocol.escape import escape_tags
from graphwalker.types import Ending, Entity, Question, Status, Trajectory, Turn

_DONE = re.compile(r"Done\b")
_CALL = re.compile(r"\w+\(")
_LABELS = ("Q:", "Thought:", "Action:", "Observation:", "Golden Entity:")


class Message(msgspec.Struct):
    role: str
    content: str


class Record(msgspec.Struct):
    qid: str
    messages: list[Message]
    q: str | None = None
    prediction: list[str] | None = None
    answers: list[str] | None = None
    sparql: str | None = None
    compositionality_type: str | None = None


def read(source: Path, split: str | None = None) -> Iterator[Found]:
    """Yield the dialogues of a JSON file, of a few-shot text, or of all texts in a folder."""
    if source.is_dir():
        files = sorted(path for path in source.rglob("*.txt") if path.parent.name.startswith("dialog"))
        if not files:
            raise UserError(f"{source}: no few-shot dialogues (looked for dialog*/NAME.txt)")
        for path in files:
            yield from _from_text(path, split or "")
    elif source.suffix == ".txt":
        yield from _from_text(source, split or "")
    else:
        for row in read_records(source, Record):
            yield _from_messages(row, split or split_of(source))


def _from_messages(row: Row[Record], split: str) -> Found:
    record = row.value
    turns: list[Turn] = []
    text = record.q or ""
    for number, message in enumerate(record.messages):
        if message.role == "assistant":
            turns.append(_turn(message.content))
        elif message.role == "user" and message.content.startswith("Q:") and not turns:
            text = text or message.content.removeprefix("Q:").strip()
        elif message.role == "user" and turns:
            turns[-1] = _observed(turns[-1], message.content)
        elif message.role not in ("user", "system"):
            raise row.error(
                f"field 'messages[{number}].role': expected user, assistant or system, got {message.role!r}"
            )
    question = Question(
        id=record.qid,
        text=text,
        answers=unique(map(Entity, record.answers or ())),
        dataset="interactive-kbqa",
        split=split,
        structure=record.compositionality_type or "",
        sparql=record.sparql,
    )
    answer = None if record.prediction is None else tuple(record.prediction)
    drop = "" if any(turn.kind != "none" for turn in turns) else "it has no turn with an action"
    return Found(_trajectory(question, turns, answer), row, drop=drop)


def _from_text(path: Path, split: str) -> Iterator[Found]:
    """The few-shot dialogues of a file, each under its comments (those inside one are its author's notes). A line
    without a label goes on with the one before."""
    head: dict[str, str] = {}
    comments: dict[str, str] = {}
    blocks: list[Row[tuple[str, str]]] = []
    for number, line in read_lines(path):
        label = next((word for word in _LABELS if line.startswith(word)), "")
        if line.startswith("#"):
            key, colon, value = line.lstrip("# ").partition(":")
            comments |= {key.strip(' "'): value.strip(' ",')} if colon else {}
            continue
        if label == "Q:":
            if blocks:
                yield _dialogue(blocks, head, split)
            head, blocks = comments, []
        comments = {}
        if label:
            blocks.append(Row(path, number, 0, (label, line.removeprefix(label).strip())))
        elif blocks:
            last = blocks[-1]
            blocks[-1] = replace(last, value=(last.value[0], f"{last.value[1]}\n{line}"))
        else:
            raise FileFormatError(path, number, f"expected one of {', '.join(_LABELS)}, got {line[:200]!r}")
    if not blocks:
        raise FileFormatError(path, 1, "there is no dialogue in this file")
    yield _dialogue(blocks, head, split)


def _dialogue(blocks: Sequence[Row[tuple[str, str]]], head: dict[str, str], split: str) -> Found:
    row = blocks[0]
    if row.value[0] != "Q:":
        raise row.error("expected the question (Q: …) first")
    turns: list[Turn] = []
    for block in blocks[1:]:
        label, text = block.value
        if label == "Thought:":
            turns.append(_turn(f"Thought: {text}"))
        elif label == "Action:":
            if not turns:
                raise block.error("an action without a thought before it")
            if turns[-1].kind != "none":
                turns.append(_turn(f"Action: {text}"))
            else:
                turns[-1] = _turn(f"{turns[-1].text}\nAction: {text}")
        elif label == "Observation:" and turns:
            turns[-1] = _observed(turns[-1], f"Observation: {text}")
    answer = next((found for turn in reversed(turns) if (found := _listed(turn.observation)) is not None), None)
    question = Question(
        id=head.get("ID", f"{row.path.stem}-{row.line}"),
        text=row.value[1],
        answers=unique(map(Entity, answer or ())),
        dataset="interactive-kbqa",
        split=split,
        structure=head.get("qtype", row.path.stem.rpartition("-")[0]),
        sparql=head.get("SPARQL"),
    )
    return Found(_trajectory(question, turns, answer), row)


def _trajectory(question: Question, turns: Sequence[Turn], answer: tuple[str, ...] | None) -> Trajectory:
    done = bool(turns) and any(turn.kind == "answer" for turn in turns)
    ending: Ending = "answered" if done else "budget"
    return Trajectory(question, tuple(turns), answer if done else None, ending, extra={"protocol": "interactive"})


def _turn(text: str) -> Turn:
    thought, found, action = text.partition("Action:")
    action = action.strip()
    kind = "none"
    if found:
        kind = "answer" if _DONE.match(action) else "query" if _CALL.match(action) else "none"
    thought = thought.strip().removeprefix("Thought:").strip()
    return Turn(text, thought, kind, action if kind != "none" else "", status="ok" if kind != "none" else "no_action")  # type: ignore[arg-type]


def _observed(turn: Turn, content: str) -> Turn:
    body = escape_tags(content.removeprefix("Observation:").strip())  # as the environment writes what it shows
    if turn.kind == "answer":
        return turn if not body.startswith("Error") else replace(turn, kind="none", observation=body, status="refused")
    status: Status = turn.status
    if body.startswith("Error: timed out"):
        status = "kg_timeout"
    elif body.startswith("Error") and turn.kind == "query":
        status = "bad_query"
    elif body in ("[]", "None"):
        status = "empty"
    return replace(turn, observation=body, status=status)


def _listed(observation: str) -> tuple[str, ...] | None:
    """The answer that an observation of ExecuteSPARQL shows: a list of strings, or True or False."""
    try:
        value = ast.literal_eval(observation)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if isinstance(value, bool):
        return ("yes" if value else "no",)
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        return tuple(map(str, value))
    return None
