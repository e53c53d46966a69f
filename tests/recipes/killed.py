"""Runs a curriculum in forked processes that die (kill -9) at a write to its files, until one lives to the end.

    python killed.py CONFIG RUN DEATH ...

Each DEATH is the number of the write, rename, removal or new folder at which one process dies, with what it started; at
a write it leaves half a file. All is imported once, so a life takes as long as what it trains.
"""

import mmap
import os
import runpy
import signal
import sys
import traceback
from pathlib import Path

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
WRITES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.symlink"}


def die_at(number: int, folder: Path) -> None:
    """Kill this process and its children at the so-manieth write below a folder."""
    done = mmap.mmap(-1, 8)  # shared with the children

    def hook(event: str, args: tuple) -> None:
        if done[4] or not _writes(event, args) or folder not in Path(os.path.abspath(os.fsdecode(args[0]))).parents:
            return
        count = int.from_bytes(done[:4], "big") + 1
        done[:4] = count.to_bytes(4, "big")
        if count == number:
            done[4] = 1  # the hook sees its own write
            if event == "open":
                Path(os.fsdecode(args[0])).write_bytes(b'{"half')
            os.killpg(0, signal.SIGKILL)

    sys.addaudithook(hook)


def _writes(event: str, args: tuple) -> bool:
    if event == "open":
        return isinstance(args[0], (str, bytes)) and bool(args[2] & (os.O_WRONLY | os.O_RDWR))
    return event in WRITES


def _recipe(name: str, *args: str) -> None:
    sys.argv = [f"{name}.py", *args]
    runpy.run_path(str(RECIPES / f"{name}.py"), run_name="__main__")


def forked(act) -> int:
    """Call something in a child process; how that ended (negative: the signal)."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            act()
            status = 0
        except SystemExit as end:
            status = end.code or 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    config, run, *deaths = sys.argv[1:]
    import trl  # noqa: F401
    from trl import GRPOTrainer, SFTTrainer  # noqa: F401 (lazy: this imports them)

    from graphwalker.errors import UserError
    from graphwalker.train import grpo_trainer, session, stage_store  # noqa: F401

    def launch(stage, recipes, processes, locks, env):
        written = stage_store.write_config(stage)
        if forked(lambda: _recipe(stage.recipe, "--config", str(written))):
            raise UserError(f"stage {stage.name} failed")

    stage_store.launch = launch
    for death in [*deaths, None]:

        def life(death=death) -> None:
            os.setpgid(0, 0)
            if death:
                die_at(int(death), Path(run).absolute())
            _recipe("curriculum", "--config", config, "--run", run)

        status = forked(life)
        print(f"death {death}: {status}", flush=True)
        if status not in (0, -signal.SIGKILL):
            sys.exit(f"ended with {status}")
        if status == 0:
            return


if __name__ == "__main__":
    main()
