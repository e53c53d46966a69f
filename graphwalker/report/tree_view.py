"""A tree of ArG as the page shows it: what each node says, how likely its labels were, and its score."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphwalker.report.episodes import printable

MOST_NODES = 300  # of one tree, in the order of their creation


@dataclass(slots=True)
class TreeNodeView:
    """A node; ``labels`` are pairs (label, its probability), the one that was given first."""

    kind: str
    name: str
    labels: tuple[tuple[tuple[str, str], ...], ...]
    score: str
    total: str
    end: str
    hypothesis: str
    children: "list[TreeNodeView]" = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TreeView:
    """The nodes below the root, how many there are, and how many of those are left out."""

    topics: tuple[TreeNodeView, ...]
    nodes: int
    left_out: int


def tree_view(tree: Mapping[str, Any] | None) -> TreeView | None:
    """The parts of a tree (`graphwalker.search.tree_json`) as text that is safe to print (still to be escaped for
    HTML); ``None`` for what is no tree of ArG."""
    nodes = [node for node in (tree or {}).get("nodes", ()) if isinstance(node.get("kind"), str)]
    if not nodes:
        return None
    views: dict[int, TreeNodeView] = {}
    topics = []
    for node in nodes[:MOST_NODES]:
        shown = views[node["number"]] = _node(node)
        parent = views.get(node["parent"])
        if parent is not None:
            parent.children.append(shown)
        elif node["kind"] == "topic":
            topics.append(shown)
    return TreeView(tuple(topics), len(nodes), max(0, len(nodes) - MOST_NODES))


def _node(node: Mapping[str, Any]) -> TreeNodeView:
    kind = printable(node["kind"])
    answer = node.get("answer")
    name = "; ".join(map(str, answer)) if kind == "answer" and isinstance(answer, list) else str(node.get("name", ""))
    given = node.get("labels")
    sets = [group for group in given if isinstance(group, dict)] if isinstance(given, list) else []
    end = str(node.get("limit") or ("dead end" if node.get("dead_end") else ""))
    end = end or ("not written by the model" if node.get("unwritten") else "")
    return TreeNodeView(
        kind,
        printable(name),
        tuple(_labels(group) for group in sets),
        _number(node.get("value")),
        _number(node.get("total")) if kind in ("entity", "answer") else "",
        printable(end),
        printable(str(node.get("hypothesis") or "")),
    )


def _labels(group: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    known = [(str(label), p) for label, p in group.items() if isinstance(p, int | float)]
    return tuple((printable(label), f"{p:.2f}") for label, p in sorted(known, key=lambda pair: -pair[1]))


def _number(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, int | float) and not isinstance(value, bool) else ""
