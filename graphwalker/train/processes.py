"""The processes that train a stage: started here by ``accelerate launch``, or one by each of those that it started.

``accelerate launch recipes/curriculum.py`` starts the curriculum once for every GPU of every machine. The first process
then leads: it prepares, evaluates and reports. The others wait, and each starts its own part of every stage in the
environment that it was given, so that a stage is launched just as the recipe by itself would be.
"""

import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist

from graphwalker.children import call
from graphwalker.errors import UserError

PATIENCE = timedelta(days=30)  # an evaluation between two stages may take its time


class Processes:
    """What trains a stage; ``launch_args`` are for ``accelerate launch`` where that was not what started this one."""

    def __init__(self, launch_args: Sequence[str] = ()):
        self.launch_args = list(launch_args)
        self.launched = "ACCELERATE_MIXED_PRECISION" in os.environ  # set by `accelerate launch`, whatever it launches
        self.count = int(os.environ.get("WORLD_SIZE", "1")) if self.launched else 1
        if self.launched and self.launch_args:
            raise UserError(
                "launch: this is a process of `accelerate launch` already; leave the key out, or start with python"
            )

    @property
    def first(self) -> bool:
        return self.count == 1 or os.environ["RANK"] == "0"

    def made_of(self) -> Any:
        """What of the way a stage is launched its outcome may depend on."""
        if not self.launched:
            return self.launch_args
        words = {key: value for key, value in os.environ.items() if key.startswith(("ACCELERATE_", "FSDP_"))}
        return {**words, "processes": self.count}

    def run(self, script: Path, config: Path, locks: Sequence[int], env: Mapping[str, str] | None) -> int:
        """Train a stage; the worst exit status of its processes."""
        if not self.launched:
            launcher = [sys.executable, "-m", "accelerate.commands.launch", "--quiet", *self.launch_args]
            return call([*launcher, str(script), "--config", str(config)], pass_fds=locks, env=env)
        job = (str(script), str(config), _free_port() if self.count > 1 else 0)
        return self._part(job, locks, env)

    def lead(self, main: Callable[[], None]) -> None:
        """Call ``main`` in the first process; the others take their parts in the stages that it trains, then end."""
        if self.count == 1:
            return main()
        dist.init_process_group("gloo", timeout=PATIENCE)
        if not self.first:
            while (job := _broadcast(None)) is not None:
                self._part(job, (), None)
        else:
            try:
                main()
            finally:
                _broadcast(None)
        dist.destroy_process_group()

    def _part(self, job: tuple[str, str, int], locks: Sequence[int], env: Mapping[str, str] | None) -> int:
        script, config, port = job
        env = dict(os.environ if env is None else env)
        if self.count > 1:
            if self.first:
                _broadcast(job)
            # a port of its own: the keys of the last stage's group are still in the launcher's store
            env |= {"MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "False"}
        status = call([sys.executable, script, "--config", config], pass_fds=locks, env=env)
        statuses: list[int] = [status] * self.count
        if self.count > 1:
            dist.all_gather_object(statuses, status)
        return max(statuses, key=abs)


def _broadcast(job: Any) -> Any:
    jobs = [job]
    dist.broadcast_object_list(jobs, src=0)
    return jobs[0]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("", 0))
        return free.getsockname()[1]
