"""``graphwalker data``: published data sets and knowledge graphs in, gold paths replayed."""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from graphwalker.commands.retrieving import add_retriever, retriever_of
from graphwalker.errors import UserError
from graphwalker.files import atomic_files, dump_json, dump_jsonl

T = TypeVar("T")


def add_parser(subparsers: "argparse._SubParsersAction") -> "argparse._SubParsersAction":
    """Add ``data`` with its own commands; returns the sub-subparsers, to which ``data synth`` adds itself."""
    data = subparsers.add_parser("data", help="import questions and synthesise trajectories")
    group = data.add_subparsers(title="data commands", dest="data_command", metavar="COMMAND", required=True)
    _add_import(group)
    _add_import_kg(group)
    _add_oracle(group)
    _add_expert(group)
    _add_split(group)
    _add_dialogues(group)
    _add_subset(group)
    _add_logic_forms(group)
    return group


def run(args: argparse.Namespace) -> int:
    """Run the chosen command of the group; returns its exit status."""
    commands = {
        "import": _import,
        "import-kg": _import_kg,
        "oracle": _oracle,
        "expert": _expert,
        "split": _split,
        "subset": _subset,
        "logic-forms": _logic_forms,
        "replay": _replay,
    }
    return commands[args.data_command](args)


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
    parser.set_defaults(run=run)


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
    parser.set_defaults(run=run)


def _add_oracle(group: "argparse._SubParsersAction") -> None:
    parser = group.add_parser(
        "oracle",
        help="replay gold paths through the environment and score them",
        description="Writes trajectories.jsonl, metrics.json and oracle.json (the gold relations in get_relations).",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="RUNDIR")
    _add_replay(parser)
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap intervals")
    parser.set_defaults(run=run)


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
    parser.set_defaults(run=run)


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
    parser.set_defaults(run=run)


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
    parser.set_defaults(run=run)


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
    parser.set_defaults(run=run)


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
    parser.set_defaults(run=run)


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


def write_counted(args: argparse.Namespace, made: Iterator[T], counts: Any, what: str, source: dict[str, str]) -> None:
    """Write what is made, at most `--limit`, to `--out`, and beside it where it came from and what was dropped."""
    with atomic_files(args.out, counts_path(args.out)) as (out, beside):
        written = dump_jsonl(out, limited(made, args.limit, counts))
        dump_json(beside, {**source, **counts.to_json()})
    print("\n".join(counts.lines()))
    print(f"{args.out}: {written:,} {what}")


def limited(questions: Iterator[T], limit: int | None, counts: Any) -> Iterator[T]:
    """The questions (or trajectories) with a progress bar; none is an error, so that no empty file is left behind."""
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

    facts = kgs.build(args.format, args.source, args.out, store=args.store, record=args.record)
    print("\n".join(facts))
    return 0


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


def _check_replay(args: argparse.Namespace) -> None:
    check("--top-k", args.top_k, 1)
    check("--max-turns", args.max_turns, 2)
    check("--width", args.width, 1)
    check("--seed", args.seed, 0)


def check(option: str, value: float | None, least: float, most: float | None = None) -> None:
    """Raise ``UserError`` when an option is given and out of its range."""
    if value is not None and not least <= value <= (value if most is None else most):
        wanted = f"at least {least}" if most is None else f"from {least} to {most}"
        raise UserError(f"{option} must be {wanted}, got {value}")


def keep_input(source: Path, *outputs: Path) -> None:
    """Raise ``UserError`` when a file would be written onto the one it is made from, or two onto each other."""
    paths = [path.resolve() for path in outputs]
    if source.resolve() in paths:
        raise UserError(f"{source}: the output would be written onto the input")
    if len(set(paths)) < len(paths):
        raise UserError(f"{outputs[0]}: both parts would be written to this file")
