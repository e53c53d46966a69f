"""What `graphwalker doctor` says of the machine: package versions that fit together, GPU, memory, disk."""

import importlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from graphwalker.extensions import advice, locked_builds
from graphwalker.versions import ADVICE, NEEDED, OPTIONAL, OWN, installed_versions, misfits, requirements

BESIDE_TORCH = ("torchvision", "torchaudio", "torchcodec")
"""Builds that do not match torch's fail to load, and then transformers and TRL do."""
LOW_DISK_GB, NO_DISK_GB = 10, 1
LOW_MEMORY_GB = 8


class Finding(NamedTuple):
    """One line of the report."""

    level: Literal["ok", "warning", "error"]
    text: str
    advice: str = ""


def check_machine() -> Iterator[Finding]:
    """Everything but the knowledge graph."""
    yield check_python(sys.version_info[:3])
    installed = installed_versions((*NEEDED, *OPTIONAL))
    own = installed_versions((OWN,))
    if not own:
        yield Finding("warning", f"{OWN} is not installed: its demands are not compared", "`pip install -e .`")
    yield from check_versions(installed, requirements(installed))
    yield from _companions()
    yield from _gpu()
    for lock in locked_builds():
        yield Finding("warning", f"a C++ extension of torch is locked: {lock.parent.name}", advice(lock))
    yield from check_room(Path.cwd(), shutil.disk_usage(Path.cwd()).free, _memory())


def check_python(version: tuple[int, ...]) -> Finding:
    text = f"Python {'.'.join(map(str, version))}, {os.cpu_count()} CPU cores"
    if version < (3, 11):
        return Finding("error", text, "Python 3.11 or newer is needed: `make venv PYTHON=python3.11`")
    return Finding("ok", text)


def check_versions(installed: Mapping[str, str], requires: Mapping[str, list[str]]) -> Iterator[Finding]:
    """Each package of note, whether it fits; `requires` holds what each distribution demands."""
    for name in NEEDED:
        if name not in installed:
            yield Finding("error", f"{name} is not installed", "install this project again: `pip install -e .`")
    found = {misfit.name: misfit.text for misfit in misfits(installed, requires)}
    for name, version in installed.items():
        yield Finding("error", found[name], ADVICE) if name in found else Finding("ok", f"{name} {version}")
    for name, gives in {"vllm": "fast rollouts", "deepspeed": "ZeRO over several GPUs"}.items():
        if not any(other == name or other.startswith(f"{name}-") for other in installed):
            yield Finding("ok", f"{name} is not installed (optional: {gives}; `pip install -e '.[{name}]'`)")


def _companions() -> Iterator[Finding]:
    """Packages that come with torch by accident and break what imports them."""
    for name in installed_versions(BESIDE_TORCH):
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 (whatever it raises, it does not load)
            yield Finding(
                "error",
                f"{name} does not load beside this torch ({type(error).__name__}: {str(error).splitlines()[0][:80]})",
                f"`pip uninstall {name}`: nothing here needs it, and transformers and TRL fail with it",
            )


def _gpu() -> Iterator[Finding]:
    try:
        import torch

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        build = torch.version.cuda
    except Exception as error:  # noqa: BLE001 (a broken torch must not end the report)
        text = str(error) or type(error).__name__
        yield Finding(
            "error", f"torch does not load: {text.splitlines()[0][:100]}", "install it again: docs/install.md"
        )
        return
    for number in range(count):
        gpu = torch.cuda.get_device_properties(number)
        text = f"GPU {number}: {gpu.name}, {gpu.total_memory / 2**30:.0f} GiB"
        if gpu.major < 8:
            yield Finding("warning", f"{text}, without bfloat16", "train in float16 or float32 on it")
        else:
            yield Finding("ok", text)
    if count == 0:
        yield check_no_gpu(shutil.which("nvidia-smi") is not None, build)


def check_no_gpu(driver: bool, build: str | None) -> Finding:
    """What no usable GPU means: `driver` says whether NVIDIA's is here, `build` is torch's CUDA version, if any."""
    if driver and build is None:
        return Finding("error", "a GPU driver is here, but torch is built for CPUs", "install a CUDA build of torch")
    if driver:
        advice = "compare the driver's version in `nvidia-smi` with the CUDA version, and check CUDA_VISIBLE_DEVICES"
        return Finding("error", f"a GPU driver is here, but torch (CUDA {build}) sees no GPU", advice)
    return Finding("warning", "no GPU", "tiny models train on a CPU (`make demo`); those of the paper need a GPU")


def check_room(folder: Path, free: int, memory: int | None) -> Iterator[Finding]:
    """Disk and memory, in bytes."""
    gb = free / 1e9
    text = f"disk: {gb:,.0f} GB free under {folder}"
    if gb < NO_DISK_GB:
        yield Finding("error", text, "make room: a run writes checkpoints, and a half-written one is lost")
    elif gb < LOW_DISK_GB:
        yield Finding("warning", text, "checkpoints of a 7-billion-parameter model take 15 GB and more each")
    else:
        yield Finding("ok", text)
    if memory is not None:
        text = f"memory: {memory / 1e9:,.0f} GB"
        low = memory / 1e9 < LOW_MEMORY_GB
        yield Finding("warning", text, "use the tiny model, and stores on disk") if low else Finding("ok", text)


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
