"""Whether a model's states fit before they are loaded: DeepSpeed's own estimate against what the machines have.

Counts weights, gradients and optimizer states (and GRPO's reference model). Activations and what decoding keeps come
on top, so what is refused here cannot fit; what passes may still run out on long episodes.

Letters: N parameters, T of them trained, F = N - T frozen; G processes in all.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import psutil
import torch
from peft import get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM
from trl import ModelConfig, get_peft_config

from graphwalker.errors import UserError
from graphwalker.inference.load import adapter_base, is_adapter
from graphwalker.train.models import whole_weights

TINY = 100_000_000  # parameters; below, nothing is worth a check
GIB = 2**30
MOST_DEVICES = 1024


@dataclass(frozen=True, slots=True)
class Size:
    """What a model weighs, in parameters, and bytes of a frozen one."""

    total: int
    trained: int
    largest_layer: int
    frozen_bytes: float = 2.0
    reference: bool = False  # GRPO keeps a second, frozen copy


@dataclass(frozen=True, slots=True)
class Setting:
    """How DeepSpeed spreads it. ``stage`` is 2 or 3."""

    stage: int
    per_node: int
    nodes: int
    offload_optimizer: bool = False
    offload_parameters: bool = False

    def __str__(self) -> str:
        moved = [
            what for what, on in (("optimizer", self.offload_optimizer), ("parameters", self.offload_parameters)) if on
        ]
        return f"ZeRO-{self.stage}, {self.per_node * self.nodes} processes" + (
            f", {' and '.join(moved)} in host memory" if moved else ""
        )


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes free: on one device, and in one machine's host memory. On CPUs the processes share the host's."""

    device: int
    host: int
    shared: bool = False


def check_memory(training: Any, path: str, arguments: ModelConfig) -> None:
    """Print DeepSpeed's estimate for this start, and raise ``UserError`` with a suggestion where it cannot fit.

    Nothing is done without DeepSpeed, below ZeRO-2, and for tiny models.
    """
    plugin = training.deepspeed_plugin
    if plugin is None or plugin.zero_stage < 2:
        return
    size = model_size(path, arguments, reference=bool(getattr(training, "beta", 0)))
    if size.total < TINY:
        return
    per_node = int(os.environ.get("LOCAL_WORLD_SIZE", training.world_size))
    setting = Setting(
        stage=plugin.zero_stage,
        per_node=per_node,
        nodes=max(1, training.world_size // per_node),
        offload_optimizer=plugin.offload_optimizer_device not in (None, "none"),
        offload_parameters=plugin.offload_param_device not in (None, "none"),
    )
    room = free_memory()
    if training.process_index == 0:
        print(f"Memory for weights, gradients and optimizer: {_needs(size, setting, room)} ({setting})", flush=True)
    refuse(path, size, setting, room)


def refuse(path: str, size: Size, setting: Setting, room: Room) -> None:
    """Raise ``UserError`` where a setting does not fit, naming the first change that does."""
    if fits(size, setting, room):
        return
    change = next((text for text, other in _changes(setting) if fits(size, other, room)), None)
    if change is None and size.trained == size.total:
        change = "train LoRA adapters instead of all weights: use_peft: true"
    raise UserError(
        f"{path} does not fit: {_needs(size, setting, room)} ({setting}); "
        f"{change or 'take a smaller model'}. check_memory: false starts it anyway"
    )


def estimate(size: Size, setting: Setting) -> tuple[int, int]:
    """Bytes needed on each device, and in each machine's host memory, by DeepSpeed's formulas."""
    from deepspeed.runtime.zero import stage3, stage_1_and_2  # heavy, and often not installed

    processes = setting.per_node * setting.nodes
    where = {"num_gpus_per_node": setting.per_node, "num_nodes": setting.nodes}
    if setting.stage == 3:
        host, device, _ = stage3.estimate_zero3_model_states_mem_needs(
            size.trained,
            size.largest_layer,
            **where,
            cpu_offload=setting.offload_optimizer or setting.offload_parameters,
            cpu_offload_params=setting.offload_parameters,
            zero_init=True,
        )
    else:
        host, device = stage_1_and_2.estimate_zero2_model_states_mem_needs(
            size.trained, **where, cpu_offload=setting.offload_optimizer
        )
    # quantised weights are not split
    share = processes if setting.stage == 3 and size.frozen_bytes >= 2 else 1
    frozen = (size.total - size.trained) * size.frozen_bytes + (2 * size.total if size.reference else 0)
    if setting.offload_parameters:
        return device, int(host + frozen * setting.per_node / share)
    return int(device + frozen / share), host


def fits(size: Size, setting: Setting, room: Room) -> bool:
    """Whether the estimate is within what is free."""
    device, host = estimate(size, setting)
    if room.shared:
        return device * setting.per_node + host <= room.host
    return device <= room.device and host <= room.host


def model_size(path: str, arguments: ModelConfig, *, reference: bool = False) -> Size:
    """A model's size from its config alone; no weights are read."""
    base = adapter_base(path) if is_adapter(path) else path
    config = get_peft_config(arguments)
    with whole_weights(), torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(base))
        total = sum(p.numel() for p in model.parameters())
        largest = max(sum(p.numel() for p in module.parameters(recurse=False)) for module in model.modules())
        if config is None:
            return Size(total, total, largest, reference=reference)
        model = get_peft_model(model, config)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    quantised = 0.6 if arguments.load_in_4bit else 1.1 if arguments.load_in_8bit else 2.0
    # with adapters the reference is the model without them: no copy
    return Size(total + trained, trained, largest, frozen_bytes=quantised)


def free_memory() -> Room:
    """What is free on this process's device and in its host."""
    host = psutil.virtual_memory().available
    if not torch.cuda.is_available():
        return Room(host, host, shared=True)
    return Room(torch.cuda.mem_get_info()[0], host)


def _changes(setting: Setting) -> Iterator[tuple[str, Setting]]:
    """Other settings, the least change first."""
    split = replace(setting, stage=3)
    if setting.stage == 2:
        yield "split the weights too: launch/accelerate/zero3.yaml", split
    moved = replace(split, offload_optimizer=True)
    yield "keep the optimizer in host memory: launch/accelerate/zero3_offload.yaml", moved
    yield (
        "keep optimizer and parameters in host memory: launch/accelerate/zero3_offload.yaml with "
        "offload_param_device: cpu",
        replace(moved, offload_parameters=True),
    )
    nodes = 2 * setting.nodes
    while nodes * setting.per_node <= MOST_DEVICES:
        text = f"take {nodes} such machines: launch/accelerate/zero3_multi_node.yaml"
        yield text, replace(split, nodes=nodes, offload_optimizer=False, offload_parameters=False)
        nodes *= 2


def _needs(size: Size, setting: Setting, room: Room) -> str:
    device, host = estimate(size, setting)
    if room.shared:
        return f"{(device * setting.per_node + host) / GIB:.1f} GiB of {room.host / GIB:.1f} free"
    return (
        f"{device / GIB:.1f} GiB of {room.device / GIB:.1f} free on each GPU, "
        f"{host / GIB:.1f} GiB of {room.host / GIB:.1f} free in host memory"
    )
