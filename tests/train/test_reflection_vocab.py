"""The reflection tokens in any model's vocabulary: one token each, and rows that mean something."""

import copy
import json
from pathlib import Path

import pytest
import torch
from tokenizers import decoders
from transformers import AutoModelForCausalLM

from graphwalker.errors import UserError
from graphwalker.inference.load import load_model, load_tokenizer
from graphwalker.protocol.reflection import ALL, token_ids
from graphwalker.train import tiny
from graphwalker.train.reflection_vocab import NOISE, add_tokens, with_reflection_tokens

TEXT = "[Relation Retrieval]<paragraph>location.country.capital</paragraph>[Fully Relevant]"


@pytest.fixture
def base(tmp_path, toy_tokenizer, make_model) -> str:
    make_model("qwen2").save_pretrained(tmp_path / "base")
    toy_tokenizer.save_pretrained(tmp_path / "base")
    return str(tmp_path / "base")


def _rows(path: str | Path) -> torch.Tensor:
    return AutoModelForCausalLM.from_pretrained(path).get_input_embeddings().weight.detach()


def test_a_model_gets_the_tokens_once_and_the_same_each_time(base, tmp_path):
    path = with_reflection_tokens(base, str(tmp_path / "cache"))
    tokenizer = load_tokenizer(path)
    ids = list(token_ids(tokenizer.get_vocab(), path).values())
    assert ids == list(range(len(load_tokenizer(base)), len(load_tokenizer(base)) + len(ALL)))
    pieces = tokenizer.convert_ids_to_tokens(tokenizer(TEXT, add_special_tokens=False)["input_ids"])
    assert [piece for piece in pieces if piece in ALL] == [TEXT[:20], "<paragraph>", "</paragraph>", "[Fully Relevant]"]
    assert with_reflection_tokens(path, str(tmp_path / "cache")) == path
    assert torch.equal(_rows(path), _rows(with_reflection_tokens(base, str(tmp_path / "other"))))
    assert not torch.equal(_rows(path), _rows(with_reflection_tokens(base, str(tmp_path / "third"), seed=1)))
    assert torch.equal(_rows(path)[: ids[0]], _rows(base))


def test_a_model_that_changed_gets_them_anew(base, tmp_path, make_model):
    cache = str(tmp_path / "cache")
    before = _rows(with_reflection_tokens(base, cache))
    changed = make_model("qwen2")
    torch.nn.init.ones_(changed.get_input_embeddings().weight)
    changed.save_pretrained(base)
    assert not torch.equal(before, _rows(with_reflection_tokens(base, cache)))
    config = Path(base) / "tokenizer_config.json"  # not only its weights
    config.write_text(json.dumps({**json.loads(config.read_text()), "model_max_length": 77}))
    assert load_tokenizer(with_reflection_tokens(base, cache)).model_max_length == 77


@pytest.mark.parametrize("tied", [True, False])
def test_new_rows_lie_near_their_words_and_apart_from_each_other(toy_tokenizer, tied):
    tokenizer = copy.deepcopy(toy_tokenizer)
    model = tiny.make_model(toy_tokenizer, "qwen2", width=32, layers=1, heads=2)
    if not tied:
        model.config.tie_word_embeddings = False
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))
    word_ids = tokenizer("fully relevant", add_special_tokens=False)["input_ids"]
    ids = add_tokens(model, tokenizer)
    for layer in {model.get_input_embeddings(), model.get_output_embeddings()}:
        weight = layer.weight.detach()
        assert len(weight) == len(tokenizer)
        row, spread = weight[ids[ALL.index("[Fully Relevant]")]], weight[: min(ids)].std(dim=0)
        off = (row - weight[word_ids].mean(dim=0)).abs() / (spread * NOISE)
        assert 0 < off.max() < 5
        assert len({tuple(weight[i].tolist()) for i in ids}) == len(ALL)
    assert (model.get_output_embeddings().weight is model.get_input_embeddings().weight) == tied


def test_texts_with_the_tokens_decode_even_where_the_decoder_joins_first(toy_tokenizer):
    tokenizer = copy.deepcopy(toy_tokenizer)
    tokenizer.backend_tokenizer.decoder = decoders.Sequence([decoders.Fuse(), decoders.ByteLevel()])
    add_tokens(tiny.make_model(toy_tokenizer, "qwen2", width=32, layers=1, heads=2), tokenizer)
    text = f"Which city?\n{TEXT} Île de France"
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


def test_rows_that_a_model_has_to_spare_are_used(toy_tokenizer):
    tokenizer = copy.deepcopy(toy_tokenizer)
    model = tiny.make_model(toy_tokenizer, "qwen2", width=32, layers=1, heads=2)
    model.resize_token_embeddings(len(tokenizer) + 100)
    spare = model.get_input_embeddings().weight[len(tokenizer)].detach().clone()
    ids = add_tokens(model, tokenizer)
    assert model.get_input_embeddings().num_embeddings == ids[0] + 100
    assert not torch.equal(model.get_input_embeddings().weight[ids[0]], spare)


@pytest.mark.parametrize(
    ("has", "said"),
    [(ALL[:4], "12 of the 16 reflection tokens are missing"), ((*ALL[1:], ALL[0]), "in another order")],
)
def test_a_checkpoint_with_other_tokens_is_refused(tmp_path, base, has, said):
    tokenizer = load_tokenizer(base)
    tokenizer.add_special_tokens({"extra_special_tokens": list(has)}, replace_extra_special_tokens=False)
    tokenizer.save_pretrained(base)
    with pytest.raises(UserError, match=said):
        with_reflection_tokens(base, str(tmp_path / "cache"))


def test_a_checkpoint_without_them_is_named(toy_tokenizer):
    with pytest.raises(UserError, match="some/folder: 16 of the 16 reflection tokens are missing.*recipes/arg.py"):
        token_ids(toy_tokenizer.get_vocab(), "some/folder")


def test_turn_tokens_come_along(tmp_path, foreign_model):
    path = with_reflection_tokens(foreign_model, str(tmp_path / "cache"))
    tokenizer = load_tokenizer(path)
    assert tokenizer.eos_token == "<|im_end|>"
    assert load_model(path, tokenizer).get_input_embeddings().num_embeddings == len(tokenizer)
    assert json.loads(Path(path, "made_with.json").read_text())["added"] == ["<|im_start|>", "<|im_end|>", *ALL]
