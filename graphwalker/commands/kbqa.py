"""``graphwalker kbqa``: the tables of MCTS-KBQA from finished runs, and what they need beside the runs."""

import argparse
import time
from pathlib import Path
from typing import Any

VALUES = ("ig", "ig_proxy", "cot", "logic_form", "constant")
CHUNK = 256  # states valued in one call


def add_parser(subparsers: "argparse._SubParsersAction") -> "argparse._SubParsersAction":
    kbqa = subparsers.add_parser("kbqa", help="tables of searches over knowledge bases")
    group = kbqa.add_subparsers(title="kbqa commands", dest="kbqa_command", metavar="COMMAND", required=True)
    _add_report(group)
    _add_proxies(group)
    _add_errors(group)
    return group


def run(args: argparse.Namespace) -> int:
    commands = {"report": _report, "proxies": _proxies, "errors": _errors, "labels": _labels}
    return commands[args.kbqa_command](args)


def _add_report(group: "argparse._SubParsersAction") -> None:
    parser = group.add_parser(
        "report",
        help="print the paper's tables for finished runs",
        description="Prints, from the trajectories and trees of finished runs, MCTS-KBQA's Tables 2 to 9 and the "
        "numbers of Figure 2, each as far as the runs give it. Runs that differ only in their seed make Table 7.",
    )
    parser.add_argument("folders", type=Path, nargs="+", metavar="RUN", help="folders with a trajectories.jsonl")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers there too")
    parser.add_argument("--seed", type=int, default=0, help="seed of the bootstrap (default: 0)")
    parser.set_defaults(run=run)


def _add_proxies(group: "argparse._SubParsersAction") -> None:
    parser = group.add_parser(
        "proxies",
        help="ask a value about the nodes of a run's trees (Table 6)",
        description="Values all siblings in a run's trees and writes RUN/proxies/NAME.json. For Table 6 the run is "
        "one of classic_mcts with the value f1, whose totals are Monte-Carlo values of terminal F1.",
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="a folder with trajectories.jsonl and trees")
    parser.add_argument("--value", choices=VALUES, required=True, help="the value to ask")
    parser.add_argument("--name", help="RUN/proxies/NAME.json is written (default: the value), for several models")
    parser.add_argument("--model", help="its model: a folder, a hub id, or smollm2")
    parser.add_argument("--backend", default="auto", help="transformers, vllm, server, openai or auto")
    parser.add_argument("--url", help="where the backend server or openai answers")
    parser.add_argument("--dtype", default="auto", help="type of the weights (default: auto)")
    parser.set_defaults(run=run)


def _add_errors(group: "argparse._SubParsersAction") -> None:
    parser = group.add_parser(
        "errors",
        help="draw errors to label by hand (Table 8)",
        description="Writes a seeded sample of a run's wrong answers with an empty field `label`, to be filled in with "
        "golden_wrong, ambiguous, entity_linking, predicate_search, reasoning or other.",
    )
    parser.add_argument("folder", type=Path, metavar="RUN")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="a .csv or .jsonl file")
    parser.add_argument("--count", type=int, default=100, help="how many (default: 100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.set_defaults(run=run)
    parser = group.add_parser("labels", help="count the labels of a file that `kbqa errors` wrote")
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.set_defaults(run=run)


def _report(args: argparse.Namespace) -> int:
    from graphwalker.files import write_json
    from graphwalker.report.kbqa import kbqa_report, markdown

    tables = kbqa_report(args.folders, args.seed)
    print("\n\n".join(f"{title}\n\n{markdown(rows)}" for title, rows in tables.items() if rows))
    if args.out:
        write_json(args.out, tables)
    return 0


def _proxies(args: argparse.Namespace) -> int:
    from tqdm import tqdm

    from graphwalker.errors import UserError
    from graphwalker.files import write_json
    from graphwalker.inference.values.configs import ValueConfig
    from graphwalker.inference.values.make import make_value
    from graphwalker.metrics.run_folder import evaluations
    from graphwalker.metrics.siblings import sibling_sets
    from graphwalker.metrics.trees import PROXIES, read_trees
    from graphwalker.search.node import Node
    from graphwalker.search.stored import stored_nodes

    name = args.name or args.value
    if Path(name).name != name:
        raise UserError(f"--name {name}: expected a name without folders")
    (evaluation, *_) = evaluations(args.folder)
    questions = {t.question.id: t.question for t in evaluation.trajectories()}
    wanted: list[tuple[str, Node]] = []
    for tree in read_trees(evaluation.path):
        if tree["question_id"] not in questions:
            raise UserError(f"{args.folder}: the tree of question {tree['question_id']} has no trajectory")
        nodes = stored_nodes(tree, questions[tree["question_id"]])
        wanted += [(tree["question_id"], nodes[n]) for of in sibling_sets(tree) if of.tells for n in of.numbers]
    if not wanted:
        raise UserError(f"{args.folder}: no siblings of different worth in its trees; run classic_mcts with value: f1")
    config = ValueConfig(
        args.value, _model(args), value_backend=args.backend, value_url=args.url, value_dtype=args.dtype
    )
    value: Any = make_value(args.value, config)
    values: dict[str, dict[str, float]] = {}
    began = time.perf_counter()
    for start in tqdm(range(0, len(wanted), CHUNK), desc=args.value, unit="batch", disable=None):
        part = wanted[start : start + CHUNK]
        for (question, node), found in zip(part, value([node for _, node in part]), strict=True):
            values.setdefault(question, {})[str(node.number)] = float(found)
    seconds = time.perf_counter() - began
    out = evaluation.path / PROXIES / f"{name}.json"
    counts = dict(getattr(value, "counts", {}))
    write_json(
        out,
        {"value": args.value, "model": args.model, "states": len(wanted), "seconds": seconds, "counts": counts,
         "values": values},
    )  # fmt: skip
    print(f"{out}: {len(wanted):,} states in {seconds:.1f} s; see them with: graphwalker kbqa report {args.folder}")
    return 0


def _model(args: argparse.Namespace) -> str | None:
    if not args.model or args.backend == "openai":
        return args.model
    from graphwalker.train.models import prepare_model

    return prepare_model(args.model)


def _errors(args: argparse.Namespace) -> int:
    from graphwalker.errors import UserError
    from graphwalker.metrics.error_sample import error_sample, write_errors
    from graphwalker.metrics.run_folder import evaluations

    if args.count < 1:
        raise UserError(f"--count must be at least 1, got {args.count}")
    (evaluation, *_) = evaluations(args.folder)
    records = error_sample(evaluation.trajectories(), args.count, args.seed)
    if not records:
        raise UserError(f"{args.folder}: no wrong answers to label")
    write_errors(args.out, records)
    print(f"{args.out}: {len(records)} wrong answers; fill in `label` and count: graphwalker kbqa labels {args.out}")
    return 0


def _labels(args: argparse.Namespace) -> int:
    from graphwalker.metrics.error_sample import count_labels

    found = count_labels(args.file)
    print(f"{found['labelled']} labelled, {found['unlabelled']} not")
    for label, of in found["labels"].items():
        percent = "-" if of["percent"] is None else f"{of['percent']:.2f}%"
        print(f"{of['group']:<10}{label:<18}{of['count']:>5}{percent:>9}")
    return 0
