"""The console command `graphwalker`.

Stands above all layers and is imported by nothing. Only the chosen command's modules are imported, so that
`graphwalker --help` stays quick; the one-line helps are therefore written here.
"""

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

from graphwalker.errors import KGUnavailable, UserError
from graphwalker.files import end_on_sigterm


class Command(NamedTuple):
    help: str
    modules: tuple[str, ...]  # of graphwalker.commands; the first adds the command, the others add to its group


COMMANDS = {
    "kg": Command("build, inspect and query knowledge graphs", ("kg", "kg_ask", "connect")),
    "data": Command(
        "import questions and synthesise trajectories", ("data", "data_gold", "data_questions", "synth", "actor", "arg")
    ),
    "eval": Command("run an agent over questions and score it", ("eval",)),
    "merge": Command("merge a LoRA adapter into its base model", ("merge",)),
    "rescore": Command("compute a run's metrics again from its trajectories", ("rescore",)),
    "doctor": Command("check packages, GPU, disk and a knowledge graph", ("doctor",)),
    "report": Command("write a run's HTML page", ("report",)),
    "sweep": Command("run a sweep's combinations and compare them", ("sweep",)),
    "kbqa": Command("tables of searches over knowledge bases", ("kbqa",)),
    "mask": Command("show which tokens of trajectories are trained", ("mask",)),
}


class _Version(argparse.Action):
    """`--version`, looked up only when asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show the version and exit")

    def __call__(self, parser, namespace, values, option_string=None) -> None:
        from importlib.metadata import version

        print("graphwalker", version("graphwalker-kgqa"))
        parser.exit()


def _add(module: ModuleType, subparsers: argparse._SubParsersAction) -> argparse._SubParsersAction:
    """Let `module` add its parsers, send them to its `run`, and return where the group's other modules add theirs."""
    before = set(subparsers.choices)
    group = module.add_parser(subparsers)
    for name in set(subparsers.choices) - before:
        parser = subparsers.choices[name]
        if parser.get_default("run") is None:
            parser.set_defaults(run=module.run)
    return group if isinstance(group, argparse._SubParsersAction) else subparsers


def make_parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """The parser with `chosen`'s arguments in full; the other commands only have their names and one-line helps."""
    parser = argparse.ArgumentParser(
        prog="graphwalker", description="Language-model agents that answer questions by walking a knowledge graph."
    )
    parser.add_argument("--version", action=_Version)
    subparsers = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        if name != chosen:
            subparsers.add_parser(name, help=command.help)
            continue
        group = subparsers
        for module in command.modules:
            group = _add(importlib.import_module(f"graphwalker.commands.{module}"), group)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status: 0 done, 1 failed, 2 the user's input is at fault, 130 interrupted."""
    if argv is None:  # the program itself, not a caller within one
        argv = sys.argv[1:]
        end_on_sigterm()
    chosen = next((word for word in argv if not word.startswith("-")), None)
    try:
        args = make_parser(chosen).parse_args(argv)
        status = args.run(args) or 0
        sys.stdout.flush()
        return status
    except UserError as error:
        print(f"graphwalker: error: {error}", file=sys.stderr)
        return 2
    except KGUnavailable as error:
        print(f"graphwalker: error: {error.whose}{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("graphwalker: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has enough: end as SIGPIPE would, quietly
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print(f"graphwalker: error: the disk is full: {error.filename or error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
