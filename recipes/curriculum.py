"""The whole curriculum from one YAML: stages in order, an evaluation after each, a table and a report.

GraphWalker's order is SFT on GraphSynth, SFT on GraphRoll, GRPO (section 2.3); any other order, more or
fewer stages are a matter of the YAML. Interrupted, the same command goes on where it stopped.

On a CPU:              python recipes/curriculum.py --config recipes/curriculum/tiny_demo.yaml
On several GPUs:       accelerate launch --config_file launch/accelerate/FILE.yaml recipes/curriculum.py --config FILE
                       or python, with `launch: [--config_file, launch/accelerate/FILE.yaml]` in the YAML
"""

import gc
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from trl import GRPOConfig, ModelConfig, SFTConfig

from data_pipelines.dataset import prepare_demo_data
from envs.factory import EnvConfig, env_factory
from graphwalker.errors import UserError
from graphwalker.files import read_jsonl
from graphwalker.inference.configs import EvaluationConfig
from graphwalker.inference.engine import Sampling
from graphwalker.inference.evaluate import evaluate
from graphwalker.inference.load import load_engine
from graphwalker.metrics.run_folder import Evaluation
from graphwalker.report.page import write_report
from graphwalker.report.stages import format_gains, format_stage_table, stage_gains, stage_table
from graphwalker.tools.questions import read_questions
from graphwalker.tools.toolbox import Toolbox
from graphwalker.train import curriculum, gates, mixture, models, session, stage_store, tracking
from graphwalker.train.configs import HardwareConfig, MixedData, QuestionData, RewardConfig, TinyConfig, TrajectoryData
from graphwalker.train.curriculum import CurriculumConfig, Stage
from graphwalker.train.grpo_trainer import RolloutConfig
from graphwalker.train.processes import Processes
from graphwalker.types import Question, Trajectory
from graphwalker.yaml_file import read_yaml

RECIPES = Path(__file__).parent
DEFAULT = RECIPES / "curriculum" / "tiny_demo.yaml"
# what each recipe reads, so that a mistake in the last stage is found before the first is trained
READS = {
    "sft": (TrajectoryData, EnvConfig, TinyConfig, HardwareConfig, ModelConfig, SFTConfig),
    "grpo": (QuestionData, EnvConfig, RewardConfig, RolloutConfig, HardwareConfig, ModelConfig, GRPOConfig),
}
READ_QUESTIONS: dict[str, Callable[[str], Iterable[Question]]] = {
    "sft": lambda file: (trajectory.question for trajectory in read_jsonl(file, Trajectory)),
    "grpo": lambda file: read_jsonl(file, Question),
}


@dataclass
class Evaluations:
    """What the model of each stage is evaluated on, and how."""

    splits: Mapping[str, list[Question]]
    env: EnvConfig
    settings: EvaluationConfig
    run: Path
    seed: int

    def decodings(self, split: str) -> dict[str, tuple[Sampling, int]]:
        """By name how a split is decoded, and how often."""
        tokens = self.settings.eval_turn_tokens
        found = {"greedy": (Sampling(temperature=0, max_new_tokens=tokens), 1)}
        if self.settings.eval_samples and split in (self.settings.eval_sampled_splits or self.settings.eval_questions):
            sampled = Sampling(temperature=self.settings.eval_temperature, max_new_tokens=tokens)
            found["sampled"] = (sampled, self.settings.eval_samples)
        return found

    def place(self, name: str, split: str, decoding: str) -> Path:
        return self.run / "eval" / f"{name}-{split}-{decoding}"

    def run_all(self, name: str, model: str, store: stage_store.StageStore) -> None:
        """Evaluate a stage's model on every split, greedy and sampled; what is finished is left as it is."""
        engine = None
        for split, questions in self.splits.items():
            for decoding, (sampling, samples) in self.decodings(split).items():
                out = self.place(name, split, decoding)
                shared = store.shared(Path(model), self._made_of(split, sampling, samples))
                if (out / "metrics.json").is_file() or stage_store.reuse_evaluation(shared, out, self.seed):
                    continue
                engine = engine or load_engine(
                    model,
                    backend=self.settings.eval_backend,
                    capacity=self.settings.eval_rows,
                    max_length=self.settings.eval_episode_tokens,
                )
                progress = f"{name}, {split}, {decoding}"
                make_env = env_factory(self.env)
                evaluate(questions, make_env, engine, sampling, out, samples=samples, seed=self.seed, progress=progress)
                stage_store.share_evaluation(shared, out)

    def _made_of(self, split: str, sampling: Sampling, samples: int) -> dict:
        """What the episodes of an evaluation depend on beside the model."""
        settings = self.settings
        env = {key: value for key, value in asdict(self.env).items() if key != "rerank_cache"}
        return {
            "env": env,
            "questions": settings.eval_questions[split],
            "limit": settings.eval_max_questions,
            "sampling": asdict(sampling),
            "samples": samples,
            "seed": self.seed,
            "rows": settings.eval_rows,
            "episode_tokens": settings.eval_episode_tokens,
            "backend": settings.eval_backend,
        }

    def value(self, name: str, gate: gates.Gate) -> float | None:
        """The metric that a gate looks at."""
        metrics = Evaluation(self.place(name, gate.split, gate.decoding), name).metrics()
        return metrics["overall"]["metrics"][gate.metric]["value"]


def check(stages: Sequence[Stage], evaluations: Evaluations, model: str) -> None:
    """Refuse what is wrong in any stage's config, before anything is made; ``model`` is what the first starts from."""
    decodings = {split: evaluations.decodings(split) for split in evaluations.settings.eval_questions}
    for place, stage in enumerate(stages):
        session.check_config(f"stage {stage.name}", READS[stage.recipe], stage.config)
        sources_of(stage)
        if stage.recipe == "grpo":
            with about(stage):
                models.check_trained(stage.config.get("model_name_or_path", "" if place else model))
        if stage.gate:
            gates.check_gate(stage.name, stage.gate, stage.evaluate, decodings)


def sources_of(stage: Stage) -> list[mixture.Source]:
    """The files that a stage trains on; raises ``UserError`` for a mistake in how they are named."""
    file, _ = curriculum.DATA[stage.recipe]
    known = {field.name for field in fields(MixedData)}
    data = MixedData(**{key: value for key, value in stage.config.items() if key in known})
    with about(stage):
        return mixture.sources(data, file, stage.config.get(file))


@contextmanager
def about(stage: Stage) -> Iterator[None]:
    """Let what is wrong say of which stage it is."""
    try:
        yield
    except UserError as error:
        raise UserError(f"stage {stage.name}: {error}") from error


def check_files(stages: Sequence[Stage]) -> None:
    """Refuse missing data files of any stage, and filters that leave nothing of one."""
    for stage in stages:
        for source in sources_of(stage):
            for file in filter(None, (source.file, source.difficulty_from)):
                if not Path(file).is_file() and not stage.config.get("demo_data"):
                    raise UserError(f"stage {stage.name}: {curriculum.DATA[stage.recipe][0]}: {file}: no such file")
            with about(stage):
                mixture.check_left(source, READ_QUESTIONS[stage.recipe](source.file))


def read_splits(settings: EvaluationConfig, toolbox: Toolbox) -> dict[str, list[Question]]:
    """The questions to evaluate on, by split."""
    for split in settings.eval_questions:
        if not re.fullmatch(r"[\w.]+", split):
            raise UserError(f"eval_questions: a split's name is of letters, digits, _ and . only, got {split!r}")
    session.check_keys("eval_sampled_splits", settings.eval_sampled_splits or (), settings.eval_questions)
    return {
        split: read_questions(path, toolbox, settings.eval_max_questions)
        for split, path in settings.eval_questions.items()
    }


def starting_model(stage: Stage, model: str) -> str:
    """The model that the first stage starts from, ready to load; ``UserError`` for one that the stage makes itself."""
    name = stage.config.get("model_name_or_path", model)
    if name in models.TINY:
        raise UserError(f"evaluate_start: the model {name} does not exist before stage {stage.name}, which makes it")
    sizes = {field.name for field in fields(TinyConfig)}
    return models.prepare_model(name, TinyConfig(**{key: stage.config[key] for key in sizes & stage.config.keys()}))


class GateShut(UserError):
    """A stage did not reach what its gate asks for."""


def train_stage(stage: Stage, store: stage_store.StageStore, evaluations: Evaluations, lock: int) -> None:
    """Train and evaluate one stage, as often as its gate asks for; raises ``GateShut`` where the gate stays shut."""
    gate = stage.gate
    for number in range(1, 1 + (gate.rounds if gate else 1)):
        gc.collect()  # what the last evaluation's engine held
        placed = store.place(stage.round(number))
        store.train(placed, RECIPES, [lock])
        if placed.evaluate:
            evaluations.run_all(placed.name, str(placed.folder), store)
        value = evaluations.value(placed.name, gate) if gate else None
        if gate and gate.otherwise == "skip" and not gate.passed(value):
            print(f"{gate.said(placed.name, value)}: the stage is left out", flush=True)
            return
        store.take(placed)
        if not gate:
            return
        if gate.passed(value):
            print(f"{gate.said(placed.name, value)}: passed", flush=True)
            return
        if number == gate.rounds:
            raise GateShut(f"{gate.said(placed.name, value)}: the run stops here")
        print(f"{gate.said(placed.name, value)}: the stage is trained again", flush=True)


def write_results(run: Path, seed: int, report_to: Sequence[str]) -> None:
    print(format_stage_table(stage_table(run)))
    print(format_gains(stage_gains(run, seed=seed)))
    print(f"Report: {write_report(run)}", flush=True)
    tracking.log_run(run, report_to, read_yaml(run / "config.yaml"))


def reports(stages: Sequence[Stage]) -> list[str]:
    """What the stages report to."""
    return sorted({name for stage in stages for name in tracking.names(stage.config.get("report_to"))})


def main() -> None:
    args, stage_keys = curriculum.stage_flags(sys.argv[1:])
    config, env, settings = session.parse((CurriculumConfig, EnvConfig, EvaluationConfig), DEFAULT, args)
    curriculum.set_keys(config, stage_keys)
    processes = Processes(config.launch)
    processes.lead(lambda: run_curriculum(config, env, settings, processes))


def run_curriculum(config: CurriculumConfig, env: EnvConfig, settings: EvaluationConfig, processes: Processes) -> None:
    """Train and evaluate all stages, then say and show what each gave."""
    stages = curriculum.stages(config)
    evaluations = Evaluations({}, env, settings, Path(config.run), config.seed)
    check(stages, evaluations, config.model_name_or_path)
    tracking.prepare(reports(stages))
    curriculum.check_unchanged(config, env, settings)
    print(f"{len(stages)} stages: {', '.join(stage.name for stage in stages)}; output in {config.run}", flush=True)
    start = starting_model(stages[0], config.model_name_or_path) if config.evaluate_start else None
    if config.demo_data:
        prepare_demo_data(config.demo_data, seed=config.seed)
    check_files(stages)
    evaluations.splits = read_splits(settings, env_factory(env)().toolbox)
    with curriculum.claim(config, env, settings) as lock:
        store = stage_store.StageStore(evaluations.run, config.model_name_or_path, config.stage_cache, processes)
        if start:
            evaluations.run_all(curriculum.START, start, store)
        try:
            for stage in stages:
                train_stage(stage, store, evaluations, lock)
        except GateShut:
            write_results(evaluations.run, config.seed, reports(stages))
            raise
        if evaluations.splits:
            write_results(evaluations.run, config.seed, reports(stages))


if __name__ == "__main__":
    session.run(main)
