"""Rollouts with vLLM: whole episodes through the harness beside TRL's own tool loop, on one ``vllm.LLM``.

A tiny Qwen2 with random weights computes and samples every token; a logits processor inside vLLM, the same for both,
leaves only the expert's next one, which it knows from what stands before the turn. So both walk the same episodes, with
the same observations, on the same graph, and sampling costs what it costs. The passes of vLLM's engine are counted too:
what a pass costs on a GPU, where it hardly depends on how many rows it has, is not what it costs on a core, where every
row is computed for. Where vLLM is not installed, a line says so.

    python tests/benchmarks/bench_vllm.py --out vllm.json
"""

import argparse
import os
import statistics
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import trl_loop
from demo_episodes import DemoEpisodes, add_arguments, clock
from trl.generation.vllm_generation import VLLMGeneration

from graphwalker.files import write_json
from graphwalker.inference.vllm_engine import VLLMEngine, make_llm
from graphwalker.train import tiny

AIM = 1.3  # times TRL's tool loop
TURN_TOKENS, EPISODE_TOKENS = 96, 1024


class Given(VLLMGeneration):
    """TRL's generation in colocate mode, on an ``LLM`` that there is already and that keeps its weights."""

    llm: Any

    def _init_vllm(self) -> None:
        pass

    def sync_weights(self) -> None:
        pass


def scripted(next_turn: dict[tuple[int, ...], list[int]]) -> type:
    """vLLM's logits processor that leaves each row one token: the script's, by the prompt of its request."""
    from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

    class Script(AdapterLogitsProcessor):
        def is_argmax_invariant(self) -> bool:
            return False

        def new_req_logits_processor(self, params):
            return self._leave_one

        def _leave_one(self, prompt: list[int], made: list[int], logits: torch.Tensor) -> torch.Tensor:
            wanted = next_turn[tuple(prompt)][len(made)] if tuple(prompt) in next_turn else 0
            return torch.full_like(logits, -torch.inf).index_fill_(0, torch.tensor([wanted]), 0.0)

    return Script


class Bench(DemoEpisodes):
    """One model in vLLM and one list of episodes, run in two ways; each gives the number of tokens it made."""

    def __init__(self, data: Path, episodes: int, rows: int, folder: Path):
        super().__init__(data, episodes)
        self.rows = rows
        model = tiny.make_model(self.tokenizer, "qwen2")
        for target in (model, self.tokenizer):
            target.save_pretrained(folder)
        self.llm = make_llm(
            model=str(folder),
            dtype="float32",
            max_model_len=EPISODE_TOKENS * 2,
            max_num_seqs=rows,
            gpu_memory_utilization=0.1,
            enforce_eager=True,
            distributed_executor_backend="external_launcher",  # in this process, as TRL has it
            logprobs_mode="processed_logprobs",
            logits_processors=[scripted(self.next_turn())],
        )
        self._trl = trl_loop.make_trainer(self, model, rows, EPISODE_TOKENS)
        self._trl.use_vllm, self._trl.vllm_mode, self._trl._last_loaded_step = True, "colocate", -1
        self._trl.vllm_importance_sampling_correction = False  # a forward pass of the trainer's, not of the loop's
        self._trl.vllm_generation = Given(
            model, self._trl.accelerator, self.tokenizer, max_completion_length=EPISODE_TOKENS
        )
        self._trl.vllm_generation.llm = self.llm

        self.passes, step = 0, self.llm.llm_engine.step

        def counted():
            self.passes += 1
            return step()

        self.llm.llm_engine.step = counted

    def harness(self) -> int:
        self.llm.reset_prefix_cache()
        engine = VLLMEngine(self.llm, self.tokenizer, capacity=self.rows, max_length=EPISODE_TOKENS)
        return self.walk(engine, TURN_TOKENS)

    def trl(self) -> int:
        self.llm.reset_prefix_cache()
        return trl_loop.walk(self, self._trl, self.rows)


def measure(bench: Bench, rounds: int, now: Callable[[], float]) -> dict:
    """Tokens per second of both ways, the median of interleaved rounds."""
    rates: dict[str, list[float]] = {"harness": [], "trl": []}
    passes = {}
    for _ in range(rounds):
        for name, values in rates.items():
            way: Callable[[], int] = getattr(bench, name)
            bench.passes, start = 0, now()
            made = way()
            values.append(made / (now() - start))
            passes[name] = bench.passes
    rate = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "episodes": len(bench.experts),
        "rows": bench.rows,
        "tokens_written": bench.made,
        "tokens_read": bench.read,
        "threads": torch.get_num_threads(),
        "tokens_per_second": {name: round(value, 1) for name, value in rate.items()},
        "passes": passes,
        "harness_of_trl": round(rate["harness"] / rate["trl"], 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--episodes", type=int, default=96)
    parser.add_argument("--rows", type=int, default=32, help="episodes decoded at a time")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if find_spec("vllm") is None:
        print("vLLM is not installed (docs/install.md): nothing measured")
        return 0
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ |= {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29571",
    }
    with TemporaryDirectory() as folder:
        figures = measure(Bench(args.data, args.episodes, args.rows, Path(folder)), args.rounds, clock(args))
    print(
        f"{figures['episodes']} episodes, {figures['rows']} at a time: {figures['tokens_written']:,} tokens written by "
        f"the model, {figures['tokens_read']:,} read as prompts and observations"
    )
    for name, rate in figures["tokens_per_second"].items():
        print(f"  {name:<9} {rate:>10,.1f} tokens/s in {figures['passes'][name]:>6,} passes of the engine")
    print(f"  harness / trl {figures['harness_of_trl']:>6.3f}   aim: at least {AIM:g}")
    if args.out:
        write_json(args.out, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
