"""GRPO with the real vLLM beside the trainer, on a CPU: whose weights, which tokens, what probabilities."""

import pytest
import regex
import torch
from trl import GRPOConfig

from envs.trl_adapter import adapter_factory
from graphwalker.inference import load
from graphwalker.inference.engine import Sampling
from graphwalker.inference.transformers_engine import TransformersEngine
from graphwalker.protocol.guide import turn_regex
from graphwalker.protocol.prompts import Prompt
from graphwalker.train import sft_data, tiny, vllm_rollouts
from graphwalker.train.grpo_trainer import EpisodeGRPOTrainer, RolloutConfig
from graphwalker.train.trl_rewards import reward_functions

pytestmark = [pytest.mark.vllm, pytest.mark.slow]

GREEDY = Sampling(temperature=0, max_new_tokens=24)
PROMPTS = {"a": [5, 30, 6], "b": [40, 41, 42, 43, 44, 45], "c": [100], "d": [7] * 20}


@pytest.fixture(scope="module")
def trainer(toy_tokenizer, toy_tasks, toy_env, tmp_path_factory):
    """A trainer whose model has embeddings tied to its head, and random weights wide enough to say something."""
    folder = tmp_path_factory.mktemp("model")
    model = tiny.make_model(toy_tokenizer, "qwen2", width=64, layers=2, heads=2)
    _shake(model, 0.3)
    model.save_pretrained(folder)
    toy_tokenizer.save_pretrained(folder)
    batch = {"per_device_train_batch_size": 8, "num_generations": 2, "max_steps": 1, "max_completion_length": 400}
    quiet = {"report_to": "none", "use_cpu": True, "bf16": False, "disable_tqdm": True, "save_strategy": "no"}
    vllm = {"use_vllm": True, "vllm_gpu_memory_utilization": 0.05}
    args = GRPOConfig(str(tmp_path_factory.mktemp("out")), **batch, **quiet, **vllm, beta=0.0, logging_steps=1)
    tokenizer = load.load_tokenizer(str(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        vllm_rollouts.settle(args, str(folder), tokenizer, max_length=400, guided=False)
        yield EpisodeGRPOTrainer(
            model=load.load_model(str(folder), tokenizer, "float32"),
            reward_funcs=reward_functions(["em"]),
            args=args,
            train_dataset=sft_data.prompts([question for question, _ in toy_tasks], Prompt("compact")),
            processing_class=tokenizer,
            environment_factory=adapter_factory(toy_env),
            rollout=RolloutConfig(rollout_rows=3, max_turn_tokens=12, max_episode_tokens=400),
        )


@torch.no_grad()
def _shake(model, std: float) -> None:
    for weights in model.parameters():
        if weights.ndim > 1:
            weights.add_(torch.randn(weights.shape, generator=torch.Generator().manual_seed(0)) * std)


def _decode(engine, sampling=GREEDY) -> dict[str, list[int]]:
    for key, ids in PROMPTS.items():
        engine.add(key, ids, sampling, seed=len(ids))
    made = {}
    while len(made) < len(PROMPTS):
        made |= {done.key: done.ids for done in engine.step()}
    for key in PROMPTS:
        engine.release(key)
    return made


def test_after_a_sync_vllm_says_what_the_trainers_model_says(trainer):
    said = []
    for _ in range(3):
        trainer._last_loaded_step = -1
        with vllm_rollouts.vllm_engine(trainer, 4, 400, False) as engine:
            said.append(_decode(engine))
            own = _decode(TransformersEngine(trainer.model, trainer.processing_class, capacity=4))
            assert said[-1] == own
            _shake(trainer.model, 0.2)
            assert _decode(engine) == own  # vLLM has the weights of the last sync
    assert all(said[0][key] != said[1][key] != said[2][key] for key in PROMPTS)


def test_what_is_trained_is_what_was_generated(trainer, monkeypatch):
    trainer._last_loaded_step = -1
    generated: dict[int, list[int]] = {}
    batches, seen = [], []
    compute_loss = trainer._compute_loss
    with monkeypatch.context() as patch:
        step = vllm_rollouts.VLLMEngine.step
        patch.setattr(vllm_rollouts.VLLMEngine, "step", lambda self: seen.append(step(self)) or seen[-1])
        patch.setattr(
            trainer, "_compute_loss", lambda model, inputs: batches.append(inputs) or compute_loss(model, inputs)
        )
        trainer.train()
    for done in (done for step in seen for done in step):
        generated[done.key] = generated.get(done.key, []) + done.ids
    (batch,) = batches
    trained = (batch["completion_mask"] * batch["tool_mask"]).bool()
    rows = [ids[mask].tolist() for ids, mask in zip(batch["completion_ids"], trained, strict=True)]
    assert sorted(rows) == sorted(generated.values()) and len(rows) == 8
    gap = (batch["old_per_token_logps"] - batch["sampling_per_token_logps"])[trained]
    assert gap.abs().max() < 1e-3
    assert batch["importance_sampling_ratio"].tolist() == [[pytest.approx(1, abs=0.05)]] * 8


def test_guided_turns_keep_to_the_form(trainer):
    form = regex.compile(turn_regex())
    for sampling in (Sampling(max_new_tokens=60), Sampling(temperature=0, max_new_tokens=60)):
        with vllm_rollouts.vllm_engine(trainer, 4, 400, True) as engine:
            made = _decode(engine, sampling)
        for ids in made.values():
            ended = ids[-1] == trainer.processing_class.eos_token_id
            text = trainer.processing_class.decode(ids[:-1] if ended else ids, skip_special_tokens=False)
            assert form.fullmatch(text, partial=not ended), text
