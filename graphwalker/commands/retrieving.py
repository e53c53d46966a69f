"""The options ``--retriever``, ``--retriever-model`` and ``--retriever-cache`` of several commands."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphwalker.tools.retriever import Retriever


def add_retriever(parser: argparse.ArgumentParser, does: str) -> None:
    """Add the options; ``does`` says what the retriever is there for."""
    parser.add_argument(
        "--retriever",
        choices=("bm25", "embeddings"),
        default="bm25",
        help=f"what {does} (default: %(default)s)",
    )
    parser.add_argument(
        "--retriever-model",
        default="minilm",
        metavar="MODEL",
        help="sentence embeddings: a folder, a hub id such as BAAI/bge-large-en-v1.5, or minilm (default: %(default)s)",
    )
    parser.add_argument(
        "--retriever-cache",
        type=Path,
        default=Path("data/embeddings.sqlite"),
        help="file of the embeddings (default: %(default)s)",
    )


def retriever_of(args: argparse.Namespace) -> "Retriever":
    """The retriever that the options ask for; raises `UserError` where its model cannot be loaded."""
    from graphwalker.tools.retriever import BM25Retriever

    if args.retriever == "bm25":
        return BM25Retriever()
    from graphwalker.inference.embeddings import load_retriever  # loads torch

    return load_retriever(args.retriever, args.retriever_model, args.retriever_cache)
