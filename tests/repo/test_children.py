"""A program that is told to end takes what it started, and what that started, with it."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

PROGRAM = """
import sys
from graphwalker.children import call
from graphwalker.files import end_on_sigterm
end_on_sigterm()
inner = "import os, time; open('innermost', 'w').write(str(os.getpid())); time.sleep(600)"
launcher = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
print("ended", call([sys.executable, "-c", launcher if sys.argv[1] == "waits" else "raise SystemExit(7)"]))
"""


def start(folder: Path, what: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, what], cwd=folder, stdout=subprocess.PIPE, text=True)


def test_the_status_of_a_child(tmp_path):
    assert start(tmp_path, "ends").communicate()[0] == "ended 7\n"


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGTERM")
def test_nothing_is_left_behind(tmp_path):
    program = start(tmp_path, "waits")
    innermost = tmp_path / "innermost"
    while not (innermost.is_file() and innermost.read_text()):
        assert program.poll() is None
        time.sleep(0.05)
    pid = int(innermost.read_text())
    program.send_signal(signal.SIGTERM)
    assert program.wait() == 128 + signal.SIGTERM
    program.stdout.close()
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
