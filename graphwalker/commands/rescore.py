"""``graphwalker rescore RUN``: every metric again from the stored trajectories, without a model."""

import argparse
from pathlib import Path

from graphwalker.metrics.run_folder import rescore
from graphwalker.report.stages import format_gains, format_stage_table, stage_gains, stage_table


def add_parser(subparsers: "argparse._SubParsersAction") -> None:
    parser = subparsers.add_parser(
        "rescore",
        help="compute a run's metrics again from its trajectories",
        description="Writes each metrics.json of a run again from its trajectories.jsonl and prints the stage table. "
        "No model and no knowledge graph are needed.",
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run's folder, or one with a trajectories.jsonl")
    parser.add_argument("--seed", type=_seed, help="seed of the bootstrap (default: the one stored, else 0)")


def run(args: argparse.Namespace) -> int:
    rescore(args.folder, args.seed)
    print(format_stage_table(stage_table(args.folder)))
    if gains := format_gains(stage_gains(args.folder)):
        print(f"\nGain in em_set over the stage before, on the same questions:\n{gains}")
    return 0


def _seed(text: str) -> int:
    seed = int(text)
    if seed < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return seed
