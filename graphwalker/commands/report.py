"""``graphwalker report RUN``: one HTML page of a run."""

import argparse
from pathlib import Path

from graphwalker.report.page import write_report


def add_parser(subparsers: "argparse._SubParsersAction") -> None:
    parser = subparsers.add_parser(
        "report",
        help="write a run's HTML page",
        description="Writes one self-contained HTML page: stage table, curves, and episodes to read.",
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run's folder, or one with a trajectories.jsonl")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: RUN/report.html")


def run(args: argparse.Namespace) -> int:
    print(write_report(args.folder, args.out))
    return 0
