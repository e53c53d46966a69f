"""``graphwalker mask MODEL FILE``: which tokens of trajectories, or of ArG's texts, are trained."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from graphwalker.protocol.reflection_data import Paragraphs, holds_reflections

MARKS = ("⟦", "⟧")


def add_parser(subparsers: "argparse._SubParsersAction") -> None:
    parser = subparsers.add_parser(
        "mask",
        help="show which tokens of trajectories, or of ArG's texts, are trained",
        description="Prints trajectories as a model reads them, the trained tokens in colour (or, where the output is "
        f"no terminal, between {MARKS[0]} and {MARKS[1]}), and counts them. GRPO trains the same tokens. Of a file "
        "that `graphwalker data arg` wrote, the rows are those of recipes/arg.py.",
    )
    parser.add_argument("model", help="a model's folder, a hub id, or smollm2: its tokenizer is what counts")
    parser.add_argument("file", type=Path, metavar="FILE", help="JSONL of trajectories, or of ArG's texts")
    parser.add_argument("--prompt", default="graphwalker", help="graphwalker, compact, or a .jinja file")
    parser.add_argument("--max-turns", type=int, default=10, help="T, as the prompt says it (default: 10)")
    parser.add_argument("--max-length", type=int, help="cut episodes after so many tokens, as SFT does")
    parser.add_argument("--train-detours", action="store_true", help="train also the turns that go astray")
    parser.add_argument(
        "--paragraphs",
        choices=get_args(Paragraphs),
        default="path",
        help="ArG: where what is retrieved is trained too (default: path)",
    )
    parser.add_argument("--branches", type=int, default=0, help="ArG: candidates of a path (default: 0, all of them)")
    parser.add_argument("--show", type=int, default=3, metavar="N", help="episodes to print (default: 3)")


def run(args: argparse.Namespace) -> int:
    from rich.console import Console

    from graphwalker.errors import at_least
    from graphwalker.inference.load import load_tokenizer
    from graphwalker.protocol.prompts import Prompt
    from graphwalker.train import masks
    from graphwalker.train.models import prepare_model

    at_least(args, max_length=1, max_turns=2, show=0, branches=0)
    reflective = holds_reflections(args.file)
    tokenizer = load_tokenizer(prepare_model(args.model))
    prompt = Prompt(args.prompt, max_turns=args.max_turns)
    made = (_texts if reflective else _episodes)(args, tokenizer, prompt)
    console, found = Console(highlight=False, soft_wrap=True), []
    for name, row in made:
        found.append(row)
        if len(found) <= args.show:
            _print(console, name, row, tokenizer)
    tokens, trained = sum(len(e.ids) for e in found), sum(sum(e.trained) for e in found)
    empty = sum(not any(e.trained) for e in found)
    console.print(
        f"{len(found)} {'texts' if reflective else 'episodes'}, {tokens} tokens, {_share(trained, tokens)}; longest "
        f"{max(len(e.ids) for e in found)} tokens; without a trained token: {empty}"
    )
    masks.check_masks((e.trained for e in found), str(args.file))
    return 0


def _episodes(args: argparse.Namespace, tokenizer: Any, prompt: Any) -> Iterator[tuple[str, Any]]:
    from graphwalker.train import masks, sft_data

    trajectories = sft_data.read_trajectories(args.file)
    rows = sft_data.conversations(trajectories, prompt, train_detours=args.train_detours)
    for trajectory, row in zip(trajectories, rows, strict=True):
        yield trajectory.question.id, masks.masked(tokenizer, row["messages"], args.max_length)


def _texts(args: argparse.Namespace, tokenizer: Any, prompt: Any) -> Iterator[tuple[str, Any]]:
    from graphwalker.train.masks import Masked
    from graphwalker.train.reflection_rows import RowMaker, read_records

    maker = RowMaker(tokenizer, prompt, paragraphs=args.paragraphs, branches=args.branches)
    for record in read_records(args.file):
        for number, row in enumerate(maker.rows(record)):
            name = f"{record.question.id}, {f'branch {number}' if number else 'path'}"
            yield name, Masked(row.ids[: args.max_length], row.trained[: args.max_length])


def _print(console: Any, name: str, episode: Any, tokenizer: Any) -> None:
    from rich.text import Text

    console.print(f"--- {name}: {len(episode.ids)} tokens, {_share(sum(episode.trained), len(episode.ids))}")
    text = Text()
    for trained, piece in episode.pieces(tokenizer):
        if console.is_terminal:
            text.append(piece, style="bold green" if trained else "dim")
        else:
            text.append(piece.join(MARKS) if trained else piece)
    console.print(text)


def _share(trained: int, tokens: int) -> str:
    return f"{trained} trained ({trained / max(1, tokens):.1%})"
