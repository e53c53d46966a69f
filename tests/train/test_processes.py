"""A curriculum started once for every process: the first leads, each takes its part in every stage."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphwalker.errors import UserError
from graphwalker.train.processes import Processes

ROOT = Path(__file__).resolve().parents[2]
LEADER = """
from pathlib import Path
from graphwalker.train.processes import Processes
processes = Processes()
def main():
    for config in ("one", "bad"):
        print(config, processes.run(Path("stage.py"), Path(config), [], None), flush=True)
    print("made of", processes.made_of()["processes"], flush=True)
    raise SystemExit(3)
processes.lead(main)
"""
STAGE = """
import os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
rank = dist.get_rank()
with open(f"{sys.argv[2]}-{rank}", "w") as handle: handle.write(str(int(total)))
dist.destroy_process_group()
sys.exit(7 if sys.argv[2] == "bad" and rank == 1 else 0)
"""


@pytest.mark.slow
def test_two_processes(tmp_path):
    (tmp_path / "leader.py").write_text(LEADER)
    (tmp_path / "stage.py").write_text(STAGE)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "ACCELERATE_MIXED_PRECISION": "no"}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "leader.py"]
    done = subprocess.run(launcher, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["one 0", "bad 7", "made of 2"], done.stderr
    made = {f"{config}-{rank}": "2" for config in ("one", "bad") for rank in (0, 1)}
    assert {path.name: path.read_text() for path in tmp_path.glob("*-?")} == made
    assert done.returncode != 0  # the leader failed, and the other did not wait for a stage that does not come


def test_one_process_under_accelerate_launch_trains_in_its_own_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    (tmp_path / "stage.py").write_text("import os, sys; sys.exit(int(os.environ['GIVEN']))")
    processes = Processes()
    assert processes.first and processes.made_of()["processes"] == 1
    seen = []
    processes.lead(lambda: seen.append(processes.run(tmp_path / "stage.py", Path("c"), [], {"GIVEN": "5"})))
    assert seen == [5]
    with pytest.raises(UserError, match="launch: this is a process of `accelerate launch` already"):
        Processes(["--quiet"])
