"""A search as JSON, for reports and for golden tests."""

from typing import Any

from graphwalker.fields import SCHEMA
from graphwalker.search.node import Node
from graphwalker.search.tree import Tree
from graphwalker.search.vote import candidates


def tree_json(tree: Tree, question_id: str) -> dict[str, Any]:
    """The nodes of a tree in the order of their creation, each with its parent's number, and what came of the search.

    ``outside`` holds the terminal states that rollouts came to, ``parent`` being the tree's node they started from;
    ``candidates`` the answers of the vote, best first.
    """
    inside = sorted(tree.root.walk(), key=lambda node: node.number)
    numbers = {node.number for node in inside}
    return {
        "schema": SCHEMA,
        "question_id": question_id,
        "searcher": tree.config.searcher,
        "stopped": tree.stopped,
        "selected": tree.selected,
        "simulated": tree.simulated,
        "nodes": [_node(node, numbers) for node in inside],
        "outside": [_node(node, numbers) for node in tree.ends if node.number not in numbers],
        "candidates": candidates_json(tree),
    }


def candidates_json(tree: Tree) -> list[dict[str, Any]]:
    """The answers of the vote: the answer, its votes, and the number of the terminal that gave it first.

    Where the searcher ranks instead: what each terminal gave, best first, with its score.
    """
    if tree.ranked:
        return [
            {"answer": list(node.answer or ()), "votes": node.samples, "node": node.number, "score": node.total}
            for node in tree.valid
        ]
    return [
        {"answer": list(c.node.answer or ()), "votes": c.votes, "node": c.node.number} for c in candidates(tree.valid)
    ]


def _node(node: Node, inside: set[int]) -> dict[str, Any]:
    parent = node.parent
    while parent is not None and parent.number not in inside:
        parent = parent.parent
    return {
        "number": node.number,
        "parent": None if parent is None else parent.number,
        "depth": node.depth,
        "turn": None if node.turn is None else node.turn.to_json(),
        "ending": node.ending,
        "limit": node.limit,
        "answer": None if node.answer is None else list(node.answer),
        "samples": node.samples,
        "value": node.value,
        "visits": node.visits,
        "total": node.total,
        **node.details(),
    }
