"""``graphwalker data``: published data sets and knowledge graphs in, gold paths replayed."""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from graphwalker.errors import UserError
from graphwalker.files import write_json, write_jsonl
from graphwalker.types import Question

QUESTION_FORMATS = ("metaqa", "webqsp")
KG_FORMATS = ("metaqa", "freebase-slice")


def add_parser(subparsers: "argparse._SubParsersAction") -> "argparse._SubParsersAction":
    """Add ``data`` with its own commands; returns the sub-subparsers, to which ``data synth`` adds itself."""
    data = subparsers.add_parser("data", help="import questions and synthesise trajectories")
    group = data.add_subparsers(title="data commands", dest="data_command", metavar="COMMAND", required=True)
    _add_import(group)
    _add_import_kg(group)
    _add_oracle(group)
    return group


def run(args: argparse.Namespace) -> int:
    """Run the chosen command of the group; returns its exit status."""
    return {"import": _import, "import-kg": _import_kg, "oracle": _oracle}[args.data_command](args)


def _add_import(group: "argparse._SubParsersAction") -> None:
    parser = group.add_parser(
        "import",
        help="turn a published question set into Question JSONL",
        description="Writes one Question a line to --out, and what was kept, dropped and noticed to OUT.counts.json.",
    )
    parser.add_argument("format", choices=QUESTION_FORMATS)
    parser.add_argument(
        "source", type=Path, help="metaqa: its folder, an N-hop folder or a question file; webqsp: the JSON"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="OUT.jsonl")
    parser.add_argument("--kg", type=Path, help="the KG that topics and answers must be in, and that names them")
    parser.add_argument("--split", help="the split to import (metaqa: train, dev or test; webqsp: the name to record)")
    parser.add_argument("--missing-topic", choices=("error", "drop"), help="default: error for metaqa, drop for webqsp")
    parser.add_argument(
        "--only-exact", action="store_true", help="drop questions whose gold path gives another gold on the KG"
    )
    parser.add_argument(
        "--closed-world", action="store_true", help="webqsp: keep only the gold answers that the KG has"
    )
    parser.add_argument(
        "--parses", choices=("first", "union"), help="webqsp: the first usable parse (default), or all of them"
    )
    parser.add_argument("--limit", type=int, help="stop after this many questions")
    parser.set_defaults(run=run)


def _add_import_kg(group: "argparse._SubParsersAction") -> None:
    parser = group.add_parser("import-kg", help="build a KG from a published knowledge base")
    parser.add_argument("format", choices=KG_FORMATS)
    parser.add_argument("source", type=Path, help="metaqa: kb.txt or its folder; freebase-slice: FB15k-237's folder")
    parser.add_argument("out", type=Path, metavar="OUT", help="the KG's folder, replaced as a whole")
    parser.add_argument("--store", choices=("memory", "oxigraph"), default="memory")
    parser.set_defaults(run=run)


def _add_oracle(group: "argparse._SubParsersAction") -> None:
    parser = group.add_parser(
        "oracle",
        help="replay gold paths through the environment and score them",
        description="Writes trajectories.jsonl, metrics.json and ranks.json (the gold relations in get_relations).",
    )
    parser.add_argument("kg", type=Path, metavar="KG")
    parser.add_argument("questions", type=Path, metavar="QUESTIONS", help="Question JSONL with gold paths")
    parser.add_argument("--out", type=Path, required=True, metavar="RUNDIR")
    parser.add_argument("--strict", action="store_true", help="refuse relations that get_relations did not show")
    parser.add_argument("--top-k", type=int, default=20, help="relations that get_relations shows")
    parser.add_argument("--max-turns", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap intervals")
    parser.set_defaults(run=run)


def _import(args: argparse.Namespace) -> int:
    from data_pipelines.importers.counts import Counts

    if args.format != "webqsp" and (args.closed_world or args.parses):
        raise UserError(f"--closed-world and --parses are for webqsp, not for {args.format}")
    if args.limit is not None and args.limit < 1:
        raise UserError(f"--limit must be at least 1, got {args.limit}")
    store = None
    if args.kg is not None:
        from graphwalker.kg.open import open_kg

        store = open_kg(args.kg)
    counts = Counts()
    written = write_jsonl(args.out, _limited(_reader(args)(counts=counts, store=store), args.limit, counts))
    write_json(counts_path(args.out), {"format": args.format, "source": str(args.source), **counts.to_json()})
    print("\n".join(counts.lines()))
    print(f"{args.out}: {written:,} questions")
    return 0


def _reader(args: argparse.Namespace) -> Callable[..., Iterator[Question]]:
    options: dict[str, Any] = {"split": args.split, "only_exact": args.only_exact}
    if args.missing_topic:
        options["drop_missing_topics"] = args.missing_topic == "drop"
    if args.format == "metaqa":
        from data_pipelines.importers.metaqa import read_questions as read_metaqa

        return partial(read_metaqa, args.source, **options)
    from data_pipelines.importers.webqsp import read_questions as read_webqsp

    return partial(read_webqsp, args.source, parses=args.parses or "first", closed_world=args.closed_world, **options)


def _limited(questions: Iterator[Question], limit: int | None, counts: Any) -> Iterator[Question]:
    """The questions with a progress bar; none at all is an error, so that no empty file is left behind."""
    from tqdm import tqdm

    empty = True
    for number, question in enumerate(tqdm(questions, unit=" questions", leave=False, disable=None), 1):
        empty = False
        yield question
        if number == limit:
            break
    if empty:
        raise UserError("no question is left\n" + "\n".join(counts.lines()))


def counts_path(out: Path) -> Path:
    """Where the counts of an import stand: ``questions.jsonl`` has them in ``questions.counts.json``."""
    return out.with_suffix(".counts.json")


def _import_kg(args: argparse.Namespace) -> int:
    from data_pipelines.importers import kgs

    facts = kgs.build(args.format, args.source, args.out, store=args.store)
    print("\n".join(facts))
    return 0


def _oracle(args: argparse.Namespace) -> int:
    from data_pipelines.oracle import run_oracle

    report = run_oracle(
        args.kg,
        args.questions,
        args.out,
        strict=args.strict,
        top_k=args.top_k,
        max_turns=args.max_turns,
        seed=args.seed,
    )
    print("\n".join(report))
    return 0
