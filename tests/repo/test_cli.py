"""The console command: quick to start, one clear line for a user's mistake, and the exit statuses a shell expects."""

import errno
import importlib.util
import resource
import subprocess
import sys
from types import SimpleNamespace

import pytest

from graphwalker import cli
from graphwalker.errors import KGUnavailable, UserError
from graphwalker.tools.chat_server import NoReply


def _graphwalker(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "graphwalker.cli", *args], capture_output=True, text=True)


def test_help_names_every_command():
    out = _graphwalker("--help")
    assert out.returncode == 0
    for name, command in cli.COMMANDS.items():
        assert name in out.stdout and command.help in out.stdout


def test_help_imports_no_command():
    code = (
        "import sys\nfrom graphwalker.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "bad = [m for m in sys.modules if m.startswith('graphwalker.commands.') or m in ('numpy', 'torch')]\n"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_help_is_quick():
    """Seconds of CPU, so that a busy machine does not count against it."""

    def seconds() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before = seconds()
    _graphwalker("--help")
    assert seconds() - before < 0.5


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help(name):
    out = _graphwalker(name, "--help")
    assert out.returncode == 0, out.stderr
    assert out.stdout.startswith(f"usage: graphwalker {name}")


def test_every_listed_module_exists():
    modules = [module for command in cli.COMMANDS.values() for module in command.modules]
    missing = [name for name in modules if importlib.util.find_spec(f"graphwalker.commands.{name}") is None]
    assert not missing


def test_no_command_is_a_usage_error():
    out = _graphwalker()
    assert out.returncode == 2
    assert "COMMAND" in out.stderr


@pytest.fixture
def toy(monkeypatch):
    """A command `toy GROUP...` of two modules, whose run does what the test says."""
    seen = []

    def first_parser(subparsers):
        return subparsers.add_parser("toy").add_subparsers(required=True)

    def second_parser(subparsers):
        subparsers.add_parser("more")

    def first_run(args):
        seen.append("first")
        return 0

    modules = {
        "graphwalker.commands.toy": SimpleNamespace(
            add_parser=lambda s: _with(first_parser(s), "base"), run=lambda args: first_run(args)
        ),
        "graphwalker.commands.toy2": SimpleNamespace(add_parser=second_parser, run=lambda args: seen.append("second")),
    }

    def _with(group, name):
        group.add_parser(name)
        return group

    monkeypatch.setitem(cli.COMMANDS, "toy", cli.Command("a toy", ("toy", "toy2")))
    monkeypatch.setattr(cli.importlib, "import_module", modules.__getitem__)
    return SimpleNamespace(seen=seen, modules=modules)


def test_modules_of_one_group_run_their_own(toy):
    assert cli.main(["toy", "base"]) == 0
    assert cli.main(["toy", "more"]) == 0
    assert toy.seen == ["first", "second"]


@pytest.mark.parametrize(
    ("raised", "status", "said"),
    [
        (UserError("no such KG: x"), 2, "graphwalker: error: no such KG: x\n"),
        (KGUnavailable("refused"), 1, "graphwalker: error: the knowledge graph does not answer: refused\n"),
        (NoReply("the critic is silent"), 1, "graphwalker: error: the critic is silent\n"),
        (KeyboardInterrupt(), 130, "graphwalker: interrupted\n"),
        (OSError(errno.ENOSPC, "No space left on device", "out"), 1, "graphwalker: error: the disk is full: out\n"),
    ],
    ids=["user error", "outage", "no reply", "interrupt", "disk full"],
)
def test_failures_are_one_line(toy, capsys, raised, status, said):
    def run(args):
        raise raised

    toy.modules["graphwalker.commands.toy"].run = run
    assert cli.main(["toy", "base"]) == status
    assert capsys.readouterr().err == said


def test_a_bug_keeps_its_traceback(toy):
    def run(args):
        raise OSError(errno.EIO, "a fault that is nobody's input")

    toy.modules["graphwalker.commands.toy"].run = run
    with pytest.raises(OSError):
        cli.main(["toy", "base"])


def test_a_closed_pipe_is_quiet(tmp_path):
    code = (
        "import sys\nfrom types import SimpleNamespace\nfrom graphwalker import cli\n"
        "def run(args):\n    for i in range(100000): print(i)\n"
        "toy = SimpleNamespace(add_parser=lambda s: s.add_parser('toy'), run=run)\n"
        "cli.COMMANDS['toy'] = cli.Command('', ('toy',))\n"
        "cli.importlib.import_module = lambda name: toy\n"
        "sys.exit(cli.main(['toy']))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout and process.stderr
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=30) == 141
    assert process.stderr.read() == ""
