"""The information gain by vLLM, in this process and over HTTP, is that by transformers."""

import pytest

from graphwalker.inference.values.configs import ValueConfig
from graphwalker.inference.values.information_gain import InformationGain
from graphwalker.inference.values.make import load_scorer
from graphwalker.search.sanitise import history
from tests.inference.real_vllm import serving, write_model

pytestmark = [pytest.mark.vllm, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(toy_tokenizer, tmp_path_factory):
    out = tmp_path_factory.mktemp("model")
    write_model(toy_tokenizer, out)
    return out


@pytest.fixture
def texts(toy_trajectories):
    """Pairs of a history and its question."""
    return [
        (history(t.turns[:end], t.question), t.question.text)
        for t in toy_trajectories
        for end in range(1, len(t.turns) + 1)
    ]


def _gains(folder, texts, backend, **options):
    length = 511 if backend == "server" else 512  # one token less than the server holds
    config = ValueConfig(
        "ig", str(folder), value_backend=backend, value_dtype="float32", value_length=length, **options
    )
    scorer = load_scorer(config)
    assert scorer.start == scorer.tokenizer.bos_token_id
    found = InformationGain(scorer).scored(texts)
    assert InformationGain(scorer).scored(texts * 2)[: len(texts)] == found
    return found


def _check_equal(folder, texts, found):
    for ours, theirs in zip(_gains(folder, texts, "transformers"), found, strict=True):
        assert (ours.history_tokens, ours.question_tokens) == (theirs.history_tokens, theirs.question_tokens)
        assert ours.log_perplexities() == pytest.approx(theirs.log_perplexities(), abs=1e-4)


def test_gains_in_this_process_are_equal(folder, texts, monkeypatch):
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    _check_equal(folder, texts, _gains(folder, texts, "vllm", value_memory=0.1))


def test_gains_of_a_server_are_equal(folder, texts, tmp_path):
    with serving(folder, tmp_path / "log") as server:
        _check_equal(folder, texts, _gains(folder, texts, "server", value_url=server.url))
