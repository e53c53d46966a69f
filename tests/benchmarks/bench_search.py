"""Searches per second: many questions at once beside one at a time on the same engine; Fast beside Classic MCTS.

A tiny model with random weights computes every token and then writes a script's in its place: an expert's turn on the
demo KG, or now and then one that leads nowhere, so that the searches branch and go on as a trained agent's would. The
environment runs every query; the value of a state is the information gain under the same model.

    python tests/benchmarks/bench_search.py --out search.json
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

from bench_rollout import EPISODE_TOKENS, TURN_TOKENS, Bench  # noqa: E402 (a script beside this one)

from data_pipelines.dataset import prepare_demo_data  # noqa: E402
from graphwalker.files import write_json  # noqa: E402
from graphwalker.inference.engine import Sampling  # noqa: E402
from graphwalker.inference.searching import run_searches  # noqa: E402
from graphwalker.inference.transformers_engine import TransformersEngine  # noqa: E402
from graphwalker.inference.values.information_gain import InformationGain  # noqa: E402
from graphwalker.inference.values.transformers_scorer import TransformersScorer  # noqa: E402
from graphwalker.search.settings import SearchConfig  # noqa: E402

AIM = 5.0  # times the questions a second of one at a time
ERRS = 0.3  # the share of turns that lead nowhere


class Branching(TransformersEngine):
    """Computes and draws every token, then writes that of a turn: the expert's at this place, or a lost one's."""

    turns: Sequence[Sequence[list[int]]]  # of each question
    lost: list[int]

    def branch(self, parent, keys: Sequence[Hashable], ids, sampling, seeds) -> None:
        end = self.tokenizer.eos_token_id
        for key, seed in zip(keys, seeds, strict=True):
            turns = self.turns[key[0]]  # type: ignore[index]
            depth = (list(ids).count(end) - 1) // 2  # the prompt ends one message, a turn and its observation two
            chosen = self.lost if random.Random(seed).random() < ERRS else turns[min(depth, len(turns) - 1)]
            self.script[key] = iter(chosen)
        super().branch(parent, keys, ids, sampling, seeds)

    script: dict[Hashable, Iterator[int]]

    def _take(self, row, token, logprob):
        return super()._take(row, next(self.script[row.key]), logprob)


def searched(bench: Bench, searcher: str, at_a_time: int | None) -> dict[str, float]:
    """Search every question; seconds, actor calls and answers found."""
    rows = bench.rows
    engine = Branching(bench.model, bench.tokenizer, capacity=rows, parked=rows, max_length=EPISODE_TOKENS)
    engine.turns, engine.script = bench.turns, {}
    engine.lost = [
        *bench.tokenizer("<think>Hm.</think>", add_special_tokens=False)["input_ids"],
        bench.tokenizer.eos_token_id,
    ]
    value = InformationGain(TransformersScorer(bench.model, bench.tokenizer, max_length=EPISODE_TOKENS))
    questions = [replace(t.question, id=f"{i}") for i, t in enumerate(bench.experts)]
    config = SearchConfig(searcher)
    began, worked = time.perf_counter(), time.process_time()
    sampling = Sampling(max_new_tokens=TURN_TOKENS)
    found = list(run_searches(questions, bench.make_env, engine, value, config, sampling, at_a_time=at_a_time))
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - worked
    assert {s.trajectory.ending for s in found} <= {"answered", "budget"}
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "actor_calls": statistics.mean(s.cost.actor_calls for s in found),
        "value_calls": statistics.mean(s.cost.value_calls for s in found),
        "answered": statistics.mean(s.trajectory.answer is not None for s in found),
    }


def measure(bench: Bench, rounds: int) -> dict:
    """Questions a second of every way, the median of interleaved rounds, and what a question costs."""
    ways = {(s, many): (s, None if many else 1) for s in ("fast_mcts", "classic_mcts") for many in (False, True)}
    runs: dict[tuple[str, bool], list[dict[str, float]]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, (searcher, at_a_time) in ways.items():
            runs[way].append(searched(bench, searcher, at_a_time))
    figures: dict = {"questions": len(bench.experts), "rows": bench.rows, "threads": torch.get_num_threads()}
    for searcher in ("fast_mcts", "classic_mcts"):
        one, many = (
            {key: statistics.median(run[key] for run in runs[searcher, at_once]) for key in ("seconds", "cpu_seconds")}
            for at_once in (False, True)
        )
        costs = runs[searcher, True][0]
        figures[searcher] = {
            "one": round(len(bench.experts) / one["seconds"], 3),
            "many": round(len(bench.experts) / many["seconds"], 3),
            "ratio": round(one["seconds"] / many["seconds"], 2),
            "ratio_of_cpu": round(one["cpu_seconds"] / many["cpu_seconds"], 2),
            **{key: round(costs[key], 3) for key in ("actor_calls", "value_calls", "answered")},
        }
    calls = [figures[searcher]["actor_calls"] for searcher in ("fast_mcts", "classic_mcts")]
    return {**figures, "fast_calls_of_classic": round(calls[0] / calls[1], 3)}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    parser.add_argument(
        "--data", type=Path, default=Path("runs/bench/demo"), help="demo data, made where it is missing"
    )
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--rows", type=int, default=256, help="turns decoded at a time")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if not (args.data / "stats.json").is_file():
        prepare_demo_data(args.data, n_synth=2000, n_roll=100, n_train=100, min_population=100_000)
    figures = measure(Bench(args.data, args.questions, args.rows), args.rounds)
    print(
        f"{figures['questions']} questions, {figures['rows']} rows; questions a second, one at a time and many at once"
    )
    for name in ("fast_mcts", "classic_mcts"):
        f = figures[name]
        print(
            f"  {name:<13}{f['one']:>8.3f}{f['many']:>9.3f}   {f['ratio']:.2f} times (aim: at least {AIM:g}), "
            f"of CPU time {f['ratio_of_cpu']:.2f}; "
            f"{f['actor_calls']:.1f} actor calls and {f['value_calls']:.1f} values a question"
        )
    print(f"  actor calls of Fast / Classic  {figures['fast_calls_of_classic']:.3f}")
    if args.out:
        write_json(args.out, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
