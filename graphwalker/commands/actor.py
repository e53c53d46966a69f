"""``graphwalker data actor`` and ``data annotate``: trajectories of the interactive protocol to train an actor on."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from graphwalker.commands.retrieving import add_retriever, retriever_of
from graphwalker.commands.writing import check, counts_path, keep_input, limited, write_counted
from graphwalker.errors import UserError
from graphwalker.files import atomic_files, dump_json, dump_jsonl, file_hash


def add_parser(subparsers: "argparse._SubParsersAction") -> None:
    """Add ``actor`` and ``annotate`` to the commands of ``data``."""
    actor = subparsers.add_parser(
        "actor",
        help="write an actor's trajectories for questions with gold SPARQL or gold paths",
        description="Looks every entity and relation of the gold query up with the interactive tools, puts the query "
        "together and runs it. Writes what ends in the gold answer to OUT, and what was kept and dropped, with the "
        "reasons, to OUT.counts.json. Interrupted, the same command goes on where it stopped.",
    )
    _add_shared(actor)
    actor.set_defaults(run=_actor)
    annotate = subparsers.add_parser(
        "annotate",
        help="have a language model write an actor's trajectories",
        description="Shows the model worked trajectories and lets it act. Writes what passes both checks (each step "
        "rests on what was known; the result is the gold) to OUT, all of it with the verdicts to OUT.review.jsonl and, "
        "to be read, OUT.review.txt, and the counts to OUT.counts.json. Interrupted, the same command goes on from the "
        "replies in the cache.",
    )
    _add_shared(annotate)
    annotate.add_argument("--url", required=True, help="OpenAI-compatible server, such as http://localhost:8000/v1")
    annotate.add_argument("--model", required=True, help="the server's name for the model")
    annotate.add_argument(
        "--examples", type=Path, metavar="FILE.jsonl", help="worked trajectories that the model is shown first"
    )
    annotate.add_argument("--shots", type=int, default=2, help="of these so many (default: %(default)s)")
    annotate.add_argument("--tries", type=int, default=3, help="for a turn that holds no call (default: %(default)s)")
    annotate.add_argument("--parallel", type=int, default=4, help="questions at a time (default: %(default)s)")
    annotate.add_argument(
        "--cache", type=Path, default=Path("data/annotate.sqlite"), help="file of the replies (default: %(default)s)"
    )
    annotate.set_defaults(run=_annotate)


def _add_shared(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("questions", type=Path, metavar="QUESTIONS", help="Question JSONL")
    parser.add_argument("out", type=Path, metavar="OUT.jsonl")
    parser.add_argument("--kg", type=Path, required=True, help="a KG with SPARQL (--store oxigraph, or an endpoint)")
    parser.add_argument("--tools", choices=("freebase", "grailqa", "kqapro"), default="freebase")
    parser.add_argument("--prompt", default="graphwalker", help=argparse.SUPPRESS)
    parser.add_argument("--names-shown", type=int, default=10, help="names that SearchNodes shows")
    parser.add_argument("--patterns-shown", type=int, default=10, help="patterns that SearchGraphPatterns shows")
    parser.add_argument("--rows-shown", type=int, default=20, help="rows of a result that are shown")
    add_retriever(parser, "ranks graph patterns")
    parser.add_argument("--max-turns", type=int, default=15)
    parser.add_argument("--limit", type=int, help="stop after this many trajectories")


def _env(args: argparse.Namespace) -> Any:
    from envs.factory import EnvConfig, kbqa_env_factory

    check("--limit", args.limit, 1)
    keep_input(args.questions, args.out)
    config = EnvConfig(kg=str(args.kg), protocol="interactive", prompt=args.prompt, **_shown(args))
    return kbqa_env_factory(config, retriever_of(args))


def _shown(args: argparse.Namespace) -> dict[str, Any]:
    """What decides, beside question and KG, how an episode goes."""
    names = ["tools", "names_shown", "patterns_shown", "rows_shown", "max_turns"]
    names += ["retriever", "retriever_model"] if args.retriever != "bm25" else []
    return {name: getattr(args, name) for name in names}


def _actor(args: argparse.Namespace) -> int:
    from tqdm import tqdm

    from data_pipelines.actor import actor_trajectories
    from data_pipelines.carry_on import Made
    from data_pipelines.importers.counts import Counts
    from graphwalker.tools.questions import read_questions

    env, counts = _env(args)(), Counts()
    questions = tqdm(read_questions(args.questions), unit=" questions", leave=False, disable=None)
    settings = {"questions": file_hash(args.questions), "kg": str(args.kg), **_shown(args)}
    made = Made(args.out.with_suffix(".partial.jsonl"), settings)
    if made.records:
        print(f"going on after {len(made.records):,} questions", file=sys.stderr)
    trajectories = actor_trajectories(questions, env, counts=counts, made=made)
    try:
        write_counted(args, trajectories, counts, "trajectories", {"questions": str(args.questions)})
    except UserError:
        if not counts.kept:  # the next run is to look again
            made.remove()
        raise
    made.remove()
    return 0


def _annotate(args: argparse.Namespace) -> int:
    from data_pipelines.annotate import Annotator
    from data_pipelines.importers.counts import Counts
    from graphwalker.tools.chat_server import ChatServer
    from graphwalker.tools.prompted import PromptedActor, read_examples
    from graphwalker.tools.questions import read_questions

    for option, value in (("--tries", args.tries), ("--parallel", args.parallel)):
        check(option, value, 1)
    check("--shots", args.shots, 0)
    make_env = _env(args)
    examples = read_examples(args.examples, args.shots) if args.examples else []
    server = ChatServer(args.url, args.model, who="annotator", cache=args.cache)
    prompt = make_env().prompt
    annotate = Annotator(PromptedActor(server, prompt, examples), make_env, prompt, tries=args.tries)
    counts = Counts()
    reviews = [args.out.with_suffix(f".review.{kind}") for kind in ("jsonl", "txt")]
    with atomic_files(args.out, counts_path(args.out), *reviews) as (out, beside, records, texts):
        made = _reviewed(read_questions(args.questions), annotate, args, counts, records, texts)
        written = dump_jsonl(out, limited(made, args.limit, counts))
        dump_json(
            beside, {"questions": str(args.questions), "model": args.model, **counts.to_json(), **annotate.counts}
        )
    print("\n".join(counts.lines()))
    if annotate.counts["malformed"]:
        print(f"  {annotate.counts['malformed']:,} replies held no call and were asked for again")
    print(f"{args.out}: {written:,} trajectories; to be reviewed: {reviews[1]}")
    return 0


def _reviewed(
    questions: list, annotate: Any, args: argparse.Namespace, counts: Any, records: Any, texts: Any
) -> Iterator[Any]:
    """The accepted trajectories; every annotation goes into the files for review."""
    from data_pipelines.annotate import annotations

    for annotation in annotations(questions, annotate, parallel=args.parallel):
        dump_jsonl(records, [annotation])
        texts.write(annotation.text())
        if annotation.why_not:
            counts.drop(annotation.why_not, annotation.trajectory.question.id)
        else:
            counts.kept += 1
            yield annotation.trajectory
