"""The shape of search trees: how deep their nodes lie, and how many children those have (MCTS-KBQA, Figure 2)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

Shape = dict[str, Any]


def tree_shape(trees: Iterable[Mapping[str, Any]]) -> Shape:
    """Depths and branching over all nodes of trees (`graphwalker.search.tree_json`), the root being depth 0.

    ``depths`` maps a depth to the share of the nodes below the roots that lie there. ``branching`` maps a depth to the
    mean number of different children (action and observation) of the nodes there that were expanded, ``samples`` to
    the mean number of all their children. JSON-ready.
    """
    depths: Counter[int] = Counter()
    samples: dict[int, list[int]] = defaultdict(list)
    different: dict[int, list[int]] = defaultdict(list)
    count = 0
    for tree in trees:
        count += 1
        children: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
        depth_of = {node["number"]: node["depth"] for node in tree["nodes"]}
        for node in tree["nodes"]:
            if node["parent"] is not None:
                depths[node["depth"]] += 1
                children[node["parent"]].append(node)
        for parent, nodes in children.items():
            samples[depth_of[parent]].append(sum(node["samples"] for node in nodes))
            different[depth_of[parent]].append(len({_what(node) for node in nodes}))
    whole = sum(depths.values())
    return {
        "trees": count,
        "nodes": whole,
        "depths": {str(depth): depths[depth] / whole for depth in sorted(depths)},
        "mean_depth": sum(depth * n for depth, n in depths.items()) / whole if whole else None,
        "branching": _means(different),
        "samples": _means(samples),
    }


def _what(node: Mapping[str, Any]) -> tuple[Any, ...]:
    turn = node["turn"] or {}
    text = turn.get("action") if turn.get("kind") != "none" else turn.get("text")
    return turn.get("kind"), text, turn.get("observation")


def _means(counts: Mapping[int, list[int]]) -> dict[str, float]:
    return {str(depth): sum(counts[depth]) / len(counts[depth]) for depth in sorted(counts)}
