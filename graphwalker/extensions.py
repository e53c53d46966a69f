"""Builds of torch's C++ extensions that a lock holds up, such as those that DeepSpeed makes at its first start."""

import os
from pathlib import Path


def locked_builds(root: str | os.PathLike | None = None) -> list[Path]:
    """The locks of builds under way, or of builds that were killed: then whoever needs the extension waits for ever.

    ``root`` is where torch builds (default: ``TORCH_EXTENSIONS_DIR``, else the user's cache).
    """
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(root or os.environ.get("TORCH_EXTENSIONS_DIR") or Path(cache) / "torch_extensions")
    return sorted([*folder.glob("*/lock"), *folder.glob("*/*/lock")])


def advice(lock: Path) -> str:
    """What to do about a lock."""
    return f"if nothing is being built now, a build was killed, and what needs it waits for ever: rm {lock}"
