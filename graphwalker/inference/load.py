"""Loading a model for the agent, from a local folder or a hub, and choosing the engine that runs it.

Whatever the source, the tokenizer comes back with the protocol's chat and response templates, and the
model with embeddings for every token of its tokenizer.
"""

import importlib.util
import json
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from transformers.models.auto.tokenization_auto import get_tokenizer_config

from graphwalker.errors import UserError
from graphwalker.inference.engine import Engine
from graphwalker.inference.transformers_engine import TransformersEngine
from graphwalker.inference.vllm_http import VLLMServer, serve_command, server_url
from graphwalker.inference.vllm_server import VLLMServerEngine
from graphwalker.protocol import chat

# what transformers raises on a file of another shape
_DAMAGED = (ValueError, TypeError, KeyError, AttributeError, RuntimeError)
BACKENDS = ("auto", "transformers", "vllm", "server")
ADAPTER = "adapter_config.json"
PADDING = "<|finetune_right_pad_id|>"  # Llama 3 has a token for padding and does not name it


def load_tokenizer(path: str):
    """The tokenizer of a model with our templates; turn tokens are added where it has those of no family we know.

    Raises ``UserError`` where there is none.
    """
    tokenizer = read_tokenizer(path)
    if chat.family_of(tokenizer) is None:
        missing = [token for token in chat.CHATML.tokens if token not in tokenizer.get_vocab()]
        tokenizer.add_special_tokens({"extra_special_tokens": missing}, replace_extra_special_tokens=False)
    chat.install(tokenizer)
    if tokenizer.pad_token is None or tokenizer.pad_token == tokenizer.eos_token:
        # a pad token that is also the end of a turn would mask the very token that ends a turn
        spare = PADDING if PADDING in tokenizer.get_vocab() else tokenizer.unk_token or tokenizer.bos_token
        tokenizer.pad_token = spare if spare and spare != tokenizer.eos_token else tokenizer.convert_ids_to_tokens(0)
    return tokenizer


def read_tokenizer(path: str):
    """The tokenizer of a model as it was saved; raises ``UserError`` where there is none."""
    check_place(path)
    try:
        # AutoTokenizer gives every Qwen2 model the splitting rules of Qwen2, whatever its tokenizer.json says
        plain = get_tokenizer_config(path).get("tokenizer_class") == "TokenizersBackend"
        tokenizer = (PreTrainedTokenizerFast if plain else AutoTokenizer).from_pretrained(path)
    except (OSError, *_DAMAGED) as error:
        raise UserError(f"{path}: no tokenizer can be loaded from here ({_first_line(error)})") from error
    if len(tokenizer) <= len(tokenizer.all_special_tokens):  # what transformers makes of no file at all
        raise UserError(f"{path}: no tokenizer can be loaded from here")
    return tokenizer


def read_config(path: str) -> Any:
    """The configuration of a model's text part; raises ``UserError`` where there is none."""
    base = adapter_base(path) if is_adapter(path) else path
    try:
        return AutoConfig.from_pretrained(base).get_text_config()
    except (OSError, *_DAMAGED) as error:
        raise UserError(f"{base}: no model can be loaded from here ({_first_line(error)})") from error


def check_place(path: str) -> None:
    """Refuse a folder that is not there, which would be looked for on the hub, and for minutes."""
    parts = Path(path).parts
    is_id = (
        0 < len(parts) <= 2
        and not Path(path).is_absolute()
        and not Path(parts[0]).exists()
        and not str(path).startswith(("~", "."))  # a Path forgets a leading ./
    )
    if not is_id and not Path(path).is_dir():
        raise UserError(f"{path}: no such folder, and no model's id on the hub")


def load_model(
    path: str,
    tokenizer,
    dtype: str = "auto",
    attention: str | None = None,
    *,
    quantization: Any = None,
    keep_adapter: bool = False,
):
    """The model in a folder or on the hub, on the CPU, its embeddings resized where the tokenizer has grown.

    ``dtype``: ``auto`` (bfloat16, or float32 on a machine without an accelerator), or a torch type's name;
    train in float32, since small updates vanish in bfloat16 weights. ``attention`` is transformers' name of
    an implementation, ``quantization`` its configuration of one. A folder that holds an adapter gives its base
    model with the adapter merged into it, or with ``keep_adapter`` a trainable ``PeftModel``. Raises ``UserError``
    where there is no model, and for one whose vocabulary is not the tokenizer's.
    """
    if dtype == "auto":
        dtype = "bfloat16" if torch.accelerator.is_available() else "float32"
    base = adapter_base(path) if is_adapter(path) else path
    options = {"dtype": getattr(torch, dtype), "attn_implementation": attention}
    if quantization is not None:
        options["quantization_config"] = quantization
    try:
        model = AutoModelForCausalLM.from_pretrained(base, **options)
    except (OSError, ImportError, SafetensorError, *_DAMAGED) as error:
        raise UserError(f"{base}: no model can be loaded from here ({_first_line(error)})") from error
    _check_vocabulary(base, model, tokenizer)
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(len(tokenizer))
    model.config.eos_token_id = tokenizer.eos_token_id
    model.config.pad_token_id = tokenizer.pad_token_id
    if model.generation_config is not None:
        model.generation_config.eos_token_id = tokenizer.eos_token_id
        model.generation_config.pad_token_id = tokenizer.pad_token_id
    return _with_adapter(model, path, keep_adapter) if base != path else model


def is_adapter(path: str) -> bool:
    """Whether a folder holds an adapter (LoRA) and not a whole model."""
    return (Path(path) / ADAPTER).is_file() and not (Path(path) / "config.json").is_file()


def adapter_base(path: str) -> str:
    """The folder or hub id of the model that an adapter was trained on; raises ``UserError`` where none is named."""
    try:
        base = json.loads((Path(path) / ADAPTER).read_text("utf-8"))["base_model_name_or_path"]
    except (OSError, *_DAMAGED) as error:
        raise UserError(f"{path}/{ADAPTER}: cannot be read as an adapter's ({_first_line(error)})") from error
    if not isinstance(base, str) or not base:
        raise UserError(f"{path}/{ADAPTER}: names no base model (base_model_name_or_path)")
    return base


def _with_adapter(model, path: str, keep: bool):
    quantized = getattr(model, "is_quantized", False)
    # adapters of another type than their model's weights do not pass ZeRO-3 (as TRL says where it makes one)
    autocast = quantized or not is_deepspeed_zero3_enabled()
    try:
        adapted = PeftModel.from_pretrained(model, path, is_trainable=keep, autocast_adapter_dtype=autocast)
    except (OSError, SafetensorError, *_DAMAGED) as error:
        raise UserError(f"{path}: this adapter does not fit its base model ({_first_line(error)})") from error
    if keep:
        return adapted
    merged = adapted.merge_and_unload()
    merged.config._name_or_path = path  # what is in memory is no longer what lies where the base came from
    return merged


def _check_vocabulary(path: str, model, tokenizer) -> None:
    """Tokens beyond the embeddings may only be added ones; embeddings beyond the tokens may only be padding."""
    rows = model.get_input_embeddings().num_embeddings
    if tokenizer.vocab_size > rows or 2 * len(tokenizer) < rows:
        raise UserError(
            f"{path}: the tokenizer has {len(tokenizer)} tokens and the model embeddings for {rows}: one of them is "
            "another model's; put the tokenizer's files of the model beside its weights"
        )


def load_engine(
    path: str,
    *,
    backend: str = "auto",
    capacity: int = 64,
    parked: int = 0,
    max_length: int = 4096,
    dtype: str = "auto",
    url: str | None = None,
    guided: bool = False,
) -> Engine:
    """The engine for a trained model: vLLM where it is installed and there is an accelerator, else transformers.

    ``backend`` ``server`` decodes with ``vllm serve`` at ``url``; the tokenizer still comes from ``path``. ``capacity``
    episodes run at a time, each of at most ``max_length`` tokens. ``guided`` holds every turn to the protocol's form,
    which vLLM can; ``parked`` is the transformers engine's. An adapter runs on transformers, merged into its model.
    Raises ``UserError`` for a backend that is not installed, a server that does not answer, and a folder without model
    or tokenizer.
    """
    if backend not in BACKENDS:
        raise UserError(f"unknown backend {backend!r}; one of {', '.join(BACKENDS)}")
    if (backend == "server") != (url is not None):
        raise UserError("the backend server needs the server's url, and only it does")
    installed = importlib.util.find_spec("vllm") is not None
    if backend == "vllm" and not installed:
        raise UserError("the backend vllm is not installed: pip install 'graphwalker-kgqa[vllm]' (docs/install.md)")
    adapter = is_adapter(path)
    if backend == "vllm" and adapter:
        raise UserError(f"{path}: vLLM needs a whole model: graphwalker merge {path} OUT, and name OUT here")
    tokenizer = load_tokenizer(path)
    if backend == "vllm" or (backend == "auto" and installed and not adapter and torch.accelerator.is_available()):
        from graphwalker.inference.vllm_engine import VLLMEngine  # heavy, and often not installed

        return VLLMEngine.load(path, tokenizer, capacity=capacity, max_length=max_length, dtype=dtype, guided=guided)
    if url is not None:
        server = VLLMServer(url, serve_command(path, server_url(url), max_length))
        return VLLMServerEngine(server, tokenizer, capacity=capacity, max_length=max_length, guided=guided)
    if guided:
        raise UserError("only vLLM can hold turns to the protocol's form: use the backend vllm or server")
    model = load_model(path, tokenizer, dtype).eval()
    if torch.accelerator.is_available():
        model.to(torch.accelerator.current_accelerator())
    try:
        return TransformersEngine(model, tokenizer, capacity=capacity, parked=parked, max_length=max_length)
    except ValueError as error:
        raise UserError(f"{path}: the backend transformers cannot run this model: {error}") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__
