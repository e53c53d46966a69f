"""GRPO against the live KG with an exact-match reward (GraphWalker, section 2.3: RL stage).

Left out relative to the paper: the importance ratio is per token unless the config says otherwise.

On a CPU, in minutes:    accelerate launch recipes/grpo.py
On several GPUs:         accelerate launch --num_processes 8 recipes/grpo.py --config recipes/grpo/CONFIG.yaml

Without a config it trains the tiny model on the demo KG; where no SFT checkpoint of it exists yet, one
is made first (recipes/sft.py).
"""

import subprocess
import sys
from pathlib import Path

from accelerate import PartialState
from trl import GRPOConfig, ModelConfig, get_peft_config

from data_pipelines.demo import prepare_demo
from envs.factory import EnvConfig, env_factory
from envs.trl_adapter import adapter_factory
from graphwalker.files import read_jsonl
from graphwalker.inference import load
from graphwalker.protocol.prompts import Prompt
from graphwalker.train import models, session, sft_data
from graphwalker.train.configs import QuestionData, RewardConfig, TinyConfig
from graphwalker.train.grpo_trainer import EpisodeGRPOTrainer, RolloutConfig
from graphwalker.train.trl_rewards import reward_functions
from graphwalker.types import Question

DEFAULT = Path(__file__).parent / "grpo" / "tiny_demo.yaml"
SFT_OUT = "runs/sft_tiny_demo"  # where recipes/sft/tiny_demo.yaml saves


def make_sft_checkpoint() -> None:
    """Run the SFT recipe once, for a launch that names its output as the policy."""
    with PartialState().main_process_first():
        if not (Path(SFT_OUT) / "config.json").is_file():
            print(f"No SFT checkpoint in {SFT_OUT} yet: making one first with recipes/sft.py", flush=True)
            subprocess.run([sys.executable, str(Path(__file__).parent / "sft.py")], check=True)


def main() -> None:
    data, env, reward, rollout, model_args, training = session.parse(
        (QuestionData, EnvConfig, RewardConfig, RolloutConfig, ModelConfig, GRPOConfig), DEFAULT
    )
    print(f"GRPO on {data.questions} with {model_args.model_name_or_path}; output in {training.output_dir}", flush=True)
    if data.demo_data:
        prepare_demo(data.demo_data)
    if model_args.model_name_or_path == SFT_OUT:
        make_sft_checkpoint()
    questions = list(read_jsonl(data.questions, Question))[: data.max_questions]
    path = models.prepare_model(model_args.model_name_or_path, TinyConfig(), list)
    tokenizer = load.load_tokenizer(path)
    trainer = EpisodeGRPOTrainer(
        model=load.load_model(path, tokenizer, model_args.dtype or "auto"),
        reward_funcs=reward_functions(reward.rewards),
        args=training,
        train_dataset=sft_data.prompts(questions, Prompt(env.prompt)),
        processing_class=tokenizer,
        environment_factory=adapter_factory(env_factory(env)),
        peft_config=get_peft_config(model_args),
        rollout=rollout,
    )
    session.train_and_save(trainer)


if __name__ == "__main__":
    session.run(main)
