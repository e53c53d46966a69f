"""The engine on vLLM, offline: its own scheduler fills the batch, its prefix cache keeps an episode's past.

Each turn is a request whose prompt is the episode's token ids so far, so the ids that come back continue
exactly what was generated before (token in, token out).
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import torch

from graphwalker.inference.engine import Completion, Sampling


@dataclass(slots=True)
class _Row:
    ids: list[int]
    seed: int
    turns: int = 0
    request: str | None = field(default=None)


class VLLMEngine:
    """Decodes with ``vllm.LLM`` in this process; ``dtype`` as vLLM names it."""

    def __init__(self, path: str, tokenizer, *, capacity: int = 64, max_length: int = 4096, dtype: str = "auto"):
        from vllm import LLM  # heavy, and often not installed

        self.tokenizer, self.capacity, self.max_length = tokenizer, capacity, max_length
        self.engine = LLM(
            model=path,
            tokenizer=path,
            dtype=dtype,
            max_model_len=max_length,
            max_num_seqs=capacity,
            # on a CPU this is a share of the machine's memory, which others use too
            gpu_memory_utilization=0.9 if torch.accelerator.is_available() else 0.4,
        ).llm_engine
        self.rows: dict[Hashable, _Row] = {}
        self.key_of: dict[str, Hashable] = {}  # request id -> row
        self.started = 0

    def add(self, key: Hashable, ids: Sequence[int], sampling: Sampling, seed: int) -> None:
        from vllm import SamplingParams

        row = self.rows.setdefault(key, _Row([], seed))
        row.ids += ids
        row.request = str(self.started)
        self.started += 1
        self.key_of[row.request] = key
        params = SamplingParams(
            temperature=0 if sampling.greedy else sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k if sampling.top_k > 0 else -1,
            max_tokens=min(sampling.max_new_tokens, self.max_length - len(row.ids)),
            seed=(row.seed + row.turns) % 2**63,
            logprobs=0,
            stop_token_ids=[self.tokenizer.eos_token_id],
            skip_special_tokens=False,
            detokenize=False,
        )
        row.turns += 1
        self.engine.add_request(row.request, {"prompt_token_ids": list(row.ids)}, params)

    def step(self) -> list[Completion]:
        finished = []
        for output in self.engine.step():
            if not output.finished:
                continue
            key = self.key_of.pop(output.request_id)
            made = output.outputs[0]
            ids = list(made.token_ids)
            self.rows[key].ids += ids
            logprobs = [entry[token].logprob for token, entry in zip(ids, made.logprobs, strict=True)]
            finished.append(Completion(key, ids, logprobs, bool(ids) and ids[-1] == self.tokenizer.eos_token_id))
        return finished

    def release(self, key: Hashable) -> None:
        row = self.rows.pop(key)
        if row.request in self.key_of:
            self.engine.abort_request([row.request])
            self.key_of.pop(row.request)
