"""What a build works with."""

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from tqdm import tqdm

from graphwalker.kg.sorting import RowSorter, TextSorter
from graphwalker.kg.spill import RowFile, TextFile


class Workspace:
    """Where a build spills, how many bytes it may hold, and whether it shows progress."""

    def __init__(self, folder: Path, memory: int, progress: bool = False):
        self.folder, self.memory, self.progress = folder, memory, progress

    def open(self, name: str) -> BinaryIO:
        return open(self.folder / name, "w+b")

    def bar(self, doing: str, total: int, unit: str) -> tqdm:
        """A progress bar with rate and time left."""
        return tqdm(
            total=total, desc=doing, unit=f" {unit}", unit_scale=True, disable=not self.progress, mininterval=0.5
        )

    def rows(self, name: str, width: int) -> RowFile:
        return RowFile(self.open(name), width)

    def row_sorter(self, name: str, width: int) -> RowSorter:
        return RowSorter(self.open(name), width, self.memory // 16)

    def texts(self, name: str, schema: pa.Schema) -> TextFile:
        return TextFile(self.open(name), schema)

    def text_sorter(self, name: str, schema: pa.Schema, keys: Sequence[str]) -> TextSorter:
        return TextSorter(self.open(name), schema, keys, self.memory // 8)
