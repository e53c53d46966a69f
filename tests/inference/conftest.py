"""Small random models of the families that the engine must serve."""

import pytest
import torch
from transformers import AutoModelForCausalLM as Auto
from transformers import Lfm2Config, LlamaConfig, Qwen2Config, set_seed

SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "initializer_range": 0.2,  # wide, so that the next token depends on what came before
}


class Numbers:
    """The part of a tokenizer that the engine reads."""

    eos_token_id, pad_token_id = 2, 0


@pytest.fixture(scope="session", params=["lfm2", "qwen2", "llama"])
def random_model(request):
    if request.param == "lfm2":
        kinds = ["conv", "full_attention"]
        config = Lfm2Config(**SIZES, layer_types=kinds, conv_L_cache=4, conv_bias=True, block_auto_adjust_ff_dim=False)
    else:
        config = {"qwen2": Qwen2Config, "llama": LlamaConfig}[request.param](**SIZES)
    set_seed(0)
    return Auto.from_config(config).eval()


@pytest.fixture(scope="session")
def numbers():
    return Numbers()


@pytest.fixture(autouse=True)
def one_thread():
    """Small matrices are slower on several threads, and sums come out the same on every machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
