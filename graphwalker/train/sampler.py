"""The order of GRPO's questions."""

from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import Sampler


class ShuffledByEpoch(Sampler):
    """TRL's sampler, shuffled by the number of the epoch and not by what was shuffled before.

    So a run that is resumed in a later epoch meets its questions in the order that it would have had.
    """

    def __init__(self, sampler: Any, epoch: Callable[[], int]):
        self.sampler, self.epoch = sampler, epoch

    def __iter__(self) -> Iterator[int]:
        if self.sampler.shuffle:
            self.sampler.generator.manual_seed(self.sampler.seed + self.epoch())
        return iter(self.sampler)

    def __len__(self) -> int:
        return len(self.sampler)
