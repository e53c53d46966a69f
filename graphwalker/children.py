"""Programs that are started here, and end with the one that started them."""

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psutil

_PATIENCE = 30.0  # seconds to put a checkpoint away in


def call(command: Sequence[str], **options: Any) -> int:
    """Run a program to its end; its exit status. ``options`` are those of ``subprocess.Popen``.

    Where this program is told to end meanwhile, the child is too, with all that it started: a launcher by itself leaves
    the training that it launched behind.
    """
    with subprocess.Popen(command, **options) as process:
        try:
            return process.wait()
        except BaseException:
            _end(process.pid)
            raise


def _end(pid: int) -> None:
    try:
        first = psutil.Process(pid)
        family = [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for process in reversed(family):
        _tell(process, psutil.Process.terminate)
    for process in psutil.wait_procs(family, timeout=_PATIENCE)[1]:
        _tell(process, psutil.Process.kill)


def _tell(process: psutil.Process, what: Any) -> None:
    with suppress(psutil.NoSuchProcess):
        what(process)
