"""Opening a built KG, whatever its store."""

from pathlib import Path
from typing import Any

from graphwalker.errors import UserError
from graphwalker.kg.meta import META, read_meta
from graphwalker.kg.store import KGStore


def open_kg(path: str | Path) -> KGStore:
    """The KG that `graphwalker kg build` or `kg connect` left in a folder.

    Raises `UserError` when it is missing or half-built.
    """
    kind = read_meta(path)["store"]
    if kind == "memory":
        from graphwalker.kg.memory import MemoryStore

        return MemoryStore.open(path)
    if kind == "oxigraph":
        from graphwalker.kg.oxigraph import OxigraphStore

        return OxigraphStore.open(path)
    if kind == "endpoint":
        from graphwalker.kg.endpoint import EndpointStore

        return EndpointStore.open(path)
    raise UserError(f"{Path(path) / META}: unknown store {kind!r}")


def is_built(path: str | Path, extra: dict[str, Any]) -> bool:
    """Whether a whole KG of this version stands in a folder, built with the same `extra`."""
    try:
        open_kg(path)
        return read_meta(path)["extra"] == extra
    except UserError:
        return False
