"""`graphwalker doctor`: whether this machine, its packages and a knowledge graph are fit for work, and what to do."""

import argparse
from collections.abc import Iterable

ADVICE_INDENT = " " * 9


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help="check packages, GPU, disk and a knowledge graph",
        description="Prints one line a check: ok, warning or error, with what to do. Exits with 1 after an error.",
    )
    parser.add_argument("--kg", help="also check this knowledge graph")
    parser.add_argument(
        "--triple",
        nargs=3,
        action="append",
        default=[],
        metavar=("HEAD", "RELATION", "TAIL"),
        help="a triple that the graph must have, by ids; may be given several times",
    )


def run(args: argparse.Namespace) -> int:
    from graphwalker.commands.doctor_kg import check_kg
    from graphwalker.commands.doctor_machine import check_machine
    from graphwalker.errors import UserError
    from graphwalker.types import Triple

    if args.triple and not args.kg:
        raise UserError("--triple needs --kg")
    failed = _show(check_machine())
    if args.kg:
        failed |= _show(check_kg(args.kg, [Triple(*triple) for triple in args.triple]))
    return int(failed)


def _show(findings: "Iterable") -> bool:
    """Print findings as they come; returns whether any is an error."""
    failed = False
    for finding in findings:
        failed |= finding.level == "error"
        print(f"{finding.level:<8} {finding.text}", flush=True)
        if finding.advice:
            print(f"{ADVICE_INDENT}{finding.advice}", flush=True)
    return failed
