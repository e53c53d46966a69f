"""A tiny model on disk, and a real `vllm serve` of it on loopback."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from graphwalker.inference.vllm_http import VLLMServer, serve_command
from graphwalker.train import tiny


def write_model(tokenizer, out: Path, seed: int | None = None) -> None:
    """A random Qwen2 whose text depends on what it read; another one for each ``seed``."""
    model = tiny.make_model(tokenizer, "qwen2", width=64, layers=2, heads=2)
    if seed is not None:
        torch.manual_seed(seed)
    for name, weights in model.named_parameters():
        if weights.ndim > 1:
            torch.nn.init.normal_(weights, std=0.05 if "embed" in name else 0.3)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


@contextmanager
def serving(folder: Path, log: Path) -> Iterator[VLLMServer]:
    """The server of a model that holds 512 tokens, up; what it prints goes into ``log``."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    command = serve_command(str(folder), url, 512).split() + ["--host", "127.0.0.1"]
    options = ["--enforce-eager", "--dtype", "float32", "--gpu-memory-utilization", "0.05"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        patch.setenv("PATH", os.path.dirname(sys.executable), prepend=os.pathsep)
        with log.open("w") as out, subprocess.Popen([*command, *options], stdout=out, stderr=out) as run:
            try:
                server = VLLMServer(url, " ".join(command), wait=600)
                yield server
                server.close()
            finally:
                run.terminate()
