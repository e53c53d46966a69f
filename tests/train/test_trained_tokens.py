"""Exactly the thought, the query or answer, and the end-of-turn token are trained: the batches, token by token."""

import dataclasses

import pytest
import torch
from trl import SFTTrainer

from graphwalker.protocol.prompts import Prompt
from graphwalker.train import sft_data


def _watch(model) -> list[dict]:
    """The keyword arguments of every forward pass in training."""
    seen: list[dict] = []

    def hook(module, args, kwargs):
        seen.append({key: value.clone() for key, value in kwargs.items() if isinstance(value, torch.Tensor)})

    model.register_forward_pre_hook(hook, with_kwargs=True)
    return seen


def _episodes(batch: dict) -> list[tuple[list[int], list[int | None]]]:
    """The episodes of an SFT batch, padded (by the mask) or packed (by the positions): ids, and labels or None."""
    rows = []
    for row in range(len(batch["input_ids"])):
        if "attention_mask" in batch:
            keep = batch["attention_mask"][row].bool()
            rows.append((batch["input_ids"][row][keep], batch["labels"][row][keep]))
        else:
            starts = [*(batch["position_ids"][row] == 0).nonzero().flatten().tolist(), batch["input_ids"].shape[1]]
            for start, end in zip(starts, starts[1:], strict=False):
                rows.append((batch["input_ids"][row, start:end], batch["labels"][row, start:end]))
    return [(ids.tolist(), [None if x == -100 else x for x in labels.tolist()]) for ids, labels in rows]


@pytest.mark.parametrize(
    ("architecture", "options"),
    [
        ("lfm2", {}),
        ("lfm2", {"train_sampling_strategy": "group_by_length"}),
        ("qwen2", {"packing": True, "max_length": 700, "per_device_train_batch_size": 2}),
        ("qwen2", {"padding_free": True, "max_length": None}),
    ],
    ids=["padded", "grouped", "packed", "padding-free"],
)
def test_sft(architecture, options, make_model, sft_config, conversations, toy_tokenizer, toy_trajectories, expected):
    model = make_model(architecture)
    seen = _watch(model)
    SFTTrainer(
        model=model, args=sft_config(**options), train_dataset=conversations, processing_class=toy_tokenizer
    ).train()
    newline = toy_tokenizer("\n", add_special_tokens=False)["input_ids"]  # the template's, after the last turn
    wanted = [expected(t) for t in toy_trajectories]
    episodes = [episode for batch in seen for episode in _episodes(batch)]
    assert sorted(ids for ids, _ in episodes) == sorted(w.ids + newline for w in wanted)
    by_ids = dict((tuple(w.ids + newline), w.trained + [None]) for w in wanted)
    for ids, labels in episodes:
        assert labels == by_ids[tuple(ids)]


def test_an_experts_mistakes_are_read_and_not_trained(toy_tokenizer, toy_trajectories, expected):
    """Only the turns named as detours lose their marks, and not a token of any turn changes."""
    strayed = dataclasses.replace(toy_trajectories[0], extra={"detours": [0]})
    first = toy_tokenizer(strayed.turns[0].text + "<|im_end|>", add_special_tokens=False)["input_ids"]
    for options, dropped in (({}, len(first)), ({"train_detours": True}, 0)):
        (row,) = sft_data.conversations([strayed], Prompt("compact"), **options)
        marked = toy_tokenizer.apply_chat_template(
            row["messages"], tokenize=True, return_dict=True, return_assistant_tokens_mask=True
        )
        wanted = expected(strayed)
        assert marked["input_ids"][: len(wanted.ids)] == wanted.ids
        trained = [i for i, token in enumerate(wanted.trained) if token is not None]
        assert [i for i, on in enumerate(marked["assistant_masks"]) if on] == trained[dropped:]
    clean = sft_data.conversations(toy_trajectories, Prompt("compact"))  # the common case keeps its plain rows
    assert all("weight" not in message for row in clean for message in row["messages"])


def test_grpo(make_grpo, use_script, toy_tasks, toy_trajectories, expected):
    texts = {question.id: turns for question, turns in toy_tasks}
    trainer = make_grpo(per_device_train_batch_size=8, num_generations=2)
    use_script(lambda key: texts[_question(trainer, key).id])
    batches = []
    compute_loss = trainer._compute_loss
    trainer._compute_loss = lambda model, inputs: batches.append(inputs) or compute_loss(model, inputs)
    trainer.train()
    (batch,) = batches
    wanted = {tuple(w.ids): w.trained for w in map(expected, toy_trajectories)}
    assert len(batch["prompt_ids"]) == 8 and {*map(tuple, _ids(batch))} == set(wanted)
    for row, ids in enumerate(_ids(batch)):
        trained = batch["completion_mask"][row] * batch["tool_mask"][row]
        completion = batch["completion_ids"][row].tolist()
        labels = [token if on else None for token, on in zip(completion, trained.tolist(), strict=True)]
        prompt = int(batch["prompt_mask"][row].sum())
        real = int(batch["completion_mask"][row].sum())
        assert [None] * prompt + labels[:real] == wanted[tuple(ids)]
        assert labels[real:] == [None] * (len(labels) - real)


def _question(trainer, key):
    return trainer.environments[key].episode.trajectory().question


def _ids(batch) -> list[list[int]]:
    pairs = (("prompt_ids", "prompt_mask"), ("completion_ids", "completion_mask"))
    rows = range(len(batch["prompt_ids"]))
    return [[x for ids, mask in pairs for x in batch[ids][row][batch[mask][row].bool()].tolist()] for row in rows]
