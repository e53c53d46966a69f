"""``graphwalker data``: the group, and published data sets and knowledge graphs in."""

import argparse
from pathlib import Path

from graphwalker.commands.writing import check, write_counted


def add_parser(subparsers: "argparse._SubParsersAction") -> "argparse._SubParsersAction":
    """Add ``data`` with its own commands; returns the sub-subparsers, to which the group's other modules add theirs."""
    data = subparsers.add_parser("data", help="import questions and synthesise trajectories")
    group = data.add_subparsers(title="data commands", dest="data_command", metavar="COMMAND", required=True)
    _add_import(group)
    _add_import_kg(group)
    return group


def run(args: argparse.Namespace) -> int:
    """Run the chosen command of the two; returns its exit status."""
    return {"import": _import, "import-kg": _import_kg}[args.data_command](args)


def _add_import(group: "argparse._SubParsersAction") -> None:
    from data_pipelines.importers.formats import MISSING, QUESTIONS, TRAJECTORIES

    parser = group.add_parser(
        "import",
        help="turn a published question set into Question JSONL, or trajectories into Trajectory JSONL",
        description="Writes one Question (or Trajectory) a line to --out, and what was kept, dropped and noticed to "
        "OUT.counts.json.",
        epilog="formats:\n" + _table(QUESTIONS) + "\nwith trajectories:\n" + _table(TRAJECTORIES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("format", choices=(*QUESTIONS, *TRAJECTORIES), metavar="FORMAT", help="one of those below")
    parser.add_argument("source", type=Path, help="the file or folder as it is published")
    parser.add_argument("--out", type=Path, required=True, metavar="OUT.jsonl")
    parser.add_argument("--kg", type=Path, help="the KG that topics and answers must be in, and that names them")
    parser.add_argument("--split", help="the split to record (default: as the file's name says); metaqa: to import")
    parser.add_argument(
        "--missing-topic",
        choices=MISSING,
        help="what becomes of a question whose topic the KG lacks (default: drop; error for metaqa and pathquestion)",
    )
    parser.add_argument(
        "--only-exact", action="store_true", help="drop questions whose gold path gives another gold on the KG"
    )
    parser.add_argument("--closed-world", action="store_true", help="keep only the gold answers that the KG has")
    parser.add_argument(
        "--parses", choices=("first", "union"), help="webqsp: the first usable parse (default), or all of them"
    )
    parser.add_argument("--language", help="qald: the language of the questions (default: en)")
    parser.add_argument("--limit", type=int, help="stop after this many questions")


def _table(formats: dict[str, tuple[str, str]]) -> str:
    return "\n".join(f"  {name:<17}{what}" for name, (_, what) in formats.items())


def _add_import_kg(group: "argparse._SubParsersAction") -> None:
    from data_pipelines.importers.formats import KGS

    parser = group.add_parser(
        "import-kg",
        help="build a KG from a published knowledge base",
        epilog="formats:\n" + "\n".join(f"  {name:<17}{what}" for name, what in KGS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("format", choices=tuple(KGS), metavar="FORMAT", help="one of those below")
    parser.add_argument("source", type=Path, help="the file or folder as it is published")
    parser.add_argument("out", type=Path, metavar="OUT", help="the KG's folder, replaced as a whole")
    parser.add_argument("--store", choices=("memory", "oxigraph"), default="memory")
    parser.add_argument("--record", metavar="ID", help="rog: only the subgraph of this record")


def _import(args: argparse.Namespace) -> int:
    from data_pipelines.importers.counts import Counts
    from data_pipelines.importers.formats import TRAJECTORIES
    from data_pipelines.importers.importing import import_from

    check("--limit", args.limit, 1)
    store = None
    if args.kg is not None:
        from graphwalker.kg.open import open_kg

        store = open_kg(args.kg)
    counts = Counts()
    made = import_from(
        args.format,
        args.source,
        counts,
        store=store,
        split=args.split,
        missing=args.missing_topic,
        only_exact=args.only_exact,
        closed_world=args.closed_world,
        **{option: value for option in ("parses", "language") if (value := getattr(args, option)) is not None},
    )
    what = "trajectories" if args.format in TRAJECTORIES else "questions"
    write_counted(args, made, counts, what, {"format": args.format, "source": str(args.source)})
    return 0


def _import_kg(args: argparse.Namespace) -> int:
    from data_pipelines.importers import kgs

    facts = kgs.build(args.format, args.source, args.out, store=args.store, record=args.record)
    print("\n".join(facts))
    return 0
