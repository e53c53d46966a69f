"""TRL's own GRPO is untouched for single-turn use: without environments our trainer is TRL's."""

import pytest
import torch
from datasets import Dataset
from trl import GRPOTrainer

from graphwalker.train.grpo_trainer import EpisodeGRPOTrainer


@pytest.fixture
def single_turn(make_model, toy_tokenizer, make_grpo):
    """Train on plain prompts without an environment; gives losses and weights. `options` are of GRPOConfig."""
    data = Dataset.from_list([{"prompt": f"What is {word}?"} for word in ("France", "Paris", "Lyon", "Spain")])

    def train(kind, **options):
        model = make_model("qwen2")
        torch.nn.init.normal_(model.get_input_embeddings().weight, std=0.2, generator=torch.Generator().manual_seed(0))
        args = make_grpo(**{"max_steps": 3, "max_completion_length": 10, "learning_rate": 1e-2, **options}).args
        trainer = kind(
            model=model,
            reward_funcs=lambda completion_ids, **kwargs: [float(sum(ids) % 5) for ids in completion_ids],
            args=args,
            train_dataset=data,
            processing_class=toy_tokenizer,
        )
        trainer.train()
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        return losses, [p.detach().clone() for p in trainer.model.parameters()]

    return train


OFF_POLICY = {"num_iterations": 2, "gradient_accumulation_steps": 1, "steps_per_generation": 2}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loss_type": "grpo"},
        {**OFF_POLICY, "importance_sampling_level": "sequence"},
    ],
    ids=lambda options: "-".join(map(str, options.values())) or "default",
)
def test_single_turn_losses_are_those_of_trl(options, single_turn):
    (theirs, their_weights), (ours, our_weights) = (
        single_turn(kind, **options) for kind in (GRPOTrainer, EpisodeGRPOTrainer)
    )
    assert len(theirs) == 3 and any(loss != 0 for loss in theirs)
    assert ours == theirs
    assert all(torch.equal(a, b) for a, b in zip(our_weights, their_weights, strict=True))


def test_the_ratio_of_a_single_turn_is_that_of_its_sequence(single_turn):
    losses = {
        level: single_turn(EpisodeGRPOTrainer, **OFF_POLICY, importance_sampling_level=level)[0]
        for level in ("turn", "sequence", "token")
    }
    assert losses["turn"] == pytest.approx(losses["sequence"], rel=1e-4, abs=1e-7)
    assert losses["turn"] != pytest.approx(losses["token"], rel=1e-4, abs=1e-7)
