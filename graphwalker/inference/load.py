"""Loading a model for the agent, from a local folder or a hub, and choosing the engine that runs it.

Whatever the source, the tokenizer comes back with the protocol's chat and response templates, and the
model with embeddings for every token of its tokenizer.
"""

import importlib.util

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
from transformers.models.auto.tokenization_auto import get_tokenizer_config

from graphwalker.errors import UserError
from graphwalker.inference.engine import Engine
from graphwalker.inference.transformers_engine import TransformersEngine
from graphwalker.inference.vllm_http import VLLMServer, serve_command, server_url
from graphwalker.inference.vllm_server import VLLMServerEngine
from graphwalker.protocol import chat

_DAMAGED = (ValueError, TypeError, KeyError, AttributeError)  # what transformers raises on a file of another shape
BACKENDS = ("auto", "transformers", "vllm", "server")


def load_tokenizer(path: str):
    """The tokenizer of a model with our templates; turn tokens that it lacks are added.

    Raises ``UserError`` where there is none.
    """
    try:
        # AutoTokenizer gives every Qwen2 model the splitting rules of Qwen2, whatever its tokenizer.json says
        plain = get_tokenizer_config(path).get("tokenizer_class") == "TokenizersBackend"
        tokenizer = (PreTrainedTokenizerFast if plain else AutoTokenizer).from_pretrained(path)
    except (OSError, *_DAMAGED) as error:
        raise UserError(f"{path}: no tokenizer can be loaded from here ({_first_line(error)})") from error
    if len(tokenizer) <= len(tokenizer.all_special_tokens):  # what transformers makes of no file at all
        raise UserError(f"{path}: no tokenizer can be loaded from here")
    missing = [token for token in (chat.TURN_START, chat.TURN_END) if token not in tokenizer.get_vocab()]
    if missing:
        tokenizer.add_special_tokens({"extra_special_tokens": missing}, replace_extra_special_tokens=False)
    chat.install(tokenizer)
    if tokenizer.pad_token is None or tokenizer.pad_token == tokenizer.eos_token:
        # a pad token that is also the end of a turn would mask the very token that ends a turn
        spare = tokenizer.unk_token or tokenizer.bos_token
        tokenizer.pad_token = spare if spare and spare != tokenizer.eos_token else tokenizer.convert_ids_to_tokens(0)
    return tokenizer


def load_model(path: str, tokenizer, dtype: str = "auto", attention: str | None = None):
    """The model in a folder or on the hub, on the CPU, its embeddings resized where the tokenizer has grown.

    ``dtype``: ``auto`` (bfloat16, or float32 on a machine without an accelerator), or a torch type's name;
    train in float32, since small updates vanish in bfloat16 weights. ``attention`` is transformers' name of
    an implementation. Raises ``UserError`` where there is no model.
    """
    if dtype == "auto":
        dtype = "bfloat16" if torch.accelerator.is_available() else "float32"
    try:
        model = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype), attn_implementation=attention)
    except (OSError, ImportError, SafetensorError, *_DAMAGED) as error:
        raise UserError(f"{path}: no model can be loaded from here ({_first_line(error)})") from error
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(len(tokenizer))
    model.config.eos_token_id = tokenizer.eos_token_id
    model.config.pad_token_id = tokenizer.pad_token_id
    if model.generation_config is not None:
        model.generation_config.eos_token_id = tokenizer.eos_token_id
        model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


def load_engine(
    path: str,
    *,
    backend: str = "auto",
    capacity: int = 64,
    max_length: int = 4096,
    dtype: str = "auto",
    url: str | None = None,
    guided: bool = False,
) -> Engine:
    """The engine for a trained model: vLLM where it is installed and there is an accelerator, else transformers.

    ``backend`` ``server`` decodes with ``vllm serve`` at ``url``; the tokenizer still comes from ``path``. ``capacity``
    episodes run at a time, each of at most ``max_length`` tokens. ``guided`` holds every turn to the protocol's form,
    which vLLM can. Raises ``UserError`` for a backend that is not installed, a server that does not answer, and a
    folder without model or tokenizer.
    """
    if backend not in BACKENDS:
        raise UserError(f"unknown backend {backend!r}; one of {', '.join(BACKENDS)}")
    if (backend == "server") != (url is not None):
        raise UserError("the backend server needs the server's url, and only it does")
    installed = importlib.util.find_spec("vllm") is not None
    if backend == "vllm" and not installed:
        raise UserError("the backend vllm is not installed: pip install 'graphwalker-kgqa[vllm]' (docs/install.md)")
    tokenizer = load_tokenizer(path)
    if backend == "vllm" or (backend == "auto" and installed and torch.accelerator.is_available()):
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
        return TransformersEngine(model, tokenizer, capacity=capacity, max_length=max_length)
    except ValueError as error:
        raise UserError(f"{path}: the backend transformers cannot run this model: {error}") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__
