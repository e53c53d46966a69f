"""TRL's own tool loop on the episodes of the demo, for the benchmarks that measure the harness beside it."""

from tempfile import TemporaryDirectory
from typing import Any

from demo_episodes import DemoEpisodes
from trl import GRPOConfig, GRPOTrainer

from envs.trl_adapter import adapter_factory
from graphwalker.train import sft_data
from graphwalker.train.trl_rewards import reward_functions


def make_trainer(episodes: DemoEpisodes, model: Any, rows: int, episode_tokens: int) -> GRPOTrainer:
    """A ``GRPOTrainer`` whose environments walk the demo's graph, ``rows`` episodes at a time."""
    with TemporaryDirectory() as out:
        return GRPOTrainer(
            model=model,
            reward_funcs=reward_functions(["em"]),
            args=GRPOConfig(
                output_dir=out,
                max_completion_length=episode_tokens,
                num_generations=2,
                per_device_train_batch_size=rows,
                beta=0.0,
                bf16=False,
                use_cpu=True,
                report_to="none",
                gradient_checkpointing=False,
            ),
            train_dataset=sft_data.prompts([t.question for t in episodes.experts], episodes.prompt),
            processing_class=episodes.tokenizer,
            environment_factory=adapter_factory(episodes.make_env),
        )


def walk(episodes: DemoEpisodes, trainer: GRPOTrainer, rows: int) -> int:
    """Run all episodes, ``rows`` at a time; the number of tokens that the model, which must follow, made."""
    made = 0
    for start in range(0, len(episodes.experts), rows):
        batch = [dict(trainer.train_dataset[key]) for key in range(start, min(start + rows, len(episodes.experts)))]
        output = trainer._generate_and_score_completions(batch)
        made += int((output["completion_mask"] * output["tool_mask"]).sum())
    assert made == episodes.made, "TRL's episodes did not go the expert's way"
    return made
