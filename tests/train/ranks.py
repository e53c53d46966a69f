"""Processes that train on scripted episodes of unequal length; `test_ranks.py` starts this file.

``python ranks.py CASE,... FOLDER PROCESSES ...``: a run of each case for each number of processes; FOLDER holds a KG
and a tokenizer.
The libraries are loaded once, and the processes are forks. Each that ends well leaves a ``.result`` in FOLDER: how many
generation steps it took part in, and how many completions it checked. One that is handed another prompt's completion
ends in an error.
"""

import json
import multiprocessing
import os
import random
import re
import socket
import sys
import time
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from accelerate.utils import gather_object
from torch.distributed.fsdp import fully_shard
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer
from trl.generation.vllm_generation import VLLMGeneration

from envs.factory import EnvConfig, env_factory
from envs.trl_adapter import adapter_factory
from graphwalker.inference.engine import Completion, Sampling
from graphwalker.inference.in_step import Alone, InStep
from graphwalker.inference.transformers_engine import TransformersEngine
from graphwalker.protocol.prompts import Prompt
from graphwalker.protocol.render import render_turn
from graphwalker.train import grpo_trainer, sft_data, tiny
from graphwalker.train.configs import RolloutConfig
from graphwalker.types import Entity, Question
from tests.inference.scripted_vllm import Scripted

GROUP, STEPS, LIMIT = 4, 2, 60  # episodes a question, training steps, seconds
MARKER = re.compile(r"marker (\d+)")
FRANCE, PARIS = Entity("France", "m.fr"), Entity("Paris", "m.paris")
QUESTIONS = [Question(f"q{n}", f"This is marker {n}.", (FRANCE,), (PARIS,)) for n in range(40)]
QUIET = {"report_to": "none", "use_cpu": True, "bf16": False, "disable_tqdm": True, "save_strategy": "no"}
QUIET |= {"ddp_timeout": LIMIT, "logging_steps": 1, "beta": 0.0}


def reply(text: str) -> str:
    """The scripted policy: the next turn of an episode, with the marker of its prompt; one in nine asks eight times."""
    if not (found := MARKER.search(text)):
        return "To a dummy, whose turn nobody reads."
    number, asked = int(found[1]), text.count("<information>")
    thought = f"This is marker {number}, turn {asked}."
    if asked < number % 9:
        return render_turn(thought, "query", 'get_relations("France")')
    return render_turn(thought, "answer", '["Paris"]')


class Checked:
    """A reward that fails on a completion which is not its prompt's."""

    __name__ = "checked"

    def __init__(self):
        self.count = self.turns = 0

    def __call__(self, prompts, completions, **kwargs) -> list[float]:
        markers = gather_object([MARKER.search(prompt[-1]["content"])[1] for prompt in prompts])
        groups = [set(markers[i : i + GROUP]) for i in range(0, len(markers), GROUP)]
        assert all(len(group) == 1 for group in groups), "a group of several questions"
        for prompt, completion in zip(prompts, completions, strict=True):
            asked = MARKER.search(prompt[-1]["content"])[1]
            said = {
                MARKER.search(m.get("reasoning_content") or m["content"])[1]
                for m in completion
                if m["role"] == "assistant"
            }
            turns = sum(m["role"] == "assistant" for m in completion)
            assert said == {asked}, f"the completion of marker {asked} is that of {said}"
            assert turns == int(asked) % 9 + 1, f"marker {asked} has {turns} turns"
            self.count += 1
            self.turns += turns
        # every third question is hopeless, so that its group is dead and refilled
        return [float(i % 2 and int(MARKER.search(p[-1]["content"])[1]) % 3 > 0) for i, p in enumerate(prompts)]


class SharedPasses:
    """A scripted engine each of whose passes needs every process, as a sharded model's does."""

    steps = 0

    def __init__(self, model, tokenizer, *, capacity, max_length, in_step):
        self.tokenizer, self.capacity, self.max_length, self.in_step = tokenizer, capacity, 10_000, in_step
        self.rows: dict[int, list[int]] = {}
        self.waiting: list[int] = []

    def add(self, key, ids, sampling, seed):
        self.rows.setdefault(key, []).extend(ids)
        self.waiting.append(key)

    def step(self):
        self.in_step.agree(1)
        self._pass()
        key = self.waiting.pop(0)
        ids = encode(self.tokenizer, reply(self.tokenizer.decode(self.rows[key])))
        self.rows[key] += ids
        return [Completion(key, ids, [-0.5] * len(ids), True)]

    def finish(self):
        self.in_step.finish(lambda most: self._pass())

    def release(self, key):
        del self.rows[key]

    def _pass(self):
        SharedPasses.steps += 1
        here = torch.ones(1)
        dist.all_reduce(here)
        assert here == dist.get_world_size()


class ScriptedServer:
    """In the place of the client of a vLLM server."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def generate(self, prompts, n, **kwargs):
        ids = [encode(self.tokenizer, reply(self.tokenizer.decode(prompt))) for prompt in prompts for _ in range(n)]
        logprobs = [[[-0.5] for _ in turn] for turn in ids]
        return {"prompt_ids": prompts, "completion_ids": ids, "logprobs": logprobs}


class ServerGeneration(VLLMGeneration):
    """TRL's generation in server mode, without a server and its weights; our trainer asks the server itself."""

    def __init__(self, trainer):
        self.steps, self.mode, self.accelerator = 0, "server", trainer.accelerator
        self.temperature = self.top_p = self.repetition_penalty = 1.0
        self.top_k = self.logprobs = 0
        self.min_p = self.structured_outputs_regex = None
        self.max_completion_length, self.generation_kwargs, self.enable_sleep_mode = 64, {}, False
        self.vllm_client = ScriptedServer(trainer.processing_class)

    def sync_weights(self):
        pass

    def generate(self, *args, **kwargs):
        self.steps += 1
        return super().generate(*args, **kwargs)


def encode(tokenizer, text: str) -> list[int]:
    return [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]


def train(case: str, folder: Path) -> dict[str, int]:
    """Train with our trainer (``local`` or ``server``) or TRL's own (``trl-server``)."""
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    make_env = env_factory(EnvConfig(kg=str(folder / "kg"), prompt="compact"))
    rows = 16 if os.environ["WORLD_SIZE"] == "3" else 18  # with 18, some groups lie on two processes
    options = {"max_steps": STEPS, "per_device_train_batch_size": rows, "num_generations": GROUP}
    checked = Checked()
    ours = case != "trl-server"
    if case == "local":
        grpo_trainer.TransformersEngine = SharedPasses
    trainer = (grpo_trainer.EpisodeGRPOTrainer if ours else GRPOTrainer)(
        model=tiny.make_model(tokenizer, "qwen2", width=16, layers=1, heads=1),
        reward_funcs=checked,
        args=GRPOConfig(str(folder / "out"), max_completion_length=2000, **options, **QUIET),
        train_dataset=sft_data.prompts(QUESTIONS, Prompt("compact")),
        processing_class=tokenizer,
        environment_factory=adapter_factory(make_env),
        **({"rollout": RolloutConfig(8, 64, 2000, dead_groups="refill")} if ours else {}),
    )
    trainer.in_step = InStep()
    if case.endswith("server"):
        trainer.args.vllm_server_base_url = os.environ.get("SERVER")
        trainer.use_vllm, trainer.vllm_mode, trainer._last_loaded_step = True, "server", -1
        trainer.vllm_importance_sampling_correction = False
        trainer.vllm_generation = ServerGeneration(trainer)
    trainer.train()
    steps = SharedPasses.steps if case == "local" else trainer.vllm_generation.steps or checked.turns
    refilled = sum(entry.get("group/refilled", 0) for entry in trainer.state.log_history)
    return {"steps": steps, "checked": checked.count, "refilled": refilled}


def sharded(case: str, folder: Path) -> dict[str, int]:
    """Decode with a model that FSDP2 shards, a different number of rows on each process; as with the whole model."""
    dist.init_process_group("gloo")
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")

    def decode(shard: bool, in_step: Alone) -> dict[int, list[int]]:
        model = tiny.make_model(tokenizer, "lfm2", width=32, layers=2, heads=2)
        torch.nn.init.normal_(model.get_input_embeddings().weight, std=0.5)
        for part in (*model.model.layers, model) if shard else ():
            fully_shard(part)
        engine = TransformersEngine(model, tokenizer, capacity=8, in_step=in_step)
        done: dict[int, list[int]] = {}
        for key in range(1 + 2 * dist.get_rank()):
            engine.add(key, [9 + key, 11, 12], Sampling(max_new_tokens=5 + key), key)
        while engine.rows:
            for turn in engine.step():
                done[turn.key] = turn.ids
                engine.release(turn.key)
        engine.finish()
        model(input_ids=torch.tensor([[5, 6, 7]])).logits.sum().backward()  # the weights can be trained afterwards
        return done

    whole = decode(False, Alone())
    assert decode(True, InStep()) == whole
    return {"steps": 0, "checked": len(whole)}


def zero3(case: str, folder: Path) -> dict[str, float]:
    """Train under ZeRO-3, with weights gathered for generation or not; turns are longer on the second process."""
    os.environ.pop("ACCELERATE_USE_CPU")  # with it accelerate leaves DeepSpeed out
    os.environ |= {"ACCELERATE_USE_DEEPSPEED": "true", "DS_ACCELERATOR": "cpu"}
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    batch = dict.fromkeys(("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"), "auto")
    stage = {"stage": 3, "stage3_param_persistence_threshold": 0}  # no weight is small enough to stay whole
    trainer = grpo_trainer.EpisodeGRPOTrainer(
        model=tiny.make_model(tokenizer, "qwen2", width=32, layers=2, heads=2),
        reward_funcs=lambda completion_ids, **kwargs: [float(sum(ids) % 7) for ids in completion_ids],
        args=GRPOConfig(
            str(folder / "out"),
            deepspeed={"zero_optimization": stage, "zero_force_ds_cpu_optimizer": False, **batch},
            ds3_gather_for_generation=case == "zero3-gathered",
            max_steps=2,
            per_device_train_batch_size=4,
            num_generations=2,
            max_completion_length=200,
            optim="sgd",
            learning_rate=0.5,
            **QUIET,
        ),
        train_dataset=sft_data.prompts(QUESTIONS, Prompt("compact")),
        processing_class=tokenizer,
        environment_factory=adapter_factory(env_factory(EnvConfig(kg=str(folder / "kg"), prompt="compact"))),
        rollout=RolloutConfig(3, 4 + 4 * int(os.environ["RANK"]), 150),
    )
    assert trainer._dist.is_zero3 and isinstance(trainer.in_step, InStep) == (case == "zero3")
    trainer.train()
    import deepspeed

    with deepspeed.zero.GatheredParameters(list(trainer.model.parameters())):
        return {"weights": sum(p.double().abs().sum().item() for p in trainer.model.parameters())}


CASES = {"sharded": sharded, "zero3": zero3, "zero3-gathered": zero3}


def rank(case: str, folder: Path, processes: int, number: int, port: int) -> None:
    place = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes}
    place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "ACCELERATE_USE_CPU": "true"}
    os.environ.update({key: str(value) for key, value in place.items()})
    torch.set_num_threads(1)
    result = CASES.get(case, train)(case, folder)
    out = folder / f"{case}-{processes}-{number}.result"
    out.write_text(json.dumps({"case": case, "processes": processes, "rank": number, **result}))
    sys.stdout.flush()
    os._exit(0)  # without waiting for the other processes


def serve(fork: Any, folder: Path) -> None:
    """Start a scripted vLLM server, which ends with this process; its answers take unequally long."""
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    server = Scripted(tokenizer, max_length=10_000)
    server.say = lambda prompt: encode(tokenizer, reply(tokenizer.decode(prompt)))
    server.delay = lambda: random.random() * 0.01
    os.environ["SERVER"] = server.url
    fork.Process(target=server.serve, daemon=True).start()


def run(case: str, folder: Path, processes: int) -> bool:
    """Whether all processes ended well; the first that does not ends the others."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    fork = multiprocessing.get_context("fork")
    if case == "server":
        serve(fork, folder)
    started = [fork.Process(target=rank, args=(case, folder, processes, n, port)) for n in range(processes)]
    for process in started:
        process.start()
    running, end = list(started), time.monotonic() + 5 * LIMIT
    while running and all(p.exitcode in (None, 0) for p in started) and time.monotonic() < end:
        wait([p.sentinel for p in running], timeout=1)
        running = [p for p in running if p.exitcode is None]
    for process in running:
        process.kill()
    return all(p.exitcode == 0 for p in started)


if __name__ == "__main__":
    cases, folder, *counts = sys.argv[1:]
    if "zero3" in cases:  # built before the clock runs: a build that is killed leaves a lock behind
        from deepspeed.comm.torch import build_shm_op

        build_shm_op()
    sys.exit(not all(run(case, Path(folder), int(count)) for case in cases.split(",") for count in counts))
