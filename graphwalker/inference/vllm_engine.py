"""The engine on vLLM in this process: its own scheduler fills the batch, its prefix cache keeps an episode's past."""

import atexit
import sys
import weakref
from collections.abc import Hashable, Sequence
from itertools import count
from typing import Any

import torch
from transformers import AutoConfig

from graphwalker.inference.engine import Completion, Sampling
from graphwalker.inference.vllm_requests import Row, check_servable

_request = count()  # engines may share one vLLM
# numba's, which bm25s loads where it can: an object in it whose attributes are not a dictionary
_STUMBLED_OVER = "llvmlite.binding.ffi"


def make_llm(**options: Any) -> Any:
    """A ``vllm.LLM``, wherever it runs: on a CPU vLLM 0.31 looks into all loaded modules, and fails on one of them.

    The processes that it spawns would import the running program again, and that module with it; so they see none. Nor
    can it leave a prompt half read there when the request has a seed.
    """
    from vllm import LLM  # heavy, and often not installed

    if not torch.accelerator.is_available():
        options = {"enable_chunked_prefill": False, **options}
    hidden = {name: sys.modules.pop(name) for name in (_STUMBLED_OVER,) if name in sys.modules}
    main = vars(sys.modules["__main__"])
    program: dict[str, Any] = {name: main.pop(name) for name in ("__file__", "__spec__") if name in main}
    main["__spec__"] = None
    try:
        return LLM(**options)
    finally:
        main.update(program)
        sys.modules.update(hidden)


def load_llm(
    path: str,
    tokens: int,
    *,
    capacity: int = 64,
    max_length: int = 4096,
    dtype: str = "auto",
    memory: float | None = None,
) -> Any:
    """A ``vllm.LLM`` of the model in ``path``, whose tokenizer has so many ``tokens``.

    ``dtype`` as `graphwalker.inference.load.load_model` has it; ``memory`` is the share of the device's that it may
    take. Raises ``UserError`` for a model that vLLM would serve wrongly.
    """
    config = AutoConfig.from_pretrained(path)
    check_servable(path, config, tokens)
    on_cpu = not torch.accelerator.is_available()
    if dtype == "auto":
        dtype = "float32" if on_cpu else "bfloat16"
    llm = make_llm(
        model=path,
        tokenizer=path,
        dtype=dtype,
        max_model_len=min(max_length, config.get_text_config().max_position_embeddings),
        max_num_seqs=capacity,
        # on a CPU this is a share of the machine's memory, which others use too
        gpu_memory_utilization=memory or (0.4 if on_cpu else 0.9),
        enforce_eager=on_cpu,  # compiling takes minutes there, and runs on a CPU are small
        logprobs_mode="processed_logprobs",
    )
    atexit.register(_end, weakref.ref(llm))
    return llm


def _end(llm: "weakref.ref[Any]") -> None:
    """End vLLM's processes where nothing has yet: Python's own exit waits for them before it would tell them."""
    alive = llm()
    if alive is not None:
        alive.llm_engine.engine_core.shutdown()


class VLLMEngine:
    """Decodes with a ``vllm.LLM``: one that `load` makes, or TRL's, colocated with the trainer.

    ``guided`` holds every turn to the protocol's form. Log-probabilities are of the distribution that was sampled from
    where the ``LLM`` was made with ``logprobs_mode="processed_logprobs"``: with ``top_p`` or ``top_k``, or guided, it
    is the restricted one.
    """

    def __init__(self, llm: Any, tokenizer: Any, *, capacity: int = 64, max_length: int = 4096, guided: bool = False):
        self.tokenizer, self.capacity, self.guided = tokenizer, capacity, guided
        self.llm, self.engine = llm, llm.llm_engine
        self.max_length = min(max_length, self.engine.model_config.max_model_len)
        self.rows: dict[Hashable, Row] = {}
        self.key_of: dict[str, Hashable] = {}  # request id -> row
        self._ready: list[Completion] = []  # of rows that ended while `outputs` waited for others

    @classmethod
    def load(
        cls, path: str, tokenizer: Any, *, capacity: int = 64, max_length: int = 4096, dtype: str = "auto", guided=False
    ) -> "VLLMEngine":
        """Load the model in ``path``; ``dtype`` as `graphwalker.inference.load.load_model` has it.

        Raises ``UserError`` for a model that vLLM would serve wrongly.
        """
        llm = load_llm(path, len(tokenizer), capacity=capacity, max_length=max_length, dtype=dtype)
        return cls(llm, tokenizer, capacity=capacity, max_length=max_length, guided=guided)

    def add(self, key: Hashable, ids: Sequence[int], sampling: Sampling, seed: int) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        row = self.rows.setdefault(key, Row([], seed))
        asked = row.ask(ids, sampling, end=self.tokenizer.eos_token_id, max_length=self.max_length, guided=self.guided)
        if self.guided:
            asked["structured_outputs"] = StructuredOutputsParams(**asked["structured_outputs"])
        row.request = str(next(_request))
        self.key_of[row.request] = key
        params = SamplingParams(**asked, detokenize=False)
        self.engine.add_request(row.request, {"prompt_token_ids": list(row.ids)}, params)

    def step(self) -> list[Completion]:
        if self._ready:
            ready, self._ready = self._ready, []
            return ready
        return [self._completion(output) for output in self.engine.step() if output.finished]

    def outputs(self, prompts: Sequence[Sequence[int]], params: Sequence[Any]) -> list[Any]:
        """vLLM's outputs of requests that are no rows. Rows go on meanwhile, which ``LLM.generate`` would take away."""
        requests = [str(next(_request)) for _ in prompts]
        found: dict[str, Any] = {}
        try:
            for request, ids, param in zip(requests, prompts, params, strict=True):
                self.engine.add_request(request, {"prompt_token_ids": list(ids)}, param)
            while len(found) < len(requests):
                for output in self.engine.step():
                    if output.finished and output.request_id in self.key_of:
                        self._ready.append(self._completion(output))
                    elif output.finished:
                        found[output.request_id] = output
        finally:
            self.engine.abort_request([request for request in requests if request not in found])
        return [found[request] for request in requests]

    def _completion(self, output: Any) -> Completion:
        key = self.key_of.pop(output.request_id)
        made = output.outputs[0]
        ids = list(made.token_ids)
        self.rows[key].ids += ids
        logprobs = [entry[token].logprob for token, entry in zip(ids, made.logprobs, strict=True)]
        return Completion(key, ids, logprobs, self.rows[key].stopped(ids))

    def release(self, key: Hashable) -> None:
        row = self.rows.pop(key)
        self._ready = [done for done in self._ready if done.key != key]
        if row.request in self.key_of:
            self.engine.abort_request([row.request])
            self.key_of.pop(row.request)

    def finish(self) -> None:
        """The other processes' rows are none of this engine's affair; engines that keep in step have work here."""
