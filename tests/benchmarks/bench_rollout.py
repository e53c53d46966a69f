"""Rollout tokens per second: whole episodes through the harness, beside the backend's own at the same batch.

A tiny model with random weights computes every token and then writes the expert's in its place, so that the episodes
walk the demo KG as a trained model's would: the environment runs its queries, observations of real length are fed back,
rows end and are refilled. Counted are the tokens of the model's turns. Beside it, on the same model and as many rows:

  generate  the backend's own loop: transformers' `generate` from the same prompts, all rows in lockstep
  fed       our engine, fed the very tokens of the episodes ready made: the difference is what the harness costs
  alone     our engine from the same prompts with no observations to read, which are half of an episode's tokens
  trl       TRL's own tool loop (`GRPOTrainer` with an environment), which is led to write the same tokens

    python tests/benchmarks/bench_rollout.py --out rollout.json
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path

import torch
import trl_loop
from demo_episodes import DemoEpisodes, Following, add_arguments, clock
from transformers import LogitsProcessor, LogitsProcessorList
from trl import GRPOTrainer

from graphwalker.files import write_json
from graphwalker.inference.engine import Sampling
from graphwalker.train import tiny

AIM, AIM_TRL = 0.9, 3.0  # of the backend's own; times TRL's tool loop
TURN_TOKENS, EPISODE_TOKENS = 96, 1024
WAYS = ("harness", "generate", "fed", "alone", "trl")


class Forced(LogitsProcessor):
    """Lets `generate` write the scripts' tokens: ``turns`` are the rows' turns, from column ``start`` on."""

    def __init__(self, turns: list[list[int]], start: int):
        self.turns, self.start = turns, start

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        place = input_ids.shape[1] - self.start
        wanted = torch.tensor([turn[min(place, len(turn) - 1)] for turn in self.turns])
        return torch.full_like(scores, -torch.inf).scatter_(1, wanted[:, None], 0.0)


class Bench(DemoEpisodes):
    """One model and one list of episodes, run in several ways; each way gives the number of tokens it made."""

    def __init__(self, data: Path, episodes: int, rows: int):
        super().__init__(data, episodes)
        self.rows = rows
        self.model = tiny.make_model(self.tokenizer).eval()
        self._trl: GRPOTrainer | None = None

    def _engine(self, **options) -> Following:
        engine = Following(self.model, self.tokenizer, capacity=self.rows, max_length=EPISODE_TOKENS, **options)
        engine.scripts = {key: iter(sum(turns, [])) for key, turns in enumerate(self.turns)}
        return engine

    def harness(self) -> int:
        return self.walk(self._engine(), TURN_TOKENS)

    def alone(self) -> int:
        engine, made, waiting = self._engine(stop_ids=[-1]), 0, list(range(len(self.experts)))
        while waiting or engine.rows:
            while waiting and len(engine.rows) < self.rows:
                key = waiting.pop(0)
                whole = sum(map(len, self.turns[key]))
                engine.add(key, self.prompts[key], Sampling(max_new_tokens=whole), seed=key)
            for done in engine.step():
                made += len(done.ids)
                engine.release(done.key)
        return made

    def fed(self) -> int:
        engine, made, waiting = self._engine(), 0, list(range(len(self.experts)))
        sampling = Sampling(max_new_tokens=TURN_TOKENS)
        observed: dict[Hashable, Iterator[list[int]]] = {key: iter(ids) for key, ids in enumerate(self.observations)}
        while waiting or engine.rows:
            while waiting and len(engine.rows) < self.rows:
                key = waiting.pop(0)
                engine.add(key, self.prompts[key], sampling, seed=key)
            for done in engine.step():
                made += len(done.ids)
                ids = next(observed[done.key], None)
                if ids is None:
                    engine.release(done.key)
                else:
                    engine.add(done.key, ids, sampling, 0)
        return made

    @torch.inference_mode()
    def generate(self) -> int:
        each, made = self.made // len(self.experts), 0
        for start in range(0, len(self.prompts), self.rows):
            batch = self.prompts[start : start + self.rows]
            inputs = self.tokenizer.pad({"input_ids": batch}, padding_side="left", return_tensors="pt")
            self.model.generate(**inputs, do_sample=True, min_new_tokens=each, max_new_tokens=each)
            made += each * len(batch)
        return made

    def trl(self) -> int:
        """TRL's own tool loop, on batches of as many rows."""
        self._trl = self._trl or self._make_trl()
        return trl_loop.walk(self, self._trl, self.rows)

    def _make_trl(self) -> GRPOTrainer:
        trainer = trl_loop.make_trainer(self, tiny.make_model(self.tokenizer), self.rows, EPISODE_TOKENS)
        next_turn = self.next_turn()
        generate = trainer.model.generate

        def scripted(input_ids, attention_mask, **options):
            rows = zip(input_ids.tolist(), attention_mask.tolist(), strict=True)
            seen = [tuple(t for t, real in zip(*row, strict=True) if real) for row in rows]
            forced = Forced([next_turn[ids] for ids in seen], input_ids.shape[1])
            inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
            return generate(**inputs, logits_processor=LogitsProcessorList([forced]), **options)

        trainer.model.generate = scripted
        return trainer


def measure(bench: Bench, rounds: int, now: Callable[[], float], ways: tuple[str, ...] = WAYS) -> dict:
    """Tokens per second of every way, the median of interleaved rounds."""
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name in ways:
            way: Callable[[], int] = getattr(bench, name)
            start = now()
            made = way()
            rates[name].append(made / (now() - start))
    rate = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "episodes": len(bench.experts),
        "rows": bench.rows,
        "tokens_written": bench.made,
        "tokens_read": bench.read,
        "threads": torch.get_num_threads(),
        "tokens_per_second": {name: round(value, 1) for name, value in rate.items()},
        "harness_of": {name: round(rate["harness"] / rate[name], 3) for name in ways if name != "harness"},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--episodes", type=int, default=192)
    parser.add_argument("--rows", type=int, default=64, help="episodes decoded at a time")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    figures = measure(Bench(args.data, args.episodes, args.rows), args.rounds, clock(args))
    print(
        f"{figures['episodes']} episodes, {figures['rows']} at a time: {figures['tokens_written']:,} tokens written by "
        f"the model, {figures['tokens_read']:,} read as prompts and observations"
    )
    for name, rate in figures["tokens_per_second"].items():
        print(f"  {name:<9} {rate:>10,.1f} tokens/s")
    aims = {"generate": AIM, "fed": AIM, "trl": AIM_TRL}
    for name, ratio in figures["harness_of"].items():
        aim = f"   aim: at least {aims[name]:g}" if name in aims else ""
        print(f"  harness / {name:<9} {ratio:>6.3f}{aim}")
    if args.out:
        write_json(args.out, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
