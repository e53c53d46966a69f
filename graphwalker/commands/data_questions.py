"""``graphwalker data split``, ``subset`` and ``logic-forms``: a question set cut, sampled, or written as pairs."""

import argparse
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from graphwalker.commands.writing import check, keep_input, write_counted
from graphwalker.files import atomic_files, dump_jsonl


def add_parser(subparsers: "argparse._SubParsersAction") -> None:
    """Add the commands to those of ``data``."""
    _add_split(subparsers)
    _add_subset(subparsers)
    _add_logic_forms(subparsers)


def run(args: argparse.Namespace) -> int:
    """Run the chosen command of the three; returns its exit status."""
    return {"split": _split, "subset": _subset, "logic-forms": _logic_forms}[args.data_command](args)


def _add_split(group: "argparse._SubParsersAction") -> None:
    parser = group.add_parser(
        "split",
        help="cut a question set into a part to train on and one to test on",
        description="Cuts by question, each number of hops by itself; questions of one text stay together.",
    )
    parser.add_argument("questions", type=Path, metavar="QUESTIONS", help="Question JSONL")
    parser.add_argument("--out-train", type=Path, required=True, metavar="TRAIN.jsonl")
    parser.add_argument("--out-test", type=Path, required=True, metavar="TEST.jsonl")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--test-share", type=float, default=0.1, help="share to test on (default: %(default)s)")
    size.add_argument("--per-hop", type=int, metavar="N", help="test on N questions of each number of hops instead")
    parser.add_argument("--seed", type=int, default=0)


def _add_subset(group: "argparse._SubParsersAction") -> None:
    parser = group.add_parser(
        "subset",
        help="draw the fixed sample of a question set that all methods share",
        description="Draws questions at random by the seed and their ids, and keeps the order of the file.",
    )
    parser.add_argument("questions", type=Path, metavar="QUESTIONS", help="Question JSONL")
    parser.add_argument("--out", type=Path, required=True, metavar="OUT.jsonl")
    parser.add_argument("--count", type=int, required=True, metavar="N", help="such as 500 (CWQ, GrailQA) or 900")
    parser.add_argument("--seed", type=int, default=0)


def _add_logic_forms(group: "argparse._SubParsersAction") -> None:
    parser = group.add_parser(
        "logic-forms",
        help="write question-to-SPARQL pairs to train the logic-form model on",
        description="Writes a one-turn trajectory for each question with gold SPARQL; train on them with "
        "recipes/sft.py and `prompt: logic_form`.",
    )
    parser.add_argument(
        "questions",
        type=Path,
        metavar="QUESTIONS",
        help="Question JSONL with gold SPARQL, or an actor's trajectories, whose last query is then taken",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="OUT.jsonl")
    parser.add_argument("--limit", type=int, help="stop after this many")


def _split(args: argparse.Namespace) -> int:
    from data_pipelines.question_split import cut
    from graphwalker.tools.questions import read_questions

    check("--test-share", args.test_share, 0, 1)
    check("--per-hop", args.per_hop, 1)
    check("--seed", args.seed, 0)
    keep_input(args.questions, args.out_train, args.out_test)
    parts = cut(read_questions(args.questions), share=args.test_share, per_hop=args.per_hop, seed=args.seed)
    paths = (args.out_train, args.out_test)
    with atomic_files(*paths) as handles:
        for handle, part in zip(handles, parts, strict=True):
            dump_jsonl(handle, part)
    for path, part in zip(paths, parts, strict=True):
        hops = sorted(Counter(str(question.hops) for question in part).items())
        print(f"{path}: {len(part):,} questions ({', '.join(f'{count:,} of {n} hops' for n, count in hops)})")
    return 0


def _subset(args: argparse.Namespace) -> int:
    from data_pipelines.question_split import subset
    from graphwalker.files import write_jsonl
    from graphwalker.tools.questions import read_questions

    keep_input(args.questions, args.out)
    drawn = subset(read_questions(args.questions), args.count, args.seed)
    write_jsonl(args.out, drawn)
    print(f"{args.out}: {len(drawn):,} questions")
    return 0


def _logic_forms(args: argparse.Namespace) -> int:
    from data_pipelines.importers.counts import Counts
    from data_pipelines.logic_forms import as_the_actor_writes, logic_forms
    from graphwalker.files import first_record, read_jsonl
    from graphwalker.tools.questions import read_questions
    from graphwalker.types import Question, Trajectory

    check("--limit", args.limit, 1)
    keep_input(args.questions, args.out)
    questions: Iterable[Question]
    if "turns" in first_record(args.questions):
        questions = as_the_actor_writes(read_jsonl(args.questions, Trajectory))
    else:
        questions = read_questions(args.questions)
    counts = Counts()
    made = logic_forms(questions, counts)
    write_counted(args, made, counts, "trajectories", {"questions": str(args.questions)})
    return 0
