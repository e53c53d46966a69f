"""The nodes of a stored tree, so that values can be asked about searches that are over."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from graphwalker.protocol.interactive import EXECUTE, Call, parse_call
from graphwalker.search.node import Node
from graphwalker.types import RAN, Question, Trajectory, Turn


@dataclass(frozen=True, slots=True)
class StoredEpisode:
    """An episode that is over for good: it can be read, not continued."""

    recorded: Trajectory
    waits: bool = False

    def trajectory(self) -> Trajectory:
        return self.recorded

    def fork(self) -> NoReturn:
        raise RuntimeError("a stored episode cannot be taken up again")

    def step(self, text: str, truncated_turn: bool = False) -> NoReturn:
        raise RuntimeError("a stored episode cannot be taken up again")


def stored_nodes(tree: Mapping[str, Any], question: Question) -> dict[int, Node]:
    """The nodes of a tree (`graphwalker.search.tree_json`) by their numbers; a parent stands before its children.

    ``extra["sparql"]`` of an episode is the last query that ran, as environments note it. Raises ``UserError`` for a
    broken turn.
    """
    nodes: dict[int, Node] = {}
    for record in tree["nodes"]:
        parent = None if record["parent"] is None else nodes[record["parent"]]
        turn = None if record["turn"] is None else Turn.from_json(record["turn"])
        turns = [*(parent.turns() if parent else ()), *([turn] if turn else ())]
        answer = None if record.get("answer") is None else tuple(record["answer"])
        sparql = _executed(turns)
        recorded = Trajectory(
            question, tuple(turns), answer, record.get("ending") or "budget", extra={"sparql": sparql} if sparql else {}
        )
        node = Node(StoredEpisode(recorded), parent, turn, ending=record.get("ending"), answer=answer)
        node.number, node.depth, node.samples = record["number"], record["depth"], record["samples"]
        node.value, node.visits, node.total = record.get("value"), record["visits"], record["total"]
        if parent is not None:
            parent.children.append(node)
        nodes[node.number] = node
    return nodes


def _executed(turns: list[Turn]) -> str:
    for turn in reversed(turns):
        call = parse_call(turn.action) if turn.kind == "query" and turn.status in RAN else None
        if isinstance(call, Call) and call.tool == EXECUTE:
            return call.arguments.get("sparql", "")
    return ""
