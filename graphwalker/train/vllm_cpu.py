"""TRL's colocated vLLM on a CPU, where two things of it do not work.

TRL copies the weights into the running model, and vLLM's CPU backend has packed its own by then (the copy fails with
``'Parameter' object has no attribute 'weight_loader'``). And TRL lets vLLM choose the type, which makes bfloat16 of
float32: not what is trained, and many times slower on most CPUs.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from trl import GRPOConfig
from trl.generation.vllm_generation import VLLMGeneration
from trl.trainer.utils import ensure_master_addr_port

from graphwalker.inference.vllm_engine import make_llm


class CPUGeneration(VLLMGeneration):
    """``VLLMGeneration`` in colocate mode, with weights that arrive as a checkpoint would, in the model's own type."""

    def _init_vllm(self) -> None:
        process = self.accelerator
        os.environ["RANK"], os.environ["LOCAL_RANK"] = str(process.process_index), str(process.local_process_index)
        os.environ["WORLD_SIZE"] = str(process.num_processes)
        ensure_master_addr_port()
        self.llm = make_llm(
            model=self.model.name_or_path,
            dtype=str(self.model.dtype).removeprefix("torch."),
            max_model_len=self.max_model_length,
            max_num_seqs=self.max_num_seqs,
            gpu_memory_utilization=self.gpu_memory_utilization,  # of the machine's memory
            enforce_eager=True,  # compiling takes minutes, and runs on a CPU are small
            distributed_executor_backend="external_launcher",  # in this process, one for each of the trainer's
            logprobs_mode="processed_logprobs",
        )
        process.wait_for_everyone()

    def sync_weights(self) -> None:
        """Reload the model from the trainer's weights, the way vLLM reloads a checkpoint: it packs them anew."""
        self.llm.collective_rpc("reload_weights", kwargs={"weights_iterator": self._checkpoint()})
        self.llm.reset_prefix_cache()

    def _checkpoint(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The weights by name, as copies: one that was gathered or merged is so only for a moment.

        A head that is tied to the embeddings is packed by itself, and the walk over the weights leaves it out.
        """
        model = self.accelerator.unwrap_model(self.model)
        model = model.get_base_model() if hasattr(model, "get_base_model") else model
        tied = {source: name for name, source in model.all_tied_weights_keys.items()}
        for name, weight in self._iter_named_params():
            yield name, weight.clone()
            if name in tied:
                yield tied[name], weight.clone()


@contextmanager
def left_out(args: GRPOConfig | None) -> Iterator[bool]:
    """Whether a trainer is to use vLLM on a CPU; then it is made here as if it were not, and `attach` follows."""
    if args is None or not args.use_vllm or args.device.type != "cpu":
        yield False
        return
    args.use_vllm = False
    try:
        yield True
    finally:
        args.use_vllm = True


def attach(trainer: Any) -> None:
    """Give vLLM to a ``GRPOTrainer`` that was made without it."""
    args = trainer.args
    trainer.vllm_generation = CPUGeneration(
        model=trainer.model,
        accelerator=trainer.accelerator,
        processing_class=trainer.processing_class,
        structured_outputs_regex=args.vllm_structured_outputs_regex,
        gpu_memory_utilization=args.vllm_gpu_memory_utilization,
        max_model_length=args.vllm_max_model_length,
        max_num_seqs=args.per_device_train_batch_size * args.steps_per_generation,
        repetition_penalty=args.repetition_penalty,
        temperature=args.temperature,
        top_p=args.top_p,
        top_k=args.top_k,
        min_p=args.min_p,
        max_completion_length=args.max_completion_length,
        generation_kwargs=args.generation_kwargs,
    )
    trainer.use_vllm = True
    trainer._last_loaded_step = -1
