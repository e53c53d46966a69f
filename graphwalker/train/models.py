"""Models by name: ``tiny``, ``tiny-qwen2``, ``smollm2``, a local folder, or a hub id.

The built-in ones are made once, in a folder of their own; from there on all are loaded alike
(``inference.load``).
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

from graphwalker.errors import UserError
from graphwalker.files import atomic_folder
from graphwalker.protocol import chat
from graphwalker.train import smollm2, tiny
from graphwalker.train.configs import TinyConfig

TINY = {"tiny": "lfm2", "tiny-qwen2": "qwen2"}


def prepare_model(
    name: str,
    size: TinyConfig | None = None,
    conversations: Callable[[], Iterable[list[dict]]] | None = None,
    *,
    source: str = "",
    seed: int = 0,
) -> str:
    """The folder or hub id to load for a model's name; makes the built-in ones below ``size.model_cache`` once.

    ``conversations`` gives the messages on which a tiny model's tokenizer is trained, and ``source`` tells
    them from others (a hash of their file, say). A built-in model made from other settings or texts than
    those asked for is made again. Raises ``UserError`` for a folder that holds no model or no tokenizer, and
    for a tiny model where there are no texts to make it from.
    """
    size = size or TinyConfig()
    if name in TINY:
        if conversations is None:
            raise UserError(
                f"the model {name} is untrained: train it first with recipes/sft.py and name its output here"
            )
        settings = {**asdict(size), "seed": seed, "source": source}
        return _once(
            Path(size.model_cache) / name, settings, lambda out: _make_tiny(name, out, conversations(), settings)
        )
    if name == "smollm2":
        return _once(Path(size.model_cache) / name, {}, smollm2.export)
    if Path(name).is_dir():
        _check_folder(Path(name))
    elif name.startswith((".", "/", "~")) or Path(name).exists():
        raise UserError(f"{name}: no such model folder")
    return name


def _once(folder: Path, settings: dict, make: Callable[[Path], None]) -> str:
    """Make a built-in model's folder unless it stands there already with these settings."""
    marker = folder / "made_with.json"
    if not marker.is_file() or json.loads(marker.read_text()) != settings:
        with atomic_folder(folder) as temporary:
            make(temporary)
            (temporary / marker.name).write_text(json.dumps(settings))
    return str(folder)


def _make_tiny(name: str, out: Path, conversations: Iterable[list[dict]], settings: dict) -> None:
    tokenizer = tiny.train_tokenizer(map(chat.render, conversations), settings["tiny_vocabulary"])
    chat.install(tokenizer)
    model = tiny.make_model(
        tokenizer,
        TINY[name],
        width=settings["tiny_width"],
        layers=settings["tiny_layers"],
        heads=settings["tiny_heads"],
        seed=settings["seed"],
    )
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def _check_folder(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder}: no model here (config.json is missing)")
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json")):
        raise UserError(f"{folder}: no tokenizer here (tokenizer.json is missing); save it beside the model")
