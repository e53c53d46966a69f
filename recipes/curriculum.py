"""The whole curriculum from one YAML: stages in order, an evaluation after each, a table and a report.

GraphWalker's order is SFT on GraphSynth, SFT on GraphRoll, GRPO (section 2.3); any other order, more or
fewer stages are a matter of the YAML. Interrupted, the same command goes on where it stopped.

On a CPU:              python recipes/curriculum.py --config recipes/curriculum/tiny_demo.yaml
On several GPUs:       the same with `launch: [--config_file, launch/accelerate/FILE.yaml]` in the YAML
"""

import gc
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from trl import GRPOConfig, ModelConfig, SFTConfig

from data_pipelines.dataset import prepare_demo_data
from envs.factory import EnvConfig, env_factory
from graphwalker.errors import UserError
from graphwalker.inference.configs import EvaluationConfig
from graphwalker.inference.engine import Sampling
from graphwalker.inference.evaluate import evaluate
from graphwalker.inference.load import load_engine
from graphwalker.report.page import write_report
from graphwalker.report.stages import format_gains, format_stage_table, stage_gains, stage_table
from graphwalker.tools.questions import read_questions
from graphwalker.tools.toolbox import Toolbox
from graphwalker.train import curriculum, models, session
from graphwalker.train.configs import HardwareConfig, QuestionData, RewardConfig, TinyConfig, TrajectoryData
from graphwalker.train.curriculum import CurriculumConfig, Stage
from graphwalker.train.grpo_trainer import RolloutConfig
from graphwalker.types import Question

RECIPES = Path(__file__).parent
DEFAULT = RECIPES / "curriculum" / "tiny_demo.yaml"
# what each recipe reads, so that a mistake in the last stage is found before the first is trained
READS = {
    "sft": (TrajectoryData, EnvConfig, TinyConfig, HardwareConfig, ModelConfig, SFTConfig),
    "grpo": (QuestionData, EnvConfig, RewardConfig, RolloutConfig, HardwareConfig, ModelConfig, GRPOConfig),
}
DATA = {"sft": "trajectories", "grpo": "questions"}


def check(stages: Sequence[Stage]) -> None:
    """Refuse what is wrong in any stage's config, before anything is made."""
    for stage in stages:
        if stage.config.get(DATA[stage.recipe]) is None:
            raise UserError(f"stage {stage.name}: {DATA[stage.recipe]} is missing")
        session.check_config(f"stage {stage.name}", READS[stage.recipe], stage.config)


def check_files(stages: Sequence[Stage]) -> None:
    """Refuse missing data files of any stage."""
    for stage in stages:
        file = stage.config[DATA[stage.recipe]]
        if not Path(file).is_file() and not stage.config.get("demo_data"):
            raise UserError(f"stage {stage.name}: {DATA[stage.recipe]}: {file}: no such file")


def read_splits(settings: EvaluationConfig, toolbox: Toolbox) -> dict[str, list[Question]]:
    """The questions to evaluate on, by split."""
    for split in settings.eval_questions:
        if "-" in split:
            raise UserError(f"eval_questions: the name of a split holds no hyphen, got {split!r}")
    session.check_keys("eval_sampled_splits", settings.eval_sampled_splits or (), settings.eval_questions)
    return {
        split: read_questions(path, toolbox, settings.eval_max_questions)
        for split, path in settings.eval_questions.items()
    }


def starting_model(stage: Stage) -> str:
    """The model that the first stage starts from, ready to load; ``UserError`` for one that the stage makes itself."""
    name = stage.config["model_name_or_path"]
    if name in models.TINY:
        raise UserError(f"evaluate_start: the model {name} does not exist before stage {stage.name}, which makes it")
    sizes = {field.name for field in fields(TinyConfig)}
    return models.prepare_model(name, TinyConfig(**{key: stage.config[key] for key in sizes & stage.config.keys()}))


def evaluate_model(
    name: str,
    model: str,
    splits: dict[str, list[Question]],
    config: CurriculumConfig,
    env: EnvConfig,
    settings: EvaluationConfig,
) -> None:
    """Evaluate a stage's model on every split, greedy and sampled; what is finished is left as it is."""
    decodings = {"greedy": (Sampling(temperature=0, max_new_tokens=settings.eval_turn_tokens), 1)}
    if settings.eval_samples:
        sampled = Sampling(temperature=settings.eval_temperature, max_new_tokens=settings.eval_turn_tokens)
        decodings["sampled"] = (sampled, settings.eval_samples)
    engine = None
    for split, questions in splits.items():
        for decoding, (sampling, samples) in decodings.items():
            if decoding == "sampled" and split not in (settings.eval_sampled_splits or splits):
                continue
            out = Path(config.run) / "eval" / f"{name}-{split}-{decoding}"
            if (out / "metrics.json").is_file():
                continue
            engine = engine or load_engine(
                model,
                backend=settings.eval_backend,
                capacity=settings.eval_rows,
                max_length=settings.eval_episode_tokens,
            )
            evaluate(
                questions,
                env_factory(env),
                engine,
                sampling,
                out,
                samples=samples,
                seed=config.seed,
                progress=f"{name}, {split}, {decoding}",
            )


def main() -> None:
    config, env, settings = session.parse((CurriculumConfig, EnvConfig, EvaluationConfig), DEFAULT)
    stages = list(curriculum.stages(config))
    check(stages)
    curriculum.check_unchanged(config, env, settings)
    print(f"{len(stages)} stages: {', '.join(stage.name for stage in stages)}; output in {config.run}", flush=True)
    start = starting_model(stages[0]) if config.evaluate_start else None
    if config.demo_data:
        prepare_demo_data(config.demo_data, seed=config.seed)
    check_files(stages)
    splits = read_splits(settings, env_factory(env)().toolbox)
    curriculum.claim(config, env, settings)
    if start:
        evaluate_model(curriculum.START, start, splits, config, env, settings)
    for stage in stages:
        gc.collect()  # what the last evaluation's engine held
        if not stage.done:
            curriculum.launch(stage, RECIPES, config.launch)
        if stage.evaluate:
            evaluate_model(stage.name, str(stage.folder), splits, config, env, settings)
    if not splits:
        return
    run = Path(config.run)
    print(format_stage_table(stage_table(run)))
    print(format_gains(stage_gains(run, seed=config.seed)))
    print(f"Report: {write_report(run)}")


if __name__ == "__main__":
    session.run(main)
