"""``graphwalker data arg``: training texts for ArG's generator."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from graphwalker.commands.retrieving import add_retriever, retriever_of
from graphwalker.commands.writing import check, keep_input, write_counted
from graphwalker.errors import UserError

if TYPE_CHECKING:
    from data_pipelines.arg_llm_critic import LLMCritic
    from graphwalker.kg.hops import Hops


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
    add_retriever(parser, "finds candidate relations")
    _add_critic(parser)
    parser.set_defaults(run=run)


def _add_critic(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--critic-url",
        help="a language model judges, on this OpenAI-compatible server, such as http://localhost:8000/v1 (default: "
        "rules judge, by the gold answers)",
    )
    parser.add_argument("--critic-model", default="", help="the server's name for the model")
    parser.add_argument(
        "--instructions", type=Path, metavar="FILE.yaml", help="what it is told (default: the package's own)"
    )
    parser.add_argument("--tries", type=int, default=3, help="for a reply that is no label (default: %(default)s)")
    parser.add_argument("--parallel", type=int, default=4, help="questions at a time (default: %(default)s)")
    parser.add_argument(
        "--cache", type=Path, default=Path("data/critic.sqlite"), help="file of the replies (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    from data_pipelines.arg_candidates import ArgSettings
    from data_pipelines.arg_critic import RuleCritic
    from data_pipelines.arg_paths import PathSearch
    from data_pipelines.arg_texts import ArgMaker, arg_records
    from data_pipelines.importers.counts import Counts
    from graphwalker.kg.hops import Hops
    from graphwalker.kg.open import open_kg
    from graphwalker.tools.questions import read_questions

    for option, value in (("--limit", args.limit), ("--tries", args.tries), ("--parallel", args.parallel)):
        check(option, value, 1)
    for option, given in (("--critic-model", args.critic_model), ("--instructions", args.instructions)):
        if given and not args.critic_url:
            raise UserError(f"{option} is for a language model as critic: name its server with --critic-url")
    keep_input(args.questions, args.out)
    settings = ArgSettings(args.k_paths, args.candidates, args.max_hops, args.hub, seed=args.seed)
    search = PathSearch(Hops(open_kg(args.kg)), max_hops=settings.max_hops, hub=settings.hub)
    model = _llm_critic(args, search.hops) if args.critic_url else None
    maker = ArgMaker(search, retriever_of(args), model or RuleCritic(search), settings)
    counts = Counts()
    parallel = args.parallel if model else 1
    made = arg_records(read_questions(args.questions), maker, counts, parallel=parallel)
    source = {"questions": str(args.questions), "kg": str(args.kg), "critic": args.critic_model or "rules"}
    write_counted(args, made, counts, "paths", source)
    if model:
        print(
            f"  asked the critic {model.counts['asked']:,} times, {model.counts['malformed']:,} replies were no label"
        )
    return 0


def _llm_critic(args: argparse.Namespace, hops: "Hops") -> "LLMCritic":
    from data_pipelines.arg_llm_critic import LLMCritic
    from graphwalker.tools.chat_server import ChatServer

    server = ChatServer(args.critic_url, args.critic_model, who="critic", cache=args.cache)
    return LLMCritic(server, hops, args.instructions, tries=args.tries)
