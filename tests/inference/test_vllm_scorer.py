"""The information gain by vLLM, in this process, is that by transformers."""

import pytest
import torch

from graphwalker.inference.values.configs import ValueConfig
from graphwalker.inference.values.information_gain import InformationGain
from graphwalker.inference.values.make import load_scorer
from graphwalker.search.sanitise import history
from graphwalker.train import tiny

pytestmark = [pytest.mark.vllm, pytest.mark.slow]


def test_gains_are_equal(toy_tokenizer, toy_trajectories, tmp_path, monkeypatch):
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    model = tiny.make_model(toy_tokenizer, "qwen2", width=64, layers=2, heads=2)
    for name, weights in model.named_parameters():  # so that what it says depends on what it read
        if weights.ndim > 1:
            torch.nn.init.normal_(weights, std=0.05 if "embed" in name else 0.3)
    model.save_pretrained(tmp_path)
    toy_tokenizer.save_pretrained(tmp_path)
    texts = [
        (history(t.turns[:end], t.question), t.question.text)
        for t in toy_trajectories
        for end in range(1, len(t.turns) + 1)
    ]
    found = {}
    for backend in ("transformers", "vllm"):
        config = ValueConfig(
            "ig", str(tmp_path), value_backend=backend, value_dtype="float32", value_length=512, value_memory=0.1
        )
        scorer = load_scorer(config)
        assert scorer.start == toy_tokenizer.bos_token_id
        found[backend] = InformationGain(scorer).scored(texts)
        assert InformationGain(scorer).scored(texts * 2)[: len(texts)] == found[backend]
    for ours, theirs in zip(found["transformers"], found["vllm"], strict=True):
        assert (ours.history_tokens, ours.question_tokens) == (theirs.history_tokens, theirs.question_tokens)
        assert ours.log_perplexities() == pytest.approx(theirs.log_perplexities(), abs=1e-4)
