"""Rollout tokens per second: whole episodes through the harness, beside the backend's own at the same batch.

A tiny model with random weights computes every token and then writes the expert's in its place, so that the episodes
walk the demo KG as a trained model's would: the environment runs its queries, observations of real length are fed back,
rows end and are refilled. Counted are the tokens of the model's turns. Beside it, on the same model and as many rows:

  generate  the backend's own loop: transformers' `generate` from the same prompts, all rows in lockstep
  fed       our engine, fed the very tokens of the episodes ready made: the difference is what the harness costs
  alone     our engine from the same prompts with no observations to read, which are half of an episode's tokens

    python tests/benchmarks/bench_rollout.py --out rollout.json
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path

import torch

from data_pipelines.dataset import prepare_demo_data
from envs.factory import EnvConfig, env_factory
from graphwalker.files import read_jsonl, write_json
from graphwalker.inference.chat_tokens import ChatTokens
from graphwalker.inference.engine import Sampling
from graphwalker.inference.rollout import Start, run_episodes
from graphwalker.inference.transformers_engine import TransformersEngine
from graphwalker.protocol import chat
from graphwalker.protocol.prompts import Prompt
from graphwalker.train import tiny
from graphwalker.types import Trajectory

AIM = 0.9  # of the backend's own
TURN_TOKENS, EPISODE_TOKENS = 96, 1024


class Following(TransformersEngine):
    """Computes and draws every token, then writes the script's: ``scripts[key]`` are all that a row will write."""

    scripts: dict[int, Iterator[int]]

    def _take(self, row, token, logprob):
        return super()._take(row, next(self.scripts[row.key]), logprob)


class Bench:
    """One model and one list of episodes, run in several ways; each way gives the number of tokens it made."""

    def __init__(self, data: Path, episodes: int, rows: int):
        config = EnvConfig(str(data / "kg"), "compact")
        self.make_env, self.prompt, self.rows = env_factory(config), Prompt("compact"), rows
        experts = list(read_jsonl(data / "graphsynth.jsonl", Trajectory))
        texts = [chat.render(chat.messages(t, self.prompt)) for t in experts[:2000]]
        self.tokenizer = tiny.train_tokenizer(texts)
        chat.install(self.tokenizer)
        self.model = tiny.make_model(self.tokenizer).eval()
        self.tokens = ChatTokens(self.tokenizer)
        self.experts = experts[:episodes]
        self.prompts = [self.tokens.prompt(self.prompt.messages(t.question)) for t in self.experts]
        self.turns = [[self._turn(turn.text) for turn in t.turns] for t in self.experts]
        self.made = sum(len(turn) for turns in self.turns for turn in turns)
        observations = (turn.observation for t in self.experts for turn in t.turns[:-1])
        self.read = sum(map(len, self.prompts)) + sum(len(self.tokens.observation(text)) for text in observations)

    def _turn(self, text: str) -> list[int]:
        return [*self.tokenizer(text, add_special_tokens=False)["input_ids"], self.tokenizer.eos_token_id]

    def _engine(self, **options) -> Following:
        engine = Following(self.model, self.tokenizer, capacity=self.rows, max_length=EPISODE_TOKENS, **options)
        engine.scripts = {key: iter(sum(turns, [])) for key, turns in enumerate(self.turns)}
        return engine

    def harness(self) -> int:
        starts = []
        for key, (expert, ids) in enumerate(zip(self.experts, self.prompts, strict=True)):
            env = self.make_env()
            env.reset(options={"question": expert.question})
            starts.append(Start(key, env, ids, seed=key))
        made, right = 0, 0
        for rollout in run_episodes(iter(starts), self._engine(), Sampling(max_new_tokens=TURN_TOKENS)):
            made += sum(rollout.mask)
            right += rollout.reward == 1.0
        assert made == self.made and right == len(starts), "the episodes did not go the expert's way"
        return made

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
        observed: dict[Hashable, Iterator[list[int]]] = {
            key: iter([self.tokens.observation(turn.observation) for turn in expert.turns[:-1]])
            for key, expert in enumerate(self.experts)
        }
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


def measure(bench: Bench, rounds: int) -> dict:
    """Tokens per second of every way, the median of interleaved rounds."""
    ways: dict[str, Callable[[], int]] = {
        name: getattr(bench, name) for name in ("harness", "generate", "fed", "alone")
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.perf_counter()
            made = way()
            rates[name].append(made / (time.perf_counter() - start))
    rate = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "episodes": len(bench.experts),
        "rows": bench.rows,
        "tokens_written": bench.made,
        "tokens_read": bench.read,
        "threads": torch.get_num_threads(),
        "tokens_per_second": {name: round(value, 1) for name, value in rate.items()},
        "of_generate": round(rate["harness"] / rate["generate"], 3),
        "of_fed": round(rate["harness"] / rate["fed"], 3),
        "of_alone": round(rate["harness"] / rate["alone"], 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    parser.add_argument(
        "--data", type=Path, default=Path("runs/bench/demo"), help="demo data, made where it is missing"
    )
    parser.add_argument("--episodes", type=int, default=192)
    parser.add_argument("--rows", type=int, default=64, help="episodes decoded at a time")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if not (args.data / "stats.json").is_file():
        prepare_demo_data(args.data, n_synth=2000, n_roll=100, n_train=100, min_population=100_000)
    figures = measure(Bench(args.data, args.episodes, args.rows), args.rounds)
    print(
        f"{figures['episodes']} episodes, {figures['rows']} at a time: {figures['tokens_written']:,} tokens written by "
        f"the model, {figures['tokens_read']:,} read as prompts and observations"
    )
    for name, rate in figures["tokens_per_second"].items():
        print(f"  {name:<9} {rate:>10,.1f} tokens/s")
    print(f"  harness / generate  {figures['of_generate']:>6.3f}   aim: at least {AIM:g}")
    print(f"  harness / fed       {figures['of_fed']:>6.3f}   aim: at least {AIM:g}")
    print(f"  harness / alone     {figures['of_alone']:>6.3f}")
    if args.out:
        write_json(args.out, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
