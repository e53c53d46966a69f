"""What a value of a config stands for: a file is its content, so that a name says what was trained, not where from."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from graphwalker.files import file_hash

LAYOUT = 1  # raised when the same settings train, or evaluate to, something else than before
PACKAGES = ("torch", "transformers", "trl")
_BLOCK, _BLOCKS = 1 << 20, 64


def digest(value: Any) -> str:
    """A hash of a JSON-ready value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def versions() -> dict[str, str]:
    """What else the outcome depends on."""
    found = {"layout": str(LAYOUT)}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def identity(value: Any) -> Any:
    """A value with every file or folder that a string in it names in place of the string, as a hash of its content."""
    if isinstance(value, Mapping):
        return {str(key): identity(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [identity(item) for item in value]
    if isinstance(value, Path) or (isinstance(value, str) and 0 < len(value) < 1000 and "\n" not in value):
        path = Path(value)
        if path.is_file():
            return {"file": file_hash(path)}
        if path.is_dir():
            return {"folder": folder_hash(path)}
    return value


def model_identity(name: str) -> Any:
    """A model's: the content of its folder, or the name of one that is built in or on the hub."""
    return {"folder": folder_hash(Path(name))} if Path(name).is_dir() else name


def folder_hash(folder: Path) -> str:
    """A hash of the files directly in a folder: of a model, its weights, config and tokenizer alone."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    if any((folder / name).is_file() for name in ("config.json", "adapter_config.json")):
        files = [path for path in files if _is_of_a_model(path)]
    return digest([[path.name, _sampled(path, path.stat().st_size, path.stat().st_mtime_ns)] for path in files])


def _is_of_a_model(path: Path) -> bool:
    known = ("config.json", "generation_config.json", "tokenizer", "special_tokens", "vocab", "merges", "chat_template")
    return path.suffix == ".safetensors" or path.name.startswith((*known, "adapter_", "pytorch_model", "model."))


@cache
def _sampled(path: Path, size: int, changed: int) -> str:
    """A hash of a file's size and of its content; of a large file, of blocks spread evenly over it."""
    if size <= _BLOCK * _BLOCKS:
        return file_hash(path)
    with open(path, "rb") as handle:
        return hashlib.sha256(b"".join([str(size).encode(), *_spread(handle, size)])).hexdigest()


def _spread(handle: Any, size: int) -> Iterable[bytes]:
    for i in range(_BLOCKS):
        handle.seek((size - _BLOCK) * i // (_BLOCKS - 1))
        yield hashlib.sha256(handle.read(_BLOCK)).digest()
