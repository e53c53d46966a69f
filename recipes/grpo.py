"""GRPO against the live KG with an exact-match reward (GraphWalker, section 2.3: RL stage).

Differs from the paper: the importance ratio is per token unless the config says otherwise
(``importance_sampling_level: turn`` is the paper's notation).

On a CPU, in minutes:  accelerate launch recipes/grpo.py
On several GPUs:       accelerate launch --config_file launch/accelerate/zero3.yaml recipes/grpo.py --config CONFIG.yaml

Without a config it trains the tiny model on the demo KG; where no SFT checkpoint of it exists yet, one
is made first (recipes/sft.py).
"""

import os
import sys
from pathlib import Path

from trl import GRPOConfig, ModelConfig

from data_pipelines.dataset import prepare_demo_data
from envs.factory import EnvConfig, env_factory
from envs.trl_adapter import adapter_factory
from graphwalker.children import call
from graphwalker.errors import UserError
from graphwalker.inference import load
from graphwalker.tools.questions import read_questions
from graphwalker.train import memory, mixture, models, preflight, session, sft_data, vllm_rollouts
from graphwalker.train.configs import HardwareConfig, QuestionData, RewardConfig
from graphwalker.train.grpo_trainer import EpisodeGRPOTrainer, RolloutConfig
from graphwalker.train.trl_rewards import reward_functions

DEFAULT = Path(__file__).parent / "grpo" / "tiny_demo.yaml"
SFT_OUT = "runs/sft_tiny_demo"  # where recipes/sft/tiny_demo.yaml saves
DISTRIBUTED = ("ACCELERATE_", "GROUP_", "LOCAL_", "MASTER_", "RANK", "ROLE_", "TORCHELASTIC_", "WORLD_SIZE")


def make_sft_checkpoint() -> None:
    """Run the SFT recipe once, for a launch that names its output as the policy."""
    if not (Path(SFT_OUT) / "config.json").is_file():
        print(f"No SFT checkpoint in {SFT_OUT} yet: making one first with recipes/sft.py", flush=True)
        # one process of its own, whatever this one is a part of
        env = {key: value for key, value in os.environ.items() if not key.startswith(DISTRIBUTED)}
        status = call([sys.executable, str(Path(__file__).parent / "sft.py")], env=env)
        if status != 0:
            raise UserError(f"recipes/sft.py failed (exit status {status}); see its output above")


def main() -> None:
    data, env, reward, rollout, hardware, model_args, training = session.parse(
        (QuestionData, EnvConfig, RewardConfig, RolloutConfig, HardwareConfig, ModelConfig, GRPOConfig), DEFAULT
    )
    models.check_trained(model_args.model_name_or_path)
    found = mixture.sources(data, "questions", data.questions)
    files = ", ".join(source.file for source in found)
    print(f"GRPO on {files} with {model_args.model_name_or_path}; output in {training.output_dir}", flush=True)
    rewards = reward_functions(reward.rewards)
    with training.main_process_first(desc="data and model"):
        if data.demo_data:
            prepare_demo_data(data.demo_data)
        if model_args.model_name_or_path == SFT_OUT:
            make_sft_checkpoint()
        path = models.with_turn_tokens(models.prepare_model(model_args.model_name_or_path))
    if hardware.check_memory:
        memory.check_memory(training, path, model_args)
    make_env = env_factory(env)
    toolbox = make_env().toolbox
    questions = mixture.read_mixture(
        found, lambda file: read_questions(file, toolbox), lambda question: question, data.max_questions
    )
    tokenizer = load.load_tokenizer(path)
    model, peft_config = models.load_for_training(path, tokenizer, model_args)
    prompts = sft_data.prompts(questions, make_env().prompt)
    preflight.check_prompts(prompts["prompt"], tokenizer, model, rollout.max_episode_tokens, "max_episode_tokens")
    vllm_rollouts.settle(training, path, tokenizer, max_length=rollout.max_episode_tokens, guided=rollout.guided_turns)
    trainer = session.make_trainer(
        EpisodeGRPOTrainer,
        model=model,
        reward_funcs=rewards,
        args=training,
        train_dataset=prompts,
        processing_class=tokenizer,
        environment_factory=adapter_factory(make_env),
        peft_config=peft_config,
        rollout=rollout,
    )
    session.train_and_save(trainer, data, env, reward, rollout)


if __name__ == "__main__":
    session.run(main)
