"""The search trees and the proxies beside a run's trajectories, read and checked.

An inference run is ``RUN/{config.yaml, trajectories.jsonl, metrics.json, trees/*.json}``; ``proxies/VALUE.json`` holds
what a value gave to the nodes of its trees (``graphwalker kbqa proxies``).
"""

import hashlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from graphwalker.errors import UserError
from graphwalker.files import parse_json

TREES, PROXIES = "trees", "proxies"
_LONGEST_NAME = 200  # characters of a file name; file systems take 255
_NODE: dict[str, Any] = {
    "number": int,
    "parent": int | None,
    "depth": int,
    "turn": dict | None,
    "ending": str | None,
    "answer": list | None,
    "samples": int,
    "value": int | float | None,
    "visits": int,
    "total": int | float,
}


def read_trees(run: Path) -> Iterator[dict[str, Any]]:
    """The trees of a run (`graphwalker.search.tree_json`), by the names of their files.

    Raises ``UserError``, naming the file, for one that is no tree.
    """
    for file in sorted((Path(run) / TREES).glob("*.json")):
        yield _tree(file)


def read_tree(run: Path, question_id: str) -> dict[str, Any] | None:
    """The tree of one question, ``None`` where there is none; raises as `read_trees` does."""
    file = Path(run) / TREES / tree_file(question_id)
    return _tree(file) if file.is_file() else None


def tree_file(question_id: str) -> str:
    """The name of a question's tree file; ids may hold what no file name may.

    >>> tree_file("WebQTest-0"), tree_file("a/b")
    ('WebQTest-0.json', 'a%2Fb.json')
    """
    name = quote(question_id, safe=" ")
    if not name or len(name) > _LONGEST_NAME or name.startswith("."):
        digest = hashlib.sha256(question_id.encode()).hexdigest()[:16]
        name = f"{quote(question_id, safe='').lstrip('.')[:40]}-{digest}"
    return f"{name}.json"


def read_proxies(run: Path) -> dict[str, dict[str, Any]]:
    """For each value that was measured on a run's trees what its file holds."""
    found = {}
    for file in sorted((Path(run) / PROXIES).glob("*.json")):
        proxy = _json(file)
        values = proxy.get("values")
        if not isinstance(values, dict) or not all(isinstance(of, dict) for of in values.values()):
            raise UserError(f"{file}: not a value's file (values of nodes by question are missing)")
        found[file.stem] = proxy
    return found


def _tree(file: Path) -> dict[str, Any]:
    tree = _json(file)
    if not isinstance(tree.get("question_id"), str) or not isinstance(tree.get("nodes"), list):
        raise UserError(f"{file}: not a search tree (question_id or nodes is missing)")
    before: set[int | None] = {None}
    for place, node in enumerate(tree["nodes"]):
        if not isinstance(node, dict) or not _is_node(node):
            raise UserError(f"{file}: node {place} is no node of a search tree")
        if node["parent"] not in before or node["number"] in before:
            raise UserError(f"{file}: node {place} does not stand in a tree (its parent comes first, its number once)")
        before.add(node["number"])
    return tree


def _is_node(node: dict[str, Any]) -> bool:
    return all(isinstance(node.get(key), kind) for key, kind in _NODE.items()) and math.isfinite(node["total"])


def _json(file: Path) -> dict[str, Any]:
    try:
        value = parse_json(file.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: {error}") from error
    if not isinstance(value, dict):
        raise UserError(f"{file}: expected an object")
    return value
