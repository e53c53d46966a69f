"""Label probabilities by vLLM: over HTTP by a scripted server, in this process equal to those of transformers."""

import json
import math

import numpy as np
import pytest

from graphwalker.errors import UserError
from graphwalker.inference.labels import Ask
from graphwalker.inference.vllm_http import VLLMServer
from graphwalker.inference.vllm_labels import VLLMLabeller, VLLMServerLabeller
from tests.inference.real_vllm import write_model
from tests.inference.scripted_vllm import Scripted

SETS = ((10, 11, 12), (13, 14, 15))
ASKS = [
    Ask(((1, 20, 21), (22,)), (23, 24), SETS),
    Ask(((1, 20, 21), (25,)), (26,), SETS, frozenset({10, 11, 12})),
    Ask(((1, 20),), (), SETS[1:], sequence=False),
]


class Labels:
    """Answers as `vllm serve` does where one token of a set is asked for."""

    def __init__(self, answer):
        self.answer, self.bodies = answer, []

    def __call__(self, body):
        self.bodies.append(body)
        odds = {f"token_id:{token}": math.log(0.5 if token == 11 else 0.25) for token in body["allowed_token_ids"]}
        logprobs = {"tokens": ["token_id:10"], "token_logprobs": [-1.0], "top_logprobs": [odds]}
        choice = {
            "prompt_token_ids": body["prompt"],
            "token_ids": [10],
            "logprobs": logprobs,
            "finish_reason": "length",
        }
        if "prompt_logprobs" in body:
            own = [None, *({str(token): {"logprob": -0.5}} for token in body["prompt"][1:])]
            choice["prompt_logprobs"] = own
        return self.answer({"choices": [choice]})


@pytest.fixture
def served(toy_tokenizer):
    opened = []

    def serve(answer=lambda right: right):
        scripted = Scripted(toy_tokenizer)
        scripted.answer = Labels(answer)
        server = VLLMServer(scripted.start().url, "vllm serve", attempts=1)
        opened.extend((server, scripted))
        return VLLMServerLabeller(server, toy_tokenizer), scripted.answer

    yield serve
    for each in opened:
        each.close()


def test_a_server_is_asked_for_the_labels_alone(served):
    labeller, answers = served()
    found = labeller.tell(ASKS)
    assert [told.logprob for told in found] == [-1.0, -0.5, 0.0]
    assert found[0].given(ASKS[0]) == [11, 13] and len(found[1].labels) == 1
    np.testing.assert_allclose(np.exp(found[0].labels[0]), [0.25, 0.5, 0.25])
    first = [body for body in answers.bodies if body["prompt"] == [1, 20, 21, 22, 23, 24]]
    (then,) = [body for body in answers.bodies if body["prompt"] == [1, 20, 21, 22, 23, 24, 11]]
    assert first[0]["allowed_token_ids"] == [10, 11, 12] and first[0]["logprobs"] == 3 and first[0]["max_tokens"] == 1
    assert "prompt_logprobs" not in then and len(answers.bodies) == 4


@pytest.mark.parametrize("broken", [{"choices": []}, {"choices": [{"prompt_token_ids": [7]}]}, {}])
def test_an_answer_without_labels_is_none(served, broken):
    labeller, _ = served(lambda right: json.loads(json.dumps(broken)))
    with pytest.raises(UserError, match="failed 1 times in a row"):
        labeller.tell(ASKS[:1])


@pytest.mark.vllm
@pytest.mark.slow
def test_equals_transformers_while_a_row_is_under_way(toy_tokenizer, tmp_path, monkeypatch):
    from graphwalker.inference.engine import Sampling
    from graphwalker.inference.load import load_model
    from graphwalker.inference.transformers_labels import TransformersLabeller
    from graphwalker.inference.vllm_engine import VLLMEngine

    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    write_model(toy_tokenizer, tmp_path)
    ours = TransformersLabeller(load_model(str(tmp_path), toy_tokenizer, "float32").eval(), toy_tokenizer).tell(ASKS)
    engine = VLLMEngine.load(str(tmp_path), toy_tokenizer, capacity=4, max_length=128, dtype="float32")
    short, long = Sampling(temperature=0, max_new_tokens=1), Sampling(temperature=0, max_new_tokens=20)
    for key, sampling in (("short", short), ("gone", short), ("long", long)):
        engine.add(key, [5, 6, 7], sampling, seed=0)
    theirs = VLLMLabeller(engine).tell(ASKS)
    engine.release("gone")
    finished = []
    while len(finished) < 2:
        finished += engine.step()
    assert sorted((done.key, len(done.ids)) for done in finished) == [("long", 20), ("short", 1)]
    for one, other in zip(ours, theirs, strict=True):
        assert one.logprob == pytest.approx(other.logprob, abs=1e-3)
        assert len(one.labels) == len(other.labels)
        for found, expected in zip(one.labels, other.labels, strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-3)
