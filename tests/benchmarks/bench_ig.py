"""The information gain of a frontier, beside its definition: two passes a state, one state after another.

A frontier is what Fast MCTS asks about at once: the children of states of several questions. Those are states of real
shape: episodes on the demo KG, and at each of their turns n samples, some of them equal, that differ in their last
action and in what was observed. The model is SmolLM2 where it is installed (`make smollm2`), else a tiny random one.

  definition  PPL(H') by one pass over H', PPL(H', Q) by another over (H', Q), transformers' own forward pass, each
              state by itself; logits of whole texts in float32
  alone       ours, a state at a time: one pass instead of two
  together    ours, the whole frontier: one packed row, prefixes of siblings read once, equal states read once

    python tests/benchmarks/bench_ig.py --out ig.json
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from data_pipelines.dataset import prepare_demo_data
from graphwalker.errors import UserError
from graphwalker.files import read_jsonl, write_json
from graphwalker.inference import load
from graphwalker.inference.values.formulas import Scored, ig_reward
from graphwalker.inference.values.information_gain import InformationGain
from graphwalker.inference.values.transformers_scorer import TransformersScorer
from graphwalker.protocol import chat
from graphwalker.protocol.prompts import Prompt
from graphwalker.search.sanitise import history
from graphwalker.train import tiny
from graphwalker.train.models import prepare_model
from graphwalker.types import Trajectory, Turn

AIM = 4.0  # times the definition's states per second
Pair = tuple[str, str]


def frontiers(experts: list[Trajectory], count: int, questions: int, width: int, seed: int = 0) -> list[list[Pair]]:
    """``count`` frontiers, each of one state of ``questions`` questions with ``width`` children: pairs (H', Q).

    A child's last turn is the expert's own or that of another episode at its place; a third of them repeat a sibling,
    as samples at a temperature of 0.7 do.
    """
    rng = random.Random(seed)
    long = [expert for expert in experts if len(expert.turns) > 3]
    found = []
    for _ in range(count):
        pairs: list[Pair] = []
        for expert in rng.sample(long, questions):
            at = rng.randrange(1, len(expert.turns))
            siblings: list[Turn] = [expert.turns[at]]
            while len(siblings) < width:
                other = rng.choice(long).turns
                siblings.append(rng.choice(siblings) if rng.random() < 1 / 3 else other[min(at, len(other) - 1)])
            pairs += [(history([*expert.turns[:at], last], expert.question), expert.question.text) for last in siblings]
        found.append(pairs)
    return found


class Definition:
    """Eq. 5 and 6 to the letter."""

    def __init__(self, model, tokenizer, start: int):
        self.model, self.tokenizer, self.start = model, tokenizer, start
        self.tokens = 0  # read

    def __call__(self, pairs: list[Pair]) -> list[float]:
        return [self._gain(*pair) for pair in pairs]

    def _gain(self, text: str, question: str) -> float:
        h, q = (self.tokenizer(part, add_special_tokens=False)["input_ids"] for part in (text, question))
        of_history, of_both = self._logprob(h), self._logprob(h + q)
        return ig_reward(Scored(len(h), of_history, len(q), of_both - of_history))

    @torch.inference_mode()
    def _logprob(self, ids: list[int]) -> float:
        row = torch.tensor([[self.start, *ids]])
        self.tokens += row.numel()
        logprobs = self.model(row).logits[0, :-1].float().log_softmax(-1)
        return float(logprobs.gather(1, row[0, 1:, None]).double().sum())


class Counting(TransformersScorer):
    """Counts the tokens that it reads, padding included."""

    tokens = 0

    def _decode(self, **inputs):
        self.tokens += inputs["input_ids"].numel()
        return super()._decode(**inputs)


def load_model(data: Path):
    """The value model, its tokenizer and its name."""
    try:
        path = prepare_model("smollm2")
    except UserError:
        texts = [chat.render(chat.messages(t, Prompt("compact"))) for t in experts_of(data)[:500]]
        tokenizer = tiny.train_tokenizer(texts)
        return tiny.make_model(tokenizer, "qwen2").eval(), tokenizer, "tiny-qwen2 (random weights)"
    tokenizer = load.read_tokenizer(path)
    return load.load_model(path, tokenizer, "float32").eval(), tokenizer, "SmolLM2-135M-Instruct"


def experts_of(data: Path) -> list[Trajectory]:
    return list(read_jsonl(data / "graphsynth.jsonl", Trajectory))


def measure(model, tokenizer, asked: list[list[Pair]]) -> dict:
    """States per second of every way, by the clock and of CPU time, and how far the values lie apart.

    The rates are medians over frontiers.
    """
    scorers = {name: Counting(model, tokenizer) for name in ("alone", "together")}
    definition = Definition(model, tokenizer, scorers["together"].start)

    def ours(name: str, pairs: list[Pair]) -> list[float]:
        return [ig_reward(scored) for scored in InformationGain(scorers[name]).scored(pairs)]

    ways: dict[str, Callable[[list[Pair]], list[float]]] = {
        "definition": definition,
        "alone": lambda pairs: [value for pair in pairs for value in ours("alone", [pair])],
        "together": lambda pairs: ours("together", pairs),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    cpu_rates: dict[str, list[float]] = {name: [] for name in ways}
    apart = 0.0
    for pairs in asked:
        values: dict[str, list[float]] = {}
        for name, way in ways.items():
            began, worked = time.perf_counter(), time.process_time()
            values[name] = way(pairs)
            rates[name].append(len(pairs) / (time.perf_counter() - began))
            cpu_rates[name].append(len(pairs) / (time.process_time() - worked))
        of_all = zip(*values.values(), strict=True)
        apart = max(apart, *(max(of_one) - min(of_one) for of_one in of_all))
    rate, cpu_rate = ({name: statistics.median(r) for name, r in found.items()} for found in (rates, cpu_rates))
    lengths = [len(tokenizer(text, add_special_tokens=False)["input_ids"]) for pairs in asked for text, _ in pairs]
    return {
        "frontiers": len(asked),
        "states_in_each": len(asked[0]),
        "different_states_in_each": round(statistics.mean(len(set(pairs)) for pairs in asked), 1),
        "history_tokens": round(statistics.mean(lengths), 1),
        "threads": torch.get_num_threads(),
        "tokens_read": {
            "definition": definition.tokens,
            **{name: scorer.tokens for name, scorer in scorers.items()},
        },
        "states_per_second": {name: round(value, 3) for name, value in rate.items()},
        "of_definition": round(rate["together"] / rate["definition"], 2),
        "of_definition_by_cpu": round(cpu_rate["together"] / cpu_rate["definition"], 2),
        "alone_of_definition": round(rate["alone"] / rate["definition"], 2),
        "largest_difference": apart,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    parser.add_argument("--data", type=Path, default=Path("runs/bench/demo"), help="demo data, made where missing")
    parser.add_argument("--frontiers", type=int, default=3)
    parser.add_argument("--questions", type=int, default=8, help="questions that search at a time")
    parser.add_argument("--width", type=int, default=5, help="children of a state")
    args = parser.parse_args()
    if not (args.data / "stats.json").is_file():
        prepare_demo_data(args.data, n_synth=2000, n_roll=100, n_train=100, min_population=100_000)
    model, tokenizer, name = load_model(args.data)
    asked = frontiers(experts_of(args.data), args.frontiers, args.questions, args.width)
    figures = {"model": name, **measure(model, tokenizer, asked)}
    print(
        f"{name}: {figures['frontiers']} frontiers of {figures['states_in_each']} states "
        f"({figures['different_states_in_each']:g} different), {figures['history_tokens']:g} tokens of H' a state"
    )
    for way, rate in figures["states_per_second"].items():
        print(f"  {way:<11}{rate:>10,.2f} states/s  {figures['tokens_read'][way]:>9,} tokens read")
    print(
        f"  together / definition {figures['of_definition']:>6.2f}   aim: at least {AIM:g}; "
        f"of CPU time {figures['of_definition_by_cpu']:.2f}"
    )
    print(f"  largest difference of a value {figures['largest_difference']:.1e}")
    if args.out:
        write_json(args.out, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
