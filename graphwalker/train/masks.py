"""Which tokens are trained: to be seen, counted, and refused when they are none or all."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from graphwalker.errors import UserError


@dataclass(frozen=True, slots=True)
class Masked:
    """An episode's token ids, and for each whether it is trained; both (T,)."""

    ids: Sequence[int]
    trained: Sequence[bool]

    def pieces(self, tokenizer: Any) -> Iterable[tuple[bool, str]]:
        """The text, in runs of tokens that are all trained or all not."""
        pairs = zip(self.trained, self.ids, strict=True)
        for trained, run in groupby(pairs, key=lambda pair: pair[0]):
            yield trained, tokenizer.decode([i for _, i in run], clean_up_tokenization_spaces=False)


def masked(tokenizer: Any, messages: Sequence[dict[str, Any]], limit: int | None = None) -> Masked:
    """A conversation as SFT trains it, cut after ``limit`` tokens: the chat template marks the trained ones."""
    found = tokenizer.apply_chat_template(
        list(messages), tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    return Masked(found["input_ids"][:limit], [bool(on) for on in found["assistant_masks"][:limit]])


def check_masks(masks: Iterable[Sequence[Any]], what: str) -> None:
    """Raise ``UserError`` where no token of all episodes is trained, or every token of one is.

    A full mask trains the prompt and what the knowledge graph said as if the model had written it.
    """
    trained, episodes = 0, 0
    for mask in masks:
        of, episodes = sum(map(bool, mask)), episodes + 1
        if of and of == len(mask):
            raise UserError(
                f"{what}: every token of episode {episodes} would be trained, what the graph said too: the chat "
                "template marks no assistant text, or assistant_only_loss is false"
            )
        trained += of
    if not trained:
        raise UserError(
            f"{what}: no token of {episodes} episodes would be trained: the chat template marks no assistant text, or "
            "every episode is cut before its first turn"
        )


def check_sft(trainer: Any, episodes: int) -> None:
    """`check_masks` of what an ``SFTTrainer`` has made of so many episodes; says how many it leaves out."""
    labels = trainer.train_dataset["labels"]
    if not trainer.is_world_process_zero():
        return
    check_masks(([label != -100 for label in row] for row in labels), "SFT")
    if not trainer.args.packing and len(labels) < episodes:
        left = episodes - len(labels)
        print(f"warning: {left} of {episodes} episodes are left out: max_length cuts them before their first turn")


def check_rollouts(rollouts: Sequence[Any]) -> None:
    """`check_masks` of GRPO's episodes, of the tokens after the prompt; those of one turn are the model's alone."""
    check_masks([rollout.mask for rollout in rollouts if rollout.turns > 1] or [[0, 1]], "GRPO")
