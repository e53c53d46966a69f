"""``graphwalker data synth``: trajectories and questions from any knowledge graph, with held-out splits."""

import argparse
from pathlib import Path

from graphwalker.errors import UserError

_PARTS = {
    "graphsynth": "GraphSynth trajectories, straight to the answer",
    "graphroll": "GraphRoll trajectories, half of them with a mistake and a recovery",
    "train": "questions for RL",
    "dev": "questions about topic entities that training does not start from",
    "test_entity": "questions about topic entities that training never touches",
    "test_path": "questions with relation paths that training never takes",
}


def add_parser(subparsers: "argparse._SubParsersAction") -> None:
    """Add ``synth`` to the commands of ``data``."""
    parser = subparsers.add_parser(
        "synth",
        help="synthesise trajectories and questions from a KG",
        description="Draws constrained random walks, words them as questions and replays them through the tools. "
        "Writes graphsynth.jsonl, graphroll.jsonl, train.jsonl, dev.jsonl, test_entity.jsonl, test_path.jsonl and "
        "stats.json into OUT.",
    )
    parser.add_argument("kg", type=Path, metavar="KG", help="folder of a KG built by `graphwalker kg build`")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write into")
    parser.add_argument(
        "--structures",
        default="1-hop,2-hop,3-hop,2i",
        help="shapes of the walks, in equal shares: 1-hop to 5-hop, 2i (default: %(default)s)",
    )
    for part, what in _PARTS.items():
        parser.add_argument(f"--{part.replace('_', '-')}", type=_count, metavar="N", help=f"how many {what}")
    parser.add_argument(
        "--recovery", type=_share, default=0.5, help="share of GraphRoll with a mistake in it (default: %(default)s)"
    )
    parser.add_argument(
        "--top-k",
        type=int,
        default=20,
        help="relations that get_relations shows, as in training (default: %(default)s)",
    )
    parser.add_argument("--phrases", type=Path, metavar="FILE.yaml", help="wordings of the KG's relations")
    parser.add_argument("--dataset", default="", help="name to record in each question (default: OUT's name)")
    parser.add_argument("--seed", type=int, default=0)


def run(args: argparse.Namespace) -> int:
    """Write the data and print what was made; returns the exit status."""
    from data_pipelines.dataset import Sizes, synthesise
    from data_pipelines.phrases import load_phrases
    from data_pipelines.teachers import TemplateTeacher
    from data_pipelines.walks import STRUCTURES
    from graphwalker.kg.open import open_kg

    structures = tuple(dict.fromkeys(name.strip() for name in args.structures.split(",")))
    if unknown := [name for name in structures if name not in STRUCTURES]:
        raise UserError(f"--structures: unknown structure {unknown[0]!r}; one of {', '.join(STRUCTURES)}")
    if args.top_k < 1:
        raise UserError(f"--top-k: expected at least 1, got {args.top_k}")
    if args.seed < 0:
        raise UserError(f"--seed: expected at least 0, got {args.seed}")
    if args.out.exists() and not args.out.is_dir():
        raise UserError(f"{args.out} exists and is not a folder")
    given = {part: getattr(args, part) for part in _PARTS if getattr(args, part) is not None}
    statistics = synthesise(
        open_kg(args.kg),
        args.out,
        dataset=args.dataset or args.out.name,
        structures=structures,
        sizes=Sizes(**given),
        recovery=args.recovery,
        top_k=args.top_k,
        seed=args.seed,
        teacher=TemplateTeacher(load_phrases(args.phrases)),
    )
    for part, counts in statistics["counts"].items():
        shares = ", ".join(f"{count} {name}" for name, count in counts["by_structure"].items())
        print(f"{args.out / part}.jsonl: {counts['total']} ({shares or 'none'})")
    for part, missing in statistics["fewer_than_asked"].items():
        print(f"  {part}: {missing} fewer than asked for: no more were found that fit")
    for why, count in statistics["dropped"].items():
        print(f"  dropped {count}: {why}")
    return 0


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a count, got {text!r}")
    return int(text)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"expected a share between 0 and 1, got {text!r}")
    return value
