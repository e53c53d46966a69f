"""Models from folders: what is missing is said in one line, what a tokenizer lacks is added."""

import shutil

import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from graphwalker.errors import UserError
from graphwalker.inference.load import load_engine, load_model, load_tokenizer
from graphwalker.protocol import chat
from graphwalker.train import tiny


@pytest.fixture(scope="module")
def folder(toy_tokenizer, tmp_path_factory):
    out = tmp_path_factory.mktemp("model")
    tiny.make_model(toy_tokenizer, "qwen2", width=32, layers=2, heads=2).save_pretrained(out)
    toy_tokenizer.save_pretrained(out)
    return out


def _without(folder, tmp_path, pattern):
    shutil.copytree(folder, tmp_path / "copy")
    for file in (tmp_path / "copy").glob(pattern):
        file.unlink()
    return str(tmp_path / "copy")


def test_a_saved_model_comes_back(folder, toy_tokenizer):
    engine = load_engine(str(folder), max_length=100)
    assert engine.max_length == 100
    assert engine.tokenizer.get_vocab() == toy_tokenizer.get_vocab()
    assert engine.tokenizer.chat_template == toy_tokenizer.chat_template
    assert engine.tokenizer.eos_token == chat.TURN_END and engine.tokenizer.pad_token != chat.TURN_END
    assert engine.model.dtype == (torch.bfloat16 if torch.accelerator.is_available() else torch.float32)
    assert not engine.model.training


def test_a_folder_without_a_tokenizer(folder, tmp_path):
    path = _without(folder, tmp_path, "tokenizer*")
    with pytest.raises(UserError, match="no tokenizer can be loaded") as caught:
        load_engine(path)
    assert "\n" not in str(caught.value)


def test_a_folder_without_weights(folder, tmp_path, toy_tokenizer):
    path = _without(folder, tmp_path, "*.safetensors")
    with pytest.raises(UserError, match="no model can be loaded") as caught:
        load_model(path, toy_tokenizer)
    assert "\n" not in str(caught.value)


def test_weights_that_were_cut(folder, tmp_path, toy_tokenizer):
    path = _without(folder, tmp_path, "nothing")
    weights = tmp_path / "copy" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(UserError, match="no model can be loaded"):
        load_model(path, toy_tokenizer)


def test_backends(folder, monkeypatch):
    with pytest.raises(UserError, match="unknown backend 'sglang'"):
        load_engine(str(folder), backend="sglang")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match="vllm is not installed"):
        load_engine(str(folder), backend="vllm")


def test_turn_tokens_that_a_tokenizer_lacks_are_added(folder, toy_tokenizer, tmp_path):
    foreign = tiny.train_tokenizer(["plain text"], 300)
    core = foreign.backend_tokenizer.to_str().replace("<|im_start|>", "<|user|>").replace("<|im_end|>", "<|end|>")
    from tokenizers import Tokenizer

    fast = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(core),
        eos_token="<|end|>",
        pad_token="<|end|>",
        extra_special_tokens=["<|user|>"],
    )
    size = len(fast)
    tiny.make_model(fast, "qwen2", width=32, layers=1, heads=2).save_pretrained(tmp_path)
    fast.save_pretrained(tmp_path)
    tokenizer = load_tokenizer(str(tmp_path))
    model = load_model(str(tmp_path), tokenizer)
    assert len(tokenizer) == size + 2 <= model.get_input_embeddings().num_embeddings
    assert tokenizer(chat.TURN_START, add_special_tokens=False)["input_ids"] == [size]
    assert "<|user|>" in tokenizer.all_special_tokens  # those it had are special still
    assert tokenizer.eos_token == chat.TURN_END and tokenizer.pad_token != chat.TURN_END
    assert model.generation_config.eos_token_id == model.config.eos_token_id == tokenizer.eos_token_id
    tokenizer.save_pretrained(tmp_path / "again")
    again = AutoTokenizer.from_pretrained(tmp_path / "again")
    assert again(chat.TURN_END, add_special_tokens=False)["input_ids"] == [tokenizer.eos_token_id]


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("text", ["[]", "null", "5", '"x"', "{", "{}"])
def test_a_file_of_another_shape(folder, tmp_path, name, text):
    path = _without(folder, tmp_path, "nothing")
    (tmp_path / "copy" / name).write_text(text)
    try:
        load_engine(path)
    except UserError as error:
        assert str(error).startswith(f"{path}: no ") and "\n" not in str(error)
    else:
        assert text == "{}"  # a tokenizer needs no settings of its own
