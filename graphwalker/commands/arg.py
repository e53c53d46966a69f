"""``graphwalker data arg``: training texts for ArG's generator."""

import argparse
from pathlib import Path

from graphwalker.commands.data import check, keep_input, write_counted


def add_parser(subparsers: "argparse._SubParsersAction") -> None:
    """Add ``arg`` to the commands of ``data``."""
    parser = subparsers.add_parser(
        "arg",
        help="write training texts for ArG's generator: shortest paths with reflection tokens",
        description="Finds the shortest paths between a question's topic entities and its answers, and writes them "
        "with the candidates beside them as texts with reflection tokens to OUT, and what was kept and dropped, with "
        "the reasons, to OUT.counts.json.",
    )
    parser.add_argument("questions", type=Path, metavar="QUESTIONS", help="Question JSONL, with ids of the graph")
    parser.add_argument("out", type=Path, metavar="OUT.jsonl")
    parser.add_argument("--kg", type=Path, required=True, help="the KG's folder, or an endpoint")
    parser.add_argument("--k-paths", type=int, default=4, help="paths of a question (default: %(default)s)")
    parser.add_argument(
        "--candidates", type=int, default=5, metavar="K", help="relations judged at a hop (default: %(default)s)"
    )
    parser.add_argument("--max-hops", type=int, default=4, help="edges of a path at most (default: %(default)s)")
    parser.add_argument(
        "--hub", type=int, default=1000, help="walk through no node with more neighbours (default: %(default)s)"
    )
    parser.add_argument("--limit", type=int, help="stop after this many paths")
    parser.add_argument("--seed", type=int, default=0)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from data_pipelines.arg_candidates import ArgSettings
    from data_pipelines.arg_critic import RuleCritic
    from data_pipelines.arg_paths import PathSearch
    from data_pipelines.arg_texts import ArgMaker, arg_records
    from data_pipelines.importers.counts import Counts
    from graphwalker.kg.hops import Hops
    from graphwalker.kg.open import open_kg
    from graphwalker.tools.questions import read_questions
    from graphwalker.tools.retriever import BM25Retriever

    check("--limit", args.limit, 1)
    keep_input(args.questions, args.out)
    settings = ArgSettings(args.k_paths, args.candidates, args.max_hops, args.hub, seed=args.seed)
    search = PathSearch(Hops(open_kg(args.kg)), max_hops=settings.max_hops, hub=settings.hub)
    maker = ArgMaker(search, BM25Retriever(), RuleCritic(search), settings)
    counts = Counts()
    made = arg_records(read_questions(args.questions), maker, counts)
    write_counted(args, made, counts, "paths", {"questions": str(args.questions), "kg": str(args.kg)})
    return 0
