"""What is known beforehand of a graph's relations: all that an agent may see, and which state each other's reverse."""

import json
from pathlib import Path

from graphwalker.errors import UserError
from graphwalker.files import parse_json

KINDS = "kinds.json"


def write_kinds(folder: Path, relations: list[str], reverses: dict[str, set[str]]) -> None:
    record = {"relations": relations, "reverses": {key: sorted(value) for key, value in reverses.items()}}
    (folder / KINDS).write_text(json.dumps(record, ensure_ascii=False), "utf-8")


def read_kinds(folder: Path) -> tuple[list[str], dict[str, set[str]]]:
    """Relations, and relation -> its reverses. Raises `UserError` when the file is damaged."""
    try:
        kinds = parse_json((folder / KINDS).read_bytes())
        return list(kinds["relations"]), {key: set(value) for key, value in kinds["reverses"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{folder / KINDS} is damaged ({error}): make the knowledge graph again") from error
