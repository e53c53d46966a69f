"""``graphwalker data oracle``, ``expert`` and ``replay``: what is recorded or gold, made again through the tools."""

import argparse
from pathlib import Path

from graphwalker.commands.retrieving import add_retriever, retriever_of
from graphwalker.commands.writing import check, keep_input, write_counted
from graphwalker.errors import UserError
from graphwalker.files import atomic_files, dump_jsonl


def add_parser(subparsers: "argparse._SubParsersAction") -> None:
    """Add the commands to those of ``data``."""
    _add_oracle(subparsers)
    _add_expert(subparsers)
    _add_dialogues(subparsers)


def run(args: argparse.Namespace) -> int:
    """Run the chosen command of the three; returns its exit status."""
    return {"oracle": _oracle, "expert": _expert, "replay": _replay}[args.data_command](args)


def _add_oracle(group: "argparse._SubParsersAction") -> None:
    parser = group.add_parser(
        "oracle",
        help="replay gold paths through the environment and score them",
        description="Writes trajectories.jsonl, metrics.json and oracle.json (the gold relations in get_relations).",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="RUNDIR")
    _add_replay(parser)
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap intervals")


def _add_replay(parser: argparse.ArgumentParser) -> None:
    """What replays of gold paths have in common."""
    parser.add_argument("kg", type=Path, metavar="KG")
    parser.add_argument("questions", type=Path, metavar="QUESTIONS", help="Question JSONL with gold paths")
    parser.add_argument("--strict", action="store_true", help="refuse relations that get_relations did not show")
    parser.add_argument("--top-k", type=int, default=20, help="relations that get_relations shows")
    parser.add_argument("--max-turns", type=int, default=10)
    parser.add_argument(
        "--width",
        type=int,
        metavar="N",
        help="follow N of the entities shown at each hop (default: all, turns allowing)",
    )


def _add_expert(group: "argparse._SubParsersAction") -> None:
    parser = group.add_parser(
        "expert",
        help="write expert trajectories for questions with gold paths",
        description="Replays gold paths through the environment, with thoughts, some mistakes and recoveries. "
        "Writes what ends in a right answer to --out, and what was kept and dropped to OUT.counts.json.",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="OUT.jsonl")
    _add_replay(parser)
    parser.add_argument(
        "--recovery", type=float, default=0.25, help="share with a mistake in it (default: %(default)s)"
    )
    parser.add_argument("--phrases", type=Path, metavar="FILE.yaml", help="wordings of the KG's relations")
    parser.add_argument("--limit", type=int, help="stop after this many trajectories")
    parser.add_argument("--seed", type=int, default=0)


def _add_dialogues(group: "argparse._SubParsersAction") -> None:
    parser = group.add_parser(
        "replay",
        help="make the calls of recorded KBQA dialogues again on a KG and compare what comes back",
        description="Prints how many calls gave the same observation, and how the others differ.",
    )
    parser.add_argument(
        "dialogues", type=Path, metavar="DIALOGUES", help="Interactive-KBQA's files, or Trajectory JSONL"
    )
    parser.add_argument("--kg", type=Path, required=True, help="a KG with SPARQL")
    parser.add_argument("--tools", choices=("freebase", "grailqa", "kqapro"), default="freebase")
    add_retriever(parser, "ranks graph patterns")
    parser.add_argument("--out", type=Path, metavar="OUT.jsonl", help="write every call with both observations")


def _oracle(args: argparse.Namespace) -> int:
    from data_pipelines.oracle import run_oracle

    _check_replay(args)
    report = run_oracle(
        args.kg,
        args.questions,
        args.out,
        strict=args.strict,
        top_k=args.top_k,
        max_turns=args.max_turns,
        width=args.width,
        seed=args.seed,
    )
    print("\n".join(report))
    return 0


def _expert(args: argparse.Namespace) -> int:
    from data_pipelines.expert import experts
    from data_pipelines.importers.counts import Counts
    from data_pipelines.oracle import read_replayable
    from data_pipelines.phrases import load_phrases
    from data_pipelines.teachers import TemplateTeacher
    from envs.kg_env import KGEnv
    from graphwalker.kg.open import open_kg
    from graphwalker.tools.toolbox import Toolbox

    _check_replay(args)
    check("--recovery", args.recovery, 0, 1)
    check("--limit", args.limit, 1)
    keep_input(args.questions, args.out)
    env = KGEnv(Toolbox(open_kg(args.kg), top_k=args.top_k, strict=args.strict), max_turns=args.max_turns)
    questions, others = read_replayable(args.questions, env.toolbox)
    counts = Counts()
    for question in others:
        counts.drop("it has no gold path", question.id)
    made = experts(
        questions,
        env,
        TemplateTeacher(load_phrases(args.phrases)),
        width=args.width,
        recovery=args.recovery,
        seed=args.seed,
        counts=counts,
    )
    write_counted(args, made, counts, "trajectories", {"questions": str(args.questions)})
    return 0


def _replay(args: argparse.Namespace) -> int:
    from tqdm import tqdm

    from data_pipelines.replay import read_dialogues, replay, report
    from graphwalker.kg.open import open_kg
    from graphwalker.tools.kbqa.toolbox import KBQAToolbox

    ranker = retriever_of(args).scores
    toolbox = KBQAToolbox(open_kg(args.kg), args.kg, args.tools, ranker=ranker, progress=True)
    bar = tqdm(read_dialogues(args.dialogues), unit=" dialogues", leave=False, disable=None)
    dialogues = list(replay(bar, toolbox))
    if not dialogues:
        raise UserError(f"{args.dialogues}: no dialogue in this file")
    if args.out is not None:
        keep_input(args.dialogues, args.out)
        with atomic_files(args.out) as (out,):
            dump_jsonl(out, (call for dialogue in dialogues for call in dialogue.calls))
    print("\n".join(report(dialogues)))
    return 0


def _check_replay(args: argparse.Namespace) -> None:
    check("--top-k", args.top_k, 1)
    check("--max-turns", args.max_turns, 2)
    check("--width", args.width, 1)
    check("--seed", args.seed, 0)
