"""Trainers on the toy KG, with models small enough to train in a second."""

import dataclasses

import pytest
import torch
from trl import GRPOConfig, SFTConfig

from envs.trl_adapter import adapter_factory
from graphwalker.inference.chat_tokens import ChatTokens
from graphwalker.protocol.prompts import Prompt
from graphwalker.train import sft_data, tiny
from graphwalker.train.grpo_trainer import EpisodeGRPOTrainer, RolloutConfig
from graphwalker.train.trl_rewards import reward_functions


@pytest.fixture(autouse=True)
def one_thread():
    """Small matrices are slower on several threads, and sums come out the same on every machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def make_model(toy_tokenizer):
    return lambda architecture="lfm2": tiny.make_model(toy_tokenizer, architecture, width=32, layers=2, heads=2)


@pytest.fixture
def foreign_model(tmp_path) -> str:
    """The folder of a model whose tokenizer has turn tokens of its own."""
    plain = tiny.train_tokenizer(["plain text"], 300)
    core = plain.backend_tokenizer.to_str().replace("<|im_start|>", "<|user|>").replace("<|im_end|>", "<|end|>")
    foreign = type(plain)(
        tokenizer_object=type(plain.backend_tokenizer).from_str(core), eos_token="<|end|>", pad_token="<|pad|>"
    )
    folder = tmp_path / "foreign"
    tiny.make_model(foreign, "qwen2", width=32, layers=1, heads=2).save_pretrained(folder)
    foreign.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def sft_config(tmp_path):
    def make(**options):
        defaults = {"output_dir": str(tmp_path / "sft"), "assistant_only_loss": True, "per_device_train_batch_size": 4}
        quiet = {"report_to": "none", "use_cpu": True, "bf16": False, "disable_tqdm": True, "save_strategy": "no"}
        return SFTConfig(**{**defaults, **quiet, "max_steps": 1, **options})

    return make


@pytest.fixture
def conversations(toy_trajectories):
    return sft_data.conversations(toy_trajectories, Prompt("compact"))


@pytest.fixture
def make_grpo(toy_tokenizer, toy_tasks, toy_env, make_model, tmp_path):
    """A GRPO trainer over the toy tasks; `options` are of GRPOConfig."""

    def make(
        model=None,
        *,
        rewards=("em",),
        make_env=toy_env,
        rollout=RolloutConfig(8, 8, 256),  # noqa: B008
        peft_config=None,
        **options,
    ):
        defaults = {"output_dir": str(tmp_path / "grpo"), "num_generations": 4, "per_device_train_batch_size": 8}
        quiet = {"report_to": "none", "use_cpu": True, "bf16": False, "disable_tqdm": True, "save_strategy": "no"}
        config = {"max_steps": 1, "max_completion_length": 256, "beta": 0.0, "logging_steps": 1}
        return EpisodeGRPOTrainer(
            model=model or make_model(),
            reward_funcs=reward_functions(rewards),
            args=GRPOConfig(**{**defaults, **quiet, **config, **options}),
            train_dataset=sft_data.prompts([question for question, _ in toy_tasks], Prompt("compact")),
            processing_class=toy_tokenizer,
            environment_factory=adapter_factory(make_env),
            peft_config=peft_config,
            rollout=rollout,
        )

    return make


@pytest.fixture
def use_script(monkeypatch, scripted_engine):
    """Put a scripted engine in the place of the trainer's: ``script(key)`` gives the turns of rollout ``key``."""

    def use(script):
        def make(model, tokenizer, *, capacity, max_length, in_step):
            return scripted_engine(tokenizer, script, capacity=capacity, max_length=10_000, in_step=in_step)

        monkeypatch.setattr("graphwalker.train.grpo_trainer.TransformersEngine", make)

    return use


@dataclasses.dataclass
class Expected:
    """An episode's tokens, piece by piece: all of them, and those that are trained with None for the others."""

    ids: list[int]
    trained: list[int | None]


@pytest.fixture(scope="session")
def expected(toy_tokenizer):
    """The tokens of a trajectory, from its parts; what a turn wrote and its end-of-turn token are trained."""
    tokens, prompt = ChatTokens(toy_tokenizer), Prompt("compact")

    def of(trajectory):
        ids = tokens.prompt(prompt.messages(trajectory.question))
        trained = [None] * len(ids)
        for turn in trajectory.turns:
            made = [*toy_tokenizer(turn.text, add_special_tokens=False)["input_ids"], toy_tokenizer.eos_token_id]
            seen = tokens.observation(turn.observation) if turn.observation else []
            ids += made + seen
            trained += made + [None] * len(seen)
        return Expected(ids, trained)

    return of
