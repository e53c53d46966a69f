"""A run that is stopped and resumed ends with exactly the weights of one that was not."""

import pytest
import torch
from trl import SFTTrainer

from graphwalker.train import session
from graphwalker.train.grpo_trainer import RolloutConfig


class _Stop(Exception):
    pass


def _stop_at(trainer, step: int):
    """Let a trainer die once it has saved its checkpoint of a step, as a killed process would."""
    save = trainer._save_checkpoint

    def saving(*args, **kwargs):
        save(*args, **kwargs)
        if trainer.state.global_step == step:
            raise _Stop

    trainer._save_checkpoint = saving
    return trainer


def _check(make, stop, tmp_path):
    def run(trainer):
        session.train_and_save(trainer)
        return [p.detach().clone() for p in trainer.model.parameters()]

    whole = run(make(output_dir=str(tmp_path / "whole")))
    out = tmp_path / "resumed"
    with pytest.raises(_Stop):
        run(_stop_at(make(output_dir=str(out)), stop))
    assert not (out / "train_results.json").exists() and not (out / "config.json").exists()
    (out / "checkpoint-9").mkdir()  # one that was being written when the machine went down
    (out / "checkpoint-9" / "model.safetensors").write_bytes(b"half")
    resumed = run(make(output_dir=str(out)))
    assert all(torch.equal(a, b) for a, b in zip(whole, resumed, strict=True))
    assert {"train_results.json", "trainer_state.json", "config.json", "model.safetensors"} <= {
        file.name for file in out.iterdir()
    }
    assert not (out / ".saving").exists()


FOUR = {"max_steps": 4, "save_strategy": "steps", "save_steps": 1, "save_total_limit": 2, "learning_rate": 1e-2}


@pytest.mark.slow
@pytest.mark.parametrize("stop", [1, 2, 3])  # in the first epoch of two steps, at its end, in the second
def test_sft(stop, make_model, sft_config, conversations, toy_tokenizer, tmp_path):
    def make(**options):
        args = sft_config(per_device_train_batch_size=2, train_sampling_strategy="group_by_length", **FOUR, **options)
        return SFTTrainer(model=make_model(), args=args, train_dataset=conversations, processing_class=toy_tokenizer)

    _check(make, stop, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("stop", "refilled"), [(1, False), (2, False), (3, False), (1, True), (2, True)])
def test_grpo(stop, refilled, make_grpo, tmp_path):
    """In the first epoch of two steps, at its end, in the second; with dead groups refilled by other questions."""
    trainers = []

    def make(**options):
        # another reward than ours: an untrained model must get different ones within a group
        trainer = make_grpo(
            rollout=RolloutConfig(4, 6, 200, dead_groups="refill" if refilled else "keep"),
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            **FOUR,
            **options,
        )
        kinds = 2 if refilled else 7
        trainer.reward_funcs = [lambda completion_ids, **kwargs: [float(sum(ids) % kinds) for ids in completion_ids]]
        trainers.append(trainer)
        return trainer

    _check(make, stop, tmp_path)
    refills = {entry["step"] for entry in trainers[-1].state.log_history if entry.get("group/refilled")}
    assert bool(refills & set(range(stop + 1, 5))) == refilled


def test_a_finished_run_ends_at_once(make_model, sft_config, conversations, toy_tokenizer, tmp_path, capsys):
    """Also one that died after its last checkpoint, in the midst of an epoch, before it could say that it was done."""

    def train():
        args = sft_config(save_strategy="steps", save_steps=1, per_device_train_batch_size=1)
        trainer = SFTTrainer(model=make_model(), args=args, train_dataset=conversations, processing_class=toy_tokenizer)
        session.train_and_save(trainer)
        return (tmp_path / "sft" / "model.safetensors").read_bytes()

    first = train()
    (tmp_path / "sft" / "train_results.json").unlink()
    assert train() == first and (tmp_path / "sft" / "train_results.json").is_file()
    assert "Going on from" in capsys.readouterr().out
