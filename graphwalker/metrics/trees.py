"""The search trees and the proxies beside a run's trajectories, read and checked.

An inference run is ``RUN/{config.yaml, trajectories.jsonl, metrics.json, trees/*.json}``; ``proxies/VALUE.json`` holds
what a value gave to the nodes of its trees (``graphwalker kbqa proxies``).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from graphwalker.errors import UserError
from graphwalker.files import parse_json

TREES, PROXIES = "trees", "proxies"
_NODE = {"number": int, "parent": int | None, "depth": int, "visits": int, "total": int | float, "samples": int}


def read_trees(run: Path) -> Iterator[dict[str, Any]]:
    """The trees of a run (`graphwalker.search.tree_json`), by the names of their files.

    Raises ``UserError``, naming the file, for one that is no tree.
    """
    for file in sorted((Path(run) / TREES).glob("*.json")):
        tree = _json(file)
        if not isinstance(tree.get("question_id"), str) or not isinstance(tree.get("nodes"), list):
            raise UserError(f"{file}: not a search tree (question_id or nodes is missing)")
        for place, node in enumerate(tree["nodes"]):
            if not isinstance(node, dict) or not _is_node(node):
                raise UserError(f"{file}: node {place} is no node of a search tree")
        yield tree


def read_proxies(run: Path) -> dict[str, dict[str, Any]]:
    """For each value that was measured on a run's trees what its file holds."""
    found = {}
    for file in sorted((Path(run) / PROXIES).glob("*.json")):
        proxy = _json(file)
        if not isinstance(proxy.get("values"), dict):
            raise UserError(f"{file}: not a value's file (values is missing)")
        found[file.stem] = proxy
    return found


def _is_node(node: dict[str, Any]) -> bool:
    turn = node.get("turn")
    return all(isinstance(node.get(key), kind) for key, kind in _NODE.items()) and isinstance(turn, dict | None)


def _json(file: Path) -> dict[str, Any]:
    try:
        value = parse_json(file.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: {error}") from error
    if not isinstance(value, dict):
        raise UserError(f"{file}: expected an object")
    return value
