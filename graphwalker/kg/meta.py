"""The description of a built KG, `meta.json`: written last, so that a folder without it did not finish."""

from pathlib import Path
from typing import Any

from graphwalker.errors import UserError
from graphwalker.files import parse_json

META = "meta.json"
META_SCHEMA = 1
LAYOUT = 3  # raise it whenever the files beside meta.json change, so that older folders are built again


def read_meta(folder: str | Path, store: str | None = None) -> dict[str, Any]:
    """What `meta.json` says. Raises `UserError` when the KG is missing, half-built or not of this kind and version."""
    folder = Path(folder)
    if not folder.exists():
        raise UserError(f"{folder}: no such knowledge graph (make one with `graphwalker kg build SOURCE {folder}`)")
    if not folder.is_dir():
        raise UserError(f"{folder} is a file, not a built knowledge graph (build it first: `graphwalker kg build`)")
    try:
        meta = parse_json((folder / META).read_bytes())
        kind, version, _ = meta["store"], meta["schema"], meta["profile"]
    except FileNotFoundError:
        raise UserError(f"{folder} is not a whole knowledge graph: {META} is missing; build it again") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder / META} is broken ({error}): build the knowledge graph again") from error
    if version != META_SCHEMA:
        raise UserError(f"{folder} has schema {version!r}; this version reads {META_SCHEMA}: build it again")
    if meta.get("layout") != LAYOUT:
        raise UserError(f"{folder} was built by another version of graphwalker: build it again")
    if store is not None and kind != store:
        raise UserError(f"{folder} holds a {kind} store, not a {store} one")
    return meta
