"""Processes that decode in step, for models that work only when all processes take part.

Where a pass of the model gathers weights from every process (ZeRO-3 and FSDP2, sharded while they generate), a pass
that one process makes and another does not ends in a hang. Episodes end at different turns, so the processes agree
before each pass, by one small all-reduce, how much work the busiest has; those without work take part with a dummy
until none has.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist


class Alone:
    """One process, or passes that hold no collective: nothing to agree on, and no cost."""

    def agree(self, work: int) -> int:
        return work

    def finish(self, idle: Callable[[int], object]) -> None:
        """Nobody else is at work."""


class InStep(Alone):
    """The processes of a ``torch.distributed`` group (default: all), each of which makes every pass that one makes."""

    def __init__(self, device: torch.device | str = "cpu", group: dist.ProcessGroup | None = None):
        self.device, self.group = device, group

    def agree(self, work: int) -> int:
        """The most work that any process has for the next pass, 0 when all are done; the same on every process."""
        most = torch.tensor(work, device=self.device)
        dist.all_reduce(most, dist.ReduceOp.MAX, group=self.group)
        return int(most)

    def finish(self, idle: Callable[[int], object]) -> None:
        """Call ``idle`` with the most work of any process, for each pass of the others, until none has any."""
        while most := self.agree(0):
            idle(most)
