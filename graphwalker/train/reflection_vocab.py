"""The reflection tokens in a model's own vocabulary (ArG, section 4.1: the vocabulary is expanded with all of them).

They are added to a copy of the model on disk, by one process and before anything is distributed: ZeRO-3 then splits
rows that are all there, and the rows of a run do not depend on how many processes it has.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import decoders
from transformers import set_seed

from graphwalker.errors import UserError
from graphwalker.inference import load
from graphwalker.protocol import chat, reflection
from graphwalker.train.identity import model_identity
from graphwalker.train.models import copy_folder, made_once

NOISE = 0.1
"""Standard deviation of the noise on a new row, in those of the old rows."""
_WORDS = re.compile(r"[A-Za-z]+|\d")


def with_reflection_tokens(path: str, cache: str, seed: int = 0) -> str:
    """The model itself where it has the reflection tokens, else a copy below ``cache`` that has them.

    Turn tokens are added too where they are missing. The copy is made once, and again when the model has changed.
    Raises ``UserError`` for a tokenizer that has only some of the tokens, or all in another order.
    """
    tokenizer = load.read_tokenizer(path)
    vocabulary = tokenizer.get_vocab()
    if any(token in vocabulary for token in reflection.ALL):
        reflection.token_ids(vocabulary, path)
        return path
    if load.is_adapter(path):
        raise UserError(
            f"{path}: an adapter whose tokenizer has no reflection tokens: merge it first (graphwalker merge {path} "
            "OUT) and name OUT"
        )
    turns = () if chat.family_of(tokenizer) else tuple(t for t in chat.CHATML.tokens if t not in vocabulary)
    settings = {"source": path, "state": model_identity(path), "added": [*turns, *reflection.ALL], "seed": seed}

    def make(out: Path) -> None:
        tokenizer = load.load_tokenizer(path)
        set_seed(seed)  # rows of turn tokens are drawn around the mean of all
        model = load.load_model(path, tokenizer, "auto")
        add_tokens(model, tokenizer, seed)
        model.save_pretrained(out)
        tokenizer.save_pretrained(out)

    return made_once(copy_folder(path, cache, "reflection"), settings, make)


def add_tokens(model: Any, tokenizer: Any, seed: int = 0, tokens: Sequence[str] = reflection.ALL) -> list[int]:
    """Add tokens to a tokenizer and rows for them to the input and output embeddings; returns their ids.

    A new row is the mean of the rows of the token's words and seeded noise of ``NOISE`` standard deviations, so that it
    starts with a meaning and no two are the same. Rows that a model keeps as padding are used first.
    """
    words = {token: _word_ids(tokenizer, token) for token in tokens}  # before the token is one
    tokenizer.add_special_tokens({"extra_special_tokens": list(tokens)}, replace_extra_special_tokens=False)
    _keep_readable(tokenizer, tokens)
    ids = tokenizer.convert_tokens_to_ids(list(tokens))
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    old = min(ids)
    layers = [model.get_input_embeddings()]
    output = model.get_output_embeddings()
    if output is not None and output.weight is not layers[0].weight:
        layers.append(output)
    for place, layer in enumerate(layers):
        _start(layer.weight, [words[token] for token in tokens], ids, old, seed + place)
    return ids


def _keep_readable(tokenizer: Any, tokens: Sequence[str]) -> None:
    """Give a byte-level tokenizer the decoder of its kind where it has one that joins tokens before it decodes them.

    That one (of tokenizers made from GGUF files, such as SmolLM2's) gives up on a whole text when a token in it has a
    space, and prints every space as the ``Ġ`` that stands for it.
    """
    text = "a b" + "".join(tokens)
    if "Ġ" in tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]):
        tokenizer.backend_tokenizer.decoder = decoders.ByteLevel()


@torch.no_grad()
def _start(weight: torch.Tensor, words: Sequence[Sequence[int]], ids: Sequence[int], old: int, seed: int) -> None:
    """Set the rows ``ids`` of ``weight`` (V, C); the rows below ``old`` are those of the model."""
    known = weight[:old].float()
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(ids), weight.shape[1], generator=generator) * known.std(dim=0) * NOISE
    for row, of, extra in zip(ids, words, noise, strict=True):
        mean = known[list(of)].mean(dim=0) if of else known.mean(dim=0)
        weight[row] = (mean + extra).to(weight.dtype)


def _word_ids(tokenizer: Any, token: str) -> list[int]:
    """The tokens of a token's words: of ``</paragraph>`` those of ``end`` too, which tells it from its beginning."""
    words = _WORDS.findall(token.replace("</", "end "))
    text = " ".join(words).lower()
    return tokenizer(text, add_special_tokens=False)["input_ids"]
