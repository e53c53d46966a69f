"""ArG's training texts as rows of tokens, and which of them are trained (Eq. 3)."""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from datasets import Dataset

from graphwalker.errors import UserError
from graphwalker.files import read_jsonl
from graphwalker.inference.chat_tokens import ChatTokens
from graphwalker.protocol import reflection
from graphwalker.protocol.prompts import Prompt
from graphwalker.protocol.reflection_data import Branch, Paragraphs, ReflectionRecord
from graphwalker.train.masks import Masked

_KEPT = 1 << 14  # pieces whose tokens are remembered
_PARAGRAPH = re.compile(f"(?<={re.escape(reflection.PARAGRAPH)})(.*?{re.escape(reflection.PARAGRAPH_END)})", re.DOTALL)
_RELATION = reflection.RETRIEVE_RELATION + reflection.PARAGRAPH


def read_records(path: str) -> list[ReflectionRecord]:
    """The records of a JSONL file; raises ``UserError`` when there are none."""
    found = list(read_jsonl(path, ReflectionRecord))
    if not found:
        raise UserError(f"{path}: no training texts in this file")
    return found


def tokenizer_texts(records: Iterable[ReflectionRecord], prompt: Prompt) -> Iterator[list[dict[str, str]]]:
    """Conversations that a tiny model's tokenizer is trained on; the tokens, which it is given whole, are left out."""
    for record in records:
        parts = [piece for text in record.texts() for piece in reflection.words(text)]
        asked = reflection.messages(record.question, record.topic, prompt)
        yield [*asked, {"role": "assistant", "content": "\n".join(parts)}]


class RowMaker:
    """Rows of a record: its path, then each branch that is drawn.

    ``paragraphs`` says of which texts what stands in a paragraph is trained too: of the ``path`` alone (Eq. 3: what is
    retrieved on a valid path is learned with the labels; a candidate that is not followed is on none, and training it
    would teach the hypo-generator to expect wrong relations), of its ``relations`` alone (which the hypo-generator
    needs; a small model learns from the loss on entities to guess names where it should copy them), of ``all`` texts,
    or of ``none``. ``branches`` is how many of a path's branches are used, drawn anew for each path by the seed; 0
    uses all.
    """

    def __init__(
        self, tokenizer: Any, prompt: Prompt, *, paragraphs: Paragraphs = "path", branches: int = 0, seed: int = 0
    ):
        reflection.token_ids(tokenizer.get_vocab(), str(tokenizer.name_or_path or "the model to train"))
        self.tokens, self.prompt = ChatTokens(tokenizer), prompt
        self.paragraphs, self.branches, self.seed = paragraphs, branches, seed
        self._ids = lru_cache(_KEPT)(self._tokenised)  # most pieces are tokens and relations, again and again

    def rows(self, record: ReflectionRecord) -> list[Masked]:
        """The token ids of a record's texts and which are trained."""
        asked = self.tokens.prompt(reflection.messages(record.question, record.topic, self.prompt))
        found = [self._row(asked, [(record.text, True, self.paragraphs != "none")], record.ended)]
        for branch in self._drawn(record):
            parts = [(record.text[: branch.at], False, False), (branch.read, False, self.paragraphs == "all")]
            found.append(self._row(asked, [*parts, (branch.trained, True, self.paragraphs != "none")], branch.ended))
        return found

    def dataset(self, records: Iterable[ReflectionRecord]) -> Dataset:
        """All rows, with the columns ``input_ids`` and ``labels`` (-100: not trained) that TRL takes as they are."""
        columns: dict[str, list[np.ndarray]] = {"input_ids": [], "labels": []}
        for record in records:
            for row in self.rows(record):
                ids = np.array(row.ids, np.int32)  # a tenth of the memory of lists
                columns["input_ids"].append(ids)
                columns["labels"].append(np.where(row.trained, ids, -100))
        return Dataset.from_dict(columns)

    def _drawn(self, record: ReflectionRecord) -> Sequence[Branch]:
        if not self.branches or len(record.branches) <= self.branches:
            return record.branches
        drawn = random.Random(f"{self.seed} {record.question.id} {record.text}")
        return [record.branches[i] for i in sorted(drawn.sample(range(len(record.branches)), self.branches))]

    def _tokenised(self, text: str) -> list[int]:
        return self.tokens.tokenizer(text, add_special_tokens=False)["input_ids"]

    def _row(self, asked: Sequence[int], parts: Sequence[tuple[str, bool, bool]], ended: bool) -> Masked:
        """``parts`` are texts, whether what stands outside of paragraphs is trained, and whether what is inside is."""
        ids, trained = list(asked), [False] * len(asked)
        for text, outside, inside in parts:
            before = ""
            for place, piece in enumerate(_PARAGRAPH.split(text)):
                made = self._ids(piece) if piece else []
                on = outside if place % 2 == 0 else inside and self._of_use(before)
                ids += made
                trained += [on] * len(made)
                before = piece
        if ended:
            ids.append(self.tokens.end_of_turn)
            trained.append(True)
        return Masked(ids, trained)

    def _of_use(self, before: str) -> bool:
        """Whether the paragraph after a text is one that is trained."""
        return self.paragraphs != "relations" or before.endswith(_RELATION)
