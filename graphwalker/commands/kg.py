"""`graphwalker kg build | info | query | check`; `kg_ask` adds the other ways to ask."""

import argparse
import json
from pathlib import Path


def add_parser(subparsers: argparse._SubParsersAction) -> argparse._SubParsersAction:
    parser = subparsers.add_parser("kg", help="build, inspect and query knowledge graphs")
    commands = parser.add_subparsers(dest="kg_command", metavar="COMMAND", required=True)

    build = commands.add_parser("build", help="build a knowledge graph from RDF")
    build.add_argument("source", help="an N-Triples or Turtle file (.nt, .ttl, also .gz), or a folder of them")
    build.add_argument("out", help="the folder to write; a knowledge graph that is there is replaced when all is done")
    build.add_argument("--schema", default="rdf", help="freebase, kqapro, rdf, wikidata, or a YAML file (default: rdf)")
    build.add_argument(
        "--store",
        choices=("memory", "oxigraph"),
        default="memory",
        help="memory: arrays for agents, fastest; oxigraph: a database with SPARQL (default: memory)",
    )
    build.add_argument(
        "--memory",
        default="2G",
        help="how much to hold at once beside the program itself; a larger graph goes over the disk (default: 2G)",
    )
    build.add_argument("--quiet", action="store_true", help="no progress bars")

    info = commands.add_parser("info", help="what is in a built knowledge graph")
    info.add_argument("kg", help="its folder")
    info.add_argument("--json", action="store_true", help="print the whole description as JSON")

    query = commands.add_parser("query", help="ask as an agent would")
    query.add_argument("kg", help="the folder of a built knowledge graph")
    query.add_argument(
        "query",
        help="""get_relations("France") or get_triples("France", ["location.location.contains"]); with SPARQL also """
        """the calls of the KBQA tools, such as SearchNodes("France")""",
    )
    query.add_argument("--question", default="", help="the question that relations are ranked against")
    query.add_argument("--top-k", type=int, default=20, help="how many relations to show (default: 20)")
    query.add_argument("--triples", type=int, default=5, help="how many triples to show for each relation (default: 5)")

    check = commands.add_parser(
        "check",
        help="say which questions a knowledge graph can answer",
        description="Recomputes each gold on the graph (a closed world) and counts, by reason, what it cannot answer. "
        "--out gets the answerable questions with that gold, and OUT.counts.json the counts.",
    )
    check.add_argument("questions", type=Path, help="Question JSONL")
    check.add_argument("--kg", required=True, help="the folder of a built knowledge graph")
    check.add_argument("--out", type=Path, metavar="OUT.jsonl")
    return commands


def run(args: argparse.Namespace) -> int:
    return {"build": _build, "info": _info, "query": _query, "check": _check}[args.kg_command](args)


def _build(args: argparse.Namespace) -> int:
    from graphwalker.kg.build import build_kg, parse_memory

    memory = parse_memory(args.memory)
    out = build_kg(args.source, args.out, args.schema, store=args.store, progress=not args.quiet, memory=memory)
    print(f"built {out}")
    return print_counts(out)


def _info(args: argparse.Namespace) -> int:
    from graphwalker.kg.meta import read_meta
    from graphwalker.kg.open import open_kg

    meta = read_meta(args.kg)
    if args.json:
        print(json.dumps(meta, ensure_ascii=False, indent=2))
        return 0
    open_kg(args.kg)  # so that a damaged folder is said to be one
    print(f"store     {meta['store']}\nschema    {meta['profile']['name']}\nsource    {meta['source'] or '(unknown)'}")
    return print_counts(Path(args.kg))


def print_counts(folder: Path) -> int:
    from graphwalker.kg.meta import read_meta

    counts = read_meta(folder)["counts"]
    for key, value in counts.items():
        print(f"{key:<12}{value:>15,}")
    return 0


def _query(args: argparse.Namespace) -> int:
    """Print the observation; 0 when the graph answered (also with nothing), 1 for an error observation."""
    from graphwalker.errors import UserError
    from graphwalker.kg.open import open_kg
    from graphwalker.protocol.interactive import TOOLS
    from graphwalker.tools.kbqa.toolbox import KBQAToolbox
    from graphwalker.tools.toolbox import Toolbox
    from graphwalker.types import RAN

    if args.top_k < 1 or args.triples < 1:
        raise UserError("--top-k and --triples must be at least 1")
    store = open_kg(args.kg)
    if args.query.partition("(")[0].strip() in TOOLS:
        kind = "kqapro" if store.schema.name == "kqapro" else "grailqa"
        observation = KBQAToolbox(store, args.kg, kind, progress=True).run(args.query).observation
    else:
        toolbox = Toolbox(store, top_k=args.top_k, triples_per_relation=args.triples, strict=False)
        observation = toolbox.session(args.question).run(args.query)
    print(observation.text)
    return 0 if observation.status in RAN else 1


def _check(args: argparse.Namespace) -> int:
    """Print what can be answered and why the rest cannot; 1 when nothing can."""
    from tqdm import tqdm

    from data_pipelines.importers.counts import Counts
    from data_pipelines.kg_check import Checker, check, gold_runner
    from graphwalker.errors import UserError
    from graphwalker.files import atomic_files, dump_json, dump_jsonl, read_jsonl
    from graphwalker.kg.open import open_kg
    from graphwalker.types import Question

    if args.out is not None and args.out.resolve() == args.questions.resolve():
        raise UserError(f"{args.out}: the output would be written onto the input")
    counts = Counts()
    questions = tqdm(read_jsonl(args.questions, Question), unit=" questions", leave=False, disable=None)
    store = open_kg(args.kg)
    answerable = list(check(questions, Checker(store, gold_runner(store)), counts))
    if not counts.read:
        raise UserError(f"{args.questions}: no questions in this file")
    print("\n".join(["closed world: gold as the graph itself gives it", *counts.lines()]))
    if args.out is not None and answerable:
        source = {"questions": str(args.questions), "kg": str(args.kg), "gold": "recomputed, closed world"}
        with atomic_files(args.out, args.out.with_suffix(".counts.json")) as (out, beside):
            dump_jsonl(out, answerable)
            dump_json(beside, {**source, **counts.to_json()})
        print(f"{args.out}: {len(answerable):,} questions, data set {answerable[0].dataset}")
    elif args.out is not None:
        print(f"no question can be answered on this graph: {args.out} is not written")
    return 0 if answerable else 1
