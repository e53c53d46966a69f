"""Models by name: ``tiny``, ``tiny-qwen2``, ``smollm2``, a local folder, or a hub id.

The built-in ones are made once, in a folder of their own; from there on all are loaded alike
(``inference.load``).
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from peft import PeftConfig
from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
from transformers import set_seed
from transformers.integrations import deepspeed
from trl import ModelConfig, get_peft_config, get_quantization_config

from graphwalker.errors import UserError
from graphwalker.files import atomic_folder
from graphwalker.inference import load
from graphwalker.protocol import chat
from graphwalker.train import smollm2, tiny
from graphwalker.train.configs import TinyConfig
from graphwalker.train.cpu_head import fit_fused_head

TINY = {"tiny": "lfm2", "tiny-qwen2": "qwen2"}
MADE_WITH = "made_with.json"


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
    if conversations is None:
        check_trained(name)
    elif name in TINY:
        settings = {**asdict(size), "seed": seed, "source": source}
        return made_once(
            Path(size.model_cache) / name, settings, lambda out: _make_tiny(name, out, conversations(), settings)
        )
    if name == "smollm2":
        return made_once(Path(size.model_cache) / name, {}, smollm2.export)
    if load.is_adapter(name):
        _check_files(Path(name), load.ADAPTER)
        prepare_model(load.adapter_base(name))
    elif Path(name).is_dir():
        _check_files(Path(name), "config.json")
    elif name.startswith((".", "/", "~")) or Path(name).exists():
        raise UserError(f"{name}: no such model folder")
    return name


def check_there(name: str) -> None:
    """Raise ``UserError`` for a model's folder that is not there, before anything is made for its training."""
    if name not in TINY and name != "smollm2":
        load.check_place(prepare_model(name))


def check_trained(name: str) -> None:
    """Raise ``UserError`` for a model that SFT makes from nothing, where one is needed that writes turns."""
    if name in TINY:
        raise UserError(f"the model {name} is untrained: train it first with recipes/sft.py and name its output here")


def with_turn_tokens(path: str, cache: str = TinyConfig.model_cache) -> str:
    """The model itself where its tokenizer has turn tokens, else a copy below ``cache`` that has them.

    The copy is made once, by one process: ZeRO-3 and the reference model of GRPO read the grown embeddings from disk.
    """
    if chat.family_of(load.read_tokenizer(path)) is not None:
        return path

    def make(out: Path) -> None:
        tokenizer = load.load_tokenizer(path)  # adds what is missing
        set_seed(0)  # new rows are drawn around the mean of the old ones
        load.load_model(path, tokenizer, "auto").save_pretrained(out)
        tokenizer.save_pretrained(out)

    return made_once(copy_folder(path, cache, "turns"), {"source": path, "added": list(chat.CHATML.tokens)}, make)


def copy_folder(path: str, cache: str, kind: str) -> Path:
    """Where a copy of a model with more tokens stands below the models' folder."""
    name = re.sub(r"[^\w.]+", "--", path.strip("/."))
    return Path(cache) / f"{name}-{kind}"


def load_for_training(path: str, tokenizer: Any, arguments: ModelConfig) -> tuple[Any, PeftConfig | None]:
    """The model to train, and the LoRA configuration that its trainer still has to apply, if any.

    With ``use_peft`` an adapter's folder gives its base model with that adapter, to be trained on; without, the
    adapter is merged and all weights are trained. Raises ``UserError`` for a LoRA that would leave new tokens untrained
    or differs from the adapter it goes on from.
    """
    try:
        config, quantization = get_peft_config(arguments), get_quantization_config(arguments)
    except ValueError as error:
        raise UserError(" ".join(str(error).split())) from error
    adapter = load.is_adapter(path)
    if config is not None:
        _check_new_tokens(load.adapter_base(path) if adapter else path, config)
    if adapter and config is not None:
        _check_shape(path, config)
    model = load.load_model(
        path,
        tokenizer,
        arguments.dtype or "float32",
        arguments.attn_implementation,
        quantization=quantization,
        keep_adapter=config is not None,
    )
    fit_fused_head(model)
    if adapter or config is None:
        return model, None
    if not config.target_modules and model.config.model_type not in TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING:
        config.target_modules = "all-linear"  # PEFT has no choice of its own for this architecture
    return model, config


def _check_new_tokens(base: str, config: Any) -> None:
    marker = Path(base) / MADE_WITH
    added = json.loads(marker.read_text()).get("added") if marker.is_file() else None
    if added and "embed_tokens" not in (config.modules_to_save or ()):
        raise UserError(
            f"{base}: the tokens {' '.join(added)} are new to this model, and LoRA would leave their embeddings "
            "untrained: set lora_modules_to_save: [embed_tokens, lm_head]"
        )


def _check_shape(path: str, config: Any) -> None:
    before = PeftConfig.from_pretrained(path)
    for key, name in (("r", "lora_r"), ("lora_alpha", "lora_alpha")):
        if getattr(before, key) != getattr(config, key):
            raise UserError(
                f"{name}: {getattr(config, key)}, but the adapter in {path} has {getattr(before, key)}: training "
                "goes on with that adapter; set it to the same, or merge the adapter first (graphwalker merge)"
            )


def made_once(folder: Path, settings: dict, make: Callable[[Path], None]) -> str:
    """Make a built-in model's folder unless it stands there already with these settings."""
    marker = folder / MADE_WITH
    if not marker.is_file() or json.loads(marker.read_text()) != settings:
        with atomic_folder(folder) as temporary, whole_weights():
            make(temporary)
            (temporary / MADE_WITH).write_text(json.dumps(settings))
    return str(folder)


@contextmanager
def whole_weights() -> Iterator[None]:
    """Under ZeRO-3 transformers splits every model it makes over all processes; one that makes a model alone hangs."""
    config = deepspeed._hf_deepspeed_config_weak_ref and deepspeed._hf_deepspeed_config_weak_ref()
    if config is None:
        yield
        return
    deepspeed.unset_hf_deepspeed_config()
    try:
        yield
    finally:
        deepspeed.set_hf_deepspeed_config(config)


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


def _check_files(folder: Path, config: str) -> None:
    if not (folder / config).is_file():
        raise UserError(f"{folder}: no model here ({config} is missing)")
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json")):
        raise UserError(f"{folder}: no tokenizer here (tokenizer.json is missing); save it beside the model")
