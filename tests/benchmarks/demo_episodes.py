"""Episodes of the demo KG for the benchmarks of training: the experts' conversations, a tokenizer and tiny models."""

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path

from data_pipelines.dataset import prepare_demo_data
from envs.factory import EnvConfig, env_factory
from graphwalker.files import read_jsonl
from graphwalker.inference.chat_tokens import ChatTokens
from graphwalker.inference.engine import Engine, Sampling
from graphwalker.inference.rollout import Start, run_episodes
from graphwalker.inference.transformers_engine import TransformersEngine
from graphwalker.protocol import chat
from graphwalker.protocol.prompts import Prompt
from graphwalker.train import tiny
from graphwalker.types import Trajectory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    parser.add_argument(
        "--data", type=Path, default=Path("runs/bench/demo"), help="demo data, made where it is missing"
    )
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="count the process's CPU time instead of the wall clock, for a core that other work shares",
    )


def clock(args: argparse.Namespace) -> Callable[[], float]:
    """Seconds, by what ``args`` ask for."""
    return time.process_time if args.cpu_time else time.perf_counter


class DemoEpisodes:
    """``episodes`` expert trajectories from ``data`` (made where it is missing), with all that runs or trains them."""

    def __init__(self, data: Path, episodes: int, file: str = "graphsynth.jsonl"):
        if not (data / "stats.json").is_file():
            prepare_demo_data(data, n_synth=2000, n_roll=100, n_train=100, min_population=100_000)
        self.make_env, self.prompt = env_factory(EnvConfig(str(data / "kg"), "compact")), Prompt("compact")
        experts = list(read_jsonl(data / file, Trajectory))[: max(episodes, 2000)]
        texts = [chat.render(chat.messages(t, self.prompt)) for t in experts[:2000]]
        self.tokenizer = tiny.train_tokenizer(texts)
        chat.install(self.tokenizer)
        self.tokens = ChatTokens(self.tokenizer)
        self.experts = experts[:episodes]
        self.prompts = [self.tokens.prompt(self.prompt.messages(t.question)) for t in self.experts]
        self.turns = [[self.turn(turn.text) for turn in t.turns] for t in self.experts]
        self.observations = [[self.tokens.observation(turn.observation) for turn in t.turns[:-1]] for t in self.experts]

        self.made = sum(len(turn) for turns in self.turns for turn in turns)
        self.read = sum(map(len, self.prompts)) + sum(len(ids) for seen in self.observations for ids in seen)

    def turn(self, text: str) -> list[int]:
        return [*self.tokenizer(text, add_special_tokens=False)["input_ids"], self.tokenizer.eos_token_id]

    def contexts(self, key: int) -> list[list[int]]:
        """What episode ``key`` has read and written before each of its turns."""
        steps = [a + b for a, b in zip(self.turns[key], self.observations[key], strict=False)]
        return list(accumulate(steps, initial=self.prompts[key]))

    def next_turn(self) -> dict[tuple[int, ...], list[int]]:
        """The turn that the expert wrote, by all that was read and written before it."""
        return {
            tuple(seen): turn
            for key, turns in enumerate(self.turns)
            for turn, seen in zip(turns, self.contexts(key), strict=True)
        }

    def walk(self, engine: Engine, turn_tokens: int) -> int:
        """Run all episodes through the harness; the number of tokens that ``engine``, which must follow, made."""
        starts = []
        for key, (expert, ids) in enumerate(zip(self.experts, self.prompts, strict=True)):
            env = self.make_env()
            env.reset(options={"question": expert.question})
            starts.append(Start(key, env, ids, seed=key))
        made, right = 0, 0
        for rollout in run_episodes(iter(starts), engine, Sampling(max_new_tokens=turn_tokens)):
            made += sum(rollout.mask)
            right += rollout.reward == 1.0
        assert made == self.made and right == len(starts), "the episodes did not go the expert's way"
        return made


class Following(TransformersEngine):
    """Computes and draws every token, then writes the script's: ``scripts[key]`` are all that a row will write."""

    scripts: dict[int, Iterator[int]]

    def _take(self, row, token, logprob):
        return super()._take(row, next(self.scripts[row.key]), logprob)
