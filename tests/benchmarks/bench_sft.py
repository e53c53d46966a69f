"""SFT tokens per second: our settings beside TRL's defaults, and beside the bare forward and backward of the model.

Every way trains the same episodes of the demo KG once; counted are their tokens, without padding. The ways take turns,
a pass each, so that what else the machine does hits all alike:

  ours      as recipes/sft.py with recipes/sft/tiny_demo.yaml, for Qwen2 with packing instead of batches of like length
  padded    TRL with the same settings, but episodes in random order
  default   TRL's defaults but for precision: 8 episodes a batch in random order, padded, activations recomputed
  bare      the model's own forward with labels, and backward, on the batches of `ours`; no optimizer, no logging

    python tests/benchmarks/bench_sft.py --out sft.json
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from demo_episodes import DemoEpisodes, add_arguments, clock
from transformers import TrainerCallback
from trl import SFTConfig, SFTTrainer
from trl.trainer import utils

from graphwalker.files import write_json
from graphwalker.train import sft_data, tiny
from graphwalker.train.cpu_head import KNOBS, fit_fused_head
from graphwalker.train.packed_attention import attend_apart
from graphwalker.yaml_file import read_yaml

AIMS = {"default": 2.0, "bare": 0.9}  # what our tokens per second are to be of theirs
RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "sft" / "tiny_demo.yaml"
QUIET = {"report_to": "none", "use_cpu": True, "bf16": False, "disable_tqdm": True, "save_strategy": "no"}
PACKED = {"packing": True, "per_device_train_batch_size": 1, "train_sampling_strategy": "random"}


class Timed(TrainerCallback):
    """Seconds from the beginning to the end of training, the making of the trainer left out."""

    def __init__(self, now: Callable[[], float]):
        self.now, self.begun, self.seconds = now, 0.0, 0.0

    def on_train_begin(self, *args, **kwargs):
        self.begun = self.now()

    def on_train_end(self, *args, **kwargs):
        self.seconds = self.now() - self.begun


@contextmanager
def own_head(model: Any) -> Iterator[None]:
    """TRL's head as the recipes have it (``graphwalker.train.cpu_head``), and then as TRL has it."""
    before = {knob: getattr(utils, knob) for knob in KNOBS}
    fit_fused_head(model)
    try:
        yield
    finally:
        for knob, value in before.items():
            setattr(utils, knob, value)


class Bench:
    """Trainers over the same episodes, and the bare model over the batches of ours."""

    def __init__(self, episodes: DemoEpisodes, architecture: str, out: Path, now: Callable[[], float]):
        self.episodes, self.architecture, self.out, self.now = episodes, architecture, out, now
        self.data = sft_data.conversations(episodes.experts, episodes.prompt)
        names = {field.name for field in fields(SFTConfig)}
        recipe = {key: value for key, value in read_yaml(RECIPE).items() if key in names}
        shared = {"assistant_only_loss": True, "max_length": recipe["max_length"]}
        self.settings: dict[str, dict[str, Any]] = {
            "ours": {**recipe, **(PACKED if architecture == "qwen2" else {})},
            "padded": {**recipe, "train_sampling_strategy": "random"},
            "default": shared,
        }
        self.trainers = {name: self._trainer(name) for name in self.settings}
        self.batches: list[dict[str, Any]] = []
        self._keep_batches(self.trainers["ours"])

    def _trainer(self, name: str) -> SFTTrainer:
        once = {"max_steps": -1, "num_train_epochs": 1, "output_dir": str(self.out / name)}
        model = tiny.make_model(self.episodes.tokenizer, self.architecture)
        if self.settings[name].get("packing"):
            attend_apart(model)
        return SFTTrainer(
            model=model,
            args=SFTConfig(**{**self.settings[name], **QUIET, **once}),
            train_dataset=self.data,
            processing_class=self.episodes.tokenizer,
            callbacks=[Timed(self.now)],
        )

    def _keep_batches(self, trainer: SFTTrainer) -> None:
        """The batches of one pass, which are those of every pass."""
        collate = trainer.data_collator

        def kept(rows):
            batch = collate(rows)
            self.batches.append(dict(batch))
            return batch

        trainer.data_collator = kept
        trainer.train()
        trainer.data_collator = collate

    @property
    def tokens(self) -> int:
        return sum(
            int(b["attention_mask"].sum()) if "attention_mask" in b else b["input_ids"].numel() for b in self.batches
        )

    def train(self, name: str) -> float:
        """Seconds of a pass."""
        trainer = self.trainers[name]
        with own_head(trainer.model) if name == "ours" else nullcontext():
            trainer.train()
        return next(c.seconds for c in trainer.callback_handler.callbacks if isinstance(c, Timed))

    def bare(self) -> float:
        model, begun = self.trainers["ours"].model, self.now()
        for batch in self.batches:
            model(**batch, use_cache=False).loss.backward()
            model.zero_grad()
        return self.now() - begun


def measure(bench: Bench, rounds: int) -> dict:
    """Tokens per second of every way, the median of interleaved rounds."""
    seconds: dict[str, list[float]] = {name: [] for name in (*bench.trainers, "bare")}
    for _ in range(rounds):
        for name, taken in seconds.items():
            taken.append(bench.bare() if name == "bare" else bench.train(name))
    rate = {name: bench.tokens / statistics.median(taken) for name, taken in seconds.items()}
    places = sum(batch["input_ids"].numel() for batch in bench.batches)
    return {
        "architecture": bench.architecture,
        "episodes": len(bench.data),
        "tokens": bench.tokens,
        "padding": round(1 - bench.tokens / places, 3),
        "threads": torch.get_num_threads(),
        "tokens_per_second": {name: round(value, 1) for name, value in rate.items()},
        "ours_of": {name: round(rate["ours"] / value, 3) for name, value in rate.items() if name != "ours"},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", nargs="+", default=["lfm2", "qwen2"], choices=["lfm2", "qwen2"])
    args = parser.parse_args()
    episodes, results = DemoEpisodes(args.data, args.episodes), []
    for architecture in args.models:
        with TemporaryDirectory() as out:
            figures = measure(Bench(episodes, architecture, Path(out), clock(args)), args.rounds)
        results.append(figures)
        print(
            f"{architecture}: {figures['episodes']} episodes, {figures['tokens']:,} tokens; of our batches "
            f"{figures['padding']:.1%} is padding"
        )
        for name, rate in figures["tokens_per_second"].items():
            ratio = figures["ours_of"].get(name)
            aim = f"   aim: at least {AIMS[name]:g}" if name in AIMS else ""
            print(f"  {name:<9} {rate:>10,.1f} tokens/s" + (f"   ours / {name:<8}{ratio:>6.3f}{aim}" if ratio else ""))
    if args.out:
        write_json(args.out, {"models": results})
    return 0


if __name__ == "__main__":
    sys.exit(main())
