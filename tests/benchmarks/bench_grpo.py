"""Where the time of a GRPO step goes: what is beyond generation, forward and backward is overhead.

The settings are those of recipes/grpo/tiny_demo.yaml, on a tiny model with random weights that computes every token and
then writes an expert's in its place (bench_rollout.py); every other episode of a question gives a wrong answer, so that
all groups are alive and no row is left out of the loss. Each part is given without the parts inside it:

  generation  the episodes, environments included, from the engine's first token to its last
  forward     the policy's, with the log-probabilities
  backward    its gradients
  optimizer   its step
  ours        around these: prompts and trajectories, checks of the masks, group health, the log of the episodes
  rewards     scoring, and gathering the scores
  loss        the loss from log-probabilities and advantages, with what it logs
  rest        what TRL and transformers do else: data, padding, advantages, clipping, logging

    python tests/benchmarks/bench_grpo.py --out grpo.json
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from demo_episodes import DemoEpisodes, Following, add_arguments, clock
from transformers import TrainerCallback
from trl import GRPOConfig

from envs.trl_adapter import adapter_factory
from graphwalker.files import write_json
from graphwalker.train import sft_data, tiny
from graphwalker.train.configs import RolloutConfig
from graphwalker.train.grpo_trainer import EpisodeGRPOTrainer
from graphwalker.train.trl_rewards import reward_functions
from graphwalker.yaml_file import read_yaml

AIM = 0.05  # of a step
WORK = ("generation", "forward", "backward")
RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "grpo" / "tiny_demo.yaml"
QUIET = {"report_to": "none", "use_cpu": True, "bf16": False, "disable_tqdm": True, "save_strategy": "no"}
WRONG = '<answer>["nobody"]</answer>'


class Watch:
    """Seconds by part; while a part is open inside another, the outer one's time stands still."""

    def __init__(self, now: Callable[[], float] = time.perf_counter):
        self.now, self.open = now, ["outside"]
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.since = now()

    def _switch(self) -> None:
        now = self.now()
        self.seconds[self.open[-1]] += now - self.since
        self.since = now

    def begin(self, part: str) -> None:
        self._switch()
        self.open.append(part)

    def end(self) -> None:
        self._switch()
        self.open.pop()

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        self.begin(part)
        try:
            yield
        finally:
            self.end()


class Watching(TrainerCallback):
    """Opens and closes the parts that transformers has events for."""

    def __init__(self, watch: Watch):
        self.watch = watch

    def on_train_begin(self, *args, **kwargs):
        self.watch.begin("rest")

    def on_train_end(self, *args, **kwargs):
        self.watch.end()

    def on_pre_optimizer_step(self, *args, **kwargs):
        self.watch.begin("optimizer")

    def on_optimizer_step(self, *args, **kwargs):
        self.watch.end()


class Watched(EpisodeGRPOTrainer):
    """Our trainer with a watch, on episodes whose tokens are given."""

    def __init__(self, *, episodes: DemoEpisodes, watch: Watch, **kwargs: Any):
        super().__init__(callbacks=[Watching(watch)], **kwargs)
        self.episodes, self.watch = episodes, watch
        self.by_question = {expert.question.id: key for key, expert in enumerate(episodes.experts)}
        self.wrong = episodes.turn(WRONG)
        forward, backward = self.model.forward, self.accelerator.backward

        def watched_forward(*args, **options):
            with watch.of("generation" if "generation" in watch.open else "forward"):
                return forward(*args, **options)

        def watched_backward(*args, **options):
            with watch.of("backward"):
                return backward(*args, **options)

        self.model.forward, self.accelerator.backward = watched_forward, watched_backward

    def _script(self, place: int) -> Iterator[int]:
        turns = self.episodes.turns[self.by_question[json.loads(self._rows[place]["question"])["id"]]]
        return iter(sum(turns if place % 2 else [*turns[:-1], self.wrong], []))

    @contextmanager
    def _engine(self, rows):
        engine: Any
        with self.watch.of("generation"), super()._engine(rows) as engine:
            following = Following(
                engine.model, engine.tokenizer, capacity=engine.capacity, max_length=engine.max_length
            )
            following.scripts = {place: self._script(place) for place in range(len(self._rows))}
            yield following

    def _generate(self, prompts):
        with self.watch.of("ours"):
            return super()._generate(prompts)

    def _group_kinds(self):
        with self.watch.of("ours"):
            return super()._group_kinds()

    def _leave_out(self, output, kinds):
        with self.watch.of("ours"):
            return super()._leave_out(output, kinds)

    def _calculate_rewards(self, *args):
        with self.watch.of("rewards"):
            return super()._calculate_rewards(*args)

    def _compute_loss(self, model, inputs):
        with self.watch.of("loss"):
            return super()._compute_loss(model, inputs)


def make_trainer(episodes: DemoEpisodes, watch: Watch, out: Path, steps: int, accumulation: int) -> Watched:
    recipe = read_yaml(RECIPE)
    training, rollout = ({f.name for f in fields(kind)} & recipe.keys() for kind in (GRPOConfig, RolloutConfig))
    ours = {"output_dir": str(out), "max_steps": steps, "gradient_accumulation_steps": accumulation}
    return Watched(
        episodes=episodes,
        watch=watch,
        model=tiny.make_model(episodes.tokenizer),
        args=GRPOConfig(**{**{name: recipe[name] for name in training}, **QUIET, **ours}),
        rollout=RolloutConfig(**{**{name: recipe[name] for name in rollout}, "max_turn_tokens": 128}),
        reward_funcs=reward_functions(recipe["rewards"]),
        train_dataset=sft_data.prompts([expert.question for expert in episodes.experts], episodes.prompt),
        processing_class=episodes.tokenizer,
        environment_factory=adapter_factory(episodes.make_env),
    )


def measure(episodes: DemoEpisodes, out: Path, steps: int, accumulation: int, now: Callable[[], float]) -> dict:
    """Seconds a step by part, and the share beyond generation, forward and backward."""
    watch = Watch(now)
    trainer = make_trainer(episodes, watch, out, steps, accumulation)
    trainer.train()  # what is made once only
    watch.seconds.clear()
    trainer.train()
    seconds = {part: taken / steps for part, taken in watch.seconds.items() if part != "outside"}
    total = sum(seconds.values())
    logs = [entry for entry in trainer.state.log_history if "group/alive" in entry]
    return {
        "episodes_a_step": trainer.args.generation_batch_size,
        "steps": steps,
        "threads": torch.get_num_threads(),
        "groups_alive": logs[-1]["group/alive"],
        "seconds_a_step": round(total, 3),
        "share": {part: round(taken / total, 4) for part, taken in sorted(seconds.items(), key=lambda kv: -kv[1])},
        "beyond": round(1 - sum(seconds[part] for part in WORK) / total, 4),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--accumulation", type=int, default=8, help="batches of 32 episodes a step")
    args = parser.parse_args()
    with TemporaryDirectory() as out:
        episodes = DemoEpisodes(args.data, 256)
        figures = measure(episodes, Path(out), args.steps, args.accumulation, clock(args))
    print(f"{figures['episodes_a_step']} episodes a step, {figures['seconds_a_step']:g} s")
    for part, share in figures["share"].items():
        print(f"  {part:<11} {share:>7.2%}")
    print(f"  beyond generation, forward and backward {figures['beyond']:>7.2%}   aim: at most {AIM:.0%}")
    if args.out:
        write_json(args.out, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
