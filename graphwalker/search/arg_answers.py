"""The answers of ArG's tree: leaves ranked by their paths' scores, and the other ends of the best one's relations."""

from collections.abc import Sequence
from typing import Any

from graphwalker.metrics.normalise import normalise
from graphwalker.protocol.reflection import UTILITY
from graphwalker.search.arg_node import ArgNode
from graphwalker.search.arg_scores import confidences
from graphwalker.search.tree import Tree


def rank(tree: Tree, leaves: Sequence[ArgNode]) -> None:
    """Rank the leaves that answer by their totals, the earlier of equals first, and give the best one all answers.

    With ``arg_answers`` "path", a question with several answers gets them all: where the best leaf answers with the
    entity that its path ends at, so do the other entities at the end of the same relations, kept by the beam or not, if
    none of them was found unrelevant or unreasonable. ``notes["written"]`` keeps what the model itself wrote there.
    """
    answered = sorted((leaf for leaf in leaves if leaf.answer), key=lambda leaf: -leaf.total)
    tree.ranked, tree.valid = True, list(answered)
    tree.ends = [*answered, *(end for end in tree.ends if end not in answered)]
    if not answered:
        return
    best = answered[0]
    best.notes["written"] = list(best.answer or ())
    if tree.config.arg_answers == "path":
        best.answer = tuple(name for name, _ in _of_path(tree, best))


def answer_table(tree: Tree) -> list[dict[str, Any]]:
    """The prediction's answers with the score of their path and the utility that was found; JSON-ready, best first.

    ``utility`` is the likeliest's number and ``confidence`` its probability; both are ``None`` for an answer that no
    leaf was written for.
    """
    if not tree.valid:
        return []
    best = tree.valid[0]
    assert isinstance(best, ArgNode)
    found = _of_path(tree, best) if tree.config.arg_answers == "path" else [(name, best) for name in best.answer or ()]
    return [{"answer": name, "score": round(node.total, 6), **_utility(node)} for name, node in found]


def _of_path(tree: Tree, best: ArgNode) -> list[tuple[str, ArgNode]]:
    """The best leaf's answers, then those of its relations' other ends, best first, each once."""
    written = best.notes["written"]
    found = {normalise(name): (name, best) for name in written}
    end = best.steps()[-2]
    if end.kind == "entity" and normalise(end.name) in found:
        way = (best.steps()[0], best.relations())
        others = [
            node
            for node in tree.root.walk()
            if isinstance(node, ArgNode)
            and node.kind == "entity"
            and not node.limit
            and node.name != node.entity  # a mediator is nobody's answer
            and (node.steps()[0], node.relations()) == way
        ]
        for node in sorted(others, key=lambda node: -node.total):
            leaf = next((child for child in node.children if isinstance(child, ArgNode) and child.answer), None)
            found.setdefault(normalise(node.name), (node.name, leaf or node))
    return list(found.values())


def _utility(node: ArgNode) -> dict[str, Any]:
    if node.kind != "answer" or not node.labels:
        return {"utility": None, "confidence": None}
    odds = confidences(node.labels[0])
    likeliest = max(UTILITY, key=odds.__getitem__)
    return {"utility": UTILITY.index(likeliest) + 1, "confidence": round(odds[likeliest], 6)}
