"""A language model as ArG's critic (Algorithm 2; the paper asks GPT-4-mini), over any OpenAI-compatible server.

Each judgement is one request with the task's instructions and worked examples (`arg_critic.yaml`, or a file of the same
form). The model sees the question, the walk so far and what is judged, and no gold answer.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from data_pipelines.arg_critic import Case
from data_pipelines.arg_paths import Hop
from graphwalker.errors import UserError
from graphwalker.kg.hops import Edge, Hops
from graphwalker.protocol.escape import escape_name, escape_tags
from graphwalker.protocol.reflection import RATIONALITY, RELEVANCE, SEPARATOR, UNRELEVANT, UTILITY, write_relation
from graphwalker.tools.chat_server import ChatServer
from graphwalker.yaml_file import parse_yaml, read_yaml

TASKS: Mapping[str, Sequence[str]] = {
    "relation": RELEVANCE,
    "entity": RELEVANCE,
    "rationality": RATIONALITY,
    "utility": UTILITY[::-1],
}
"""What is judged, and the labels it can get."""
_ARROW = " -> "
_OTHER_NAMES = {"irrelevant": UNRELEVANT}  # as appendix A prints it


@dataclass(frozen=True)
class Task:
    """The messages that come before what is asked, and the labels by how they are said (lower case)."""

    messages: tuple[dict[str, str], ...]
    labels: Mapping[str, str]


class LLMCritic:
    """A `Critic`. Deterministic once a run's replies are in the server's cache; threads may share one.

    A reply that is no label is asked for again, ``tries`` times in all with some chance, and then given up: the
    judgement is ``None``. ``counts`` says how often each happened (``malformed``, ``given_up``), how many judgements
    were ``asked`` for, and what the server counts.
    """

    def __init__(self, server: ChatServer, hops: Hops, instructions: str | Path | None = None, *, tries: int = 3):
        self.server, self.hops, self.tries = server, hops, tries
        self.tasks = read_tasks(instructions)
        self.counts: Counter[str] = server.counts

    def relation(self, case: Case, edge: Edge) -> str | None:
        return self._judge("relation", case, f"Relation: {escape_name(write_relation(*edge))}")

    def entity(self, case: Case, hop: Hop) -> str | None:
        return self._judge("entity", case, f"Entity: {escape_name(self.hops.name(hop.node))}", hop.edge)

    def rationality(self, case: Case) -> str | None:
        return self._judge("rationality", case)

    def utility(self, case: Case, answers: Sequence[str], right: bool) -> int | None:
        label = self._judge("utility", case, "Answer: " + SEPARATOR.join(map(escape_name, answers)))
        return None if label is None else UTILITY.index(label) + 1

    def _judge(self, task: str, case: Case, judged: str = "", edge: Edge | None = None) -> str | None:
        walk = [case.gold.topic.name]
        for hop in case.hops:
            walk += [write_relation(*hop.edge), self.hops.name(hop.node)]
        walk += [write_relation(*edge)] if edge else []
        lines = [f"Question: {escape_tags(case.gold.question.text)}", "Walk: " + _ARROW.join(map(escape_name, walk))]
        asked = {"role": "user", "content": "\n".join([*lines, *([judged] if judged else [])])}
        self.counts["asked"] += 1
        for attempt in range(self.tries):
            again = {"temperature": 0.7, "seed": attempt} if attempt else {}
            reply = self.server.reply([*self.tasks[task].messages, asked], 16, **again)
            if (label := self.tasks[task].labels.get(_said(reply))) is not None:
                return label
            self.counts["malformed"] += 1
        self.counts["given_up"] += 1
        return None


def read_tasks(path: str | Path | None = None) -> dict[str, Task]:
    """The tasks of a YAML file, or those that come with the package.

    Raises `UserError`, naming file and key, for a task that is missing or has an example with no label of its own.
    """
    if path is None:
        text = resources.files("data_pipelines").joinpath("arg_critic.yaml").read_text("utf-8")
        record = parse_yaml(text, "arg_critic.yaml")
    else:
        record = read_yaml(path)
    where = str(path or "arg_critic.yaml")
    if unknown := sorted(record.keys() ^ TASKS.keys()):
        raise UserError(f"{where}: {unknown[0]}: expected the tasks {', '.join(TASKS)}, each once")
    return {name: _task(record[name], labels, f"{where}: {name}") for name, labels in TASKS.items()}


def _task(record: Any, labels: Sequence[str], where: str) -> Task:
    examples = (record.get("examples") or []) if isinstance(record, dict) else None
    if not isinstance(examples, list) or not isinstance(record.get("instructions"), str):
        raise UserError(f"{where}: expected instructions and a list of examples")
    names = {_said(label): label for label in labels}
    shown = ", ".join(label.strip("[]").removeprefix("Utility:") for label in labels)
    messages = [{"role": "system", "content": record["instructions"].replace("{labels}", shown)}]
    for number, example in enumerate(examples, 1):
        asked = example.get("asked") if isinstance(example, dict) else None
        label = str(example.get("label", "")) if isinstance(example, dict) else ""
        if not isinstance(asked, str) or _said(label) not in names:
            raise UserError(f"{where}: example {number}: expected `asked`, and a `label` of {shown}")
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": label}]
    others = {said: label for said, label in _OTHER_NAMES.items() if label in labels}
    return Task(tuple(messages), {**names, **others})


def _said(text: str) -> str:
    """A label as it is compared: without brackets, case, a full stop, and the word utility."""
    return text.strip().strip("[].*\"'` ").lower().removeprefix("utility:").strip()
