"""The whole curriculum from one YAML: stages in order, an evaluation after each, a table and a report.

GraphWalker's order is SFT on GraphSynth, SFT on GraphRoll, GRPO (section 2.3); any other order, more or
fewer stages are a matter of the YAML. Interrupted, the same command goes on where it stopped.

On a CPU:              python recipes/curriculum.py --config recipes/curriculum/tiny_demo.yaml
On several GPUs:       the same with `launch: [--config_file, launch/accelerate/FILE.yaml]` in the YAML
"""

import gc
from pathlib import Path

from data_pipelines.demo import prepare_demo
from envs.factory import EnvConfig, env_factory
from graphwalker.files import read_jsonl
from graphwalker.inference.configs import EvaluationConfig
from graphwalker.inference.engine import Sampling
from graphwalker.inference.evaluate import evaluate
from graphwalker.inference.load import load_engine
from graphwalker.report.page import write_report
from graphwalker.report.stages import format_gains, format_stage_table, stage_gains, stage_table
from graphwalker.train import curriculum, session
from graphwalker.train.curriculum import CurriculumConfig, Stage
from graphwalker.types import Question

RECIPES = Path(__file__).parent
DEFAULT = RECIPES / "curriculum" / "tiny_demo.yaml"


def evaluate_stage(stage: Stage, config: CurriculumConfig, env: EnvConfig, settings: EvaluationConfig) -> None:
    """Evaluate a stage's checkpoint on every split, greedy and sampled; what is finished is left as it is."""
    decodings = {"greedy": (Sampling(temperature=0, max_new_tokens=settings.eval_turn_tokens), 1)}
    if settings.eval_samples:
        sampled = Sampling(temperature=settings.eval_temperature, max_new_tokens=settings.eval_turn_tokens)
        decodings["sampled"] = (sampled, settings.eval_samples)
    engine = None
    for split, path in settings.eval_questions.items():
        for decoding, (sampling, samples) in decodings.items():
            out = Path(config.run) / "eval" / f"{stage.name}-{split}-{decoding}"
            if (out / "metrics.json").is_file():
                continue
            engine = engine or load_engine(
                str(stage.folder),
                backend=settings.eval_backend,
                capacity=settings.eval_rows,
                max_length=settings.eval_episode_tokens,
            )
            questions = list(read_jsonl(path, Question))[: settings.eval_max_questions]
            evaluate(
                questions,
                env_factory(env),
                engine,
                sampling,
                out,
                samples=samples,
                seed=config.seed,
                progress=f"{stage.name}, {split}, {decoding}",
            )


def main() -> None:
    config, env, settings = session.parse((CurriculumConfig, EnvConfig, EvaluationConfig), DEFAULT)
    stages = list(curriculum.stages(config))
    curriculum.claim(config, env, settings)
    if config.demo_data:
        prepare_demo(config.demo_data, seed=config.seed)
    for stage in stages:
        if not stage.done:
            curriculum.launch(stage, RECIPES, config.launch)
        if stage.evaluate:
            evaluate_stage(stage, config, env, settings)
            gc.collect()
    run = Path(config.run)
    print(format_stage_table(stage_table(run)))
    print(format_gains(stage_gains(run, seed=config.seed)))
    print(f"Report: {write_report(run)}")


if __name__ == "__main__":
    session.run(main)
