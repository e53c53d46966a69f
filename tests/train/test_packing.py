"""Packing changes nothing where the architecture keeps episodes apart, and is refused where it does not."""

import pytest
import torch
from transformers import Lfm2Config, Qwen2Config
from trl import SFTTrainer

from graphwalker.errors import UserError
from graphwalker.train.packed_attention import attend_apart
from graphwalker.train.sft_data import check_packing, report_cut

PACKED = {"packing": True, "max_length": 700, "per_device_train_batch_size": 2}


@pytest.fixture
def one_step(make_model, sft_config, conversations, toy_tokenizer):
    """Loss and weights after one plain gradient step over all episodes, always from the same weights."""

    def run(architecture, apart=False, **options):
        model = make_model(architecture)
        if apart:
            attend_apart(model)
        args = sft_config(optim="sgd", learning_rate=0.1, max_grad_norm=0.0, lr_scheduler_type="constant", **options)
        trainer = SFTTrainer(model=model, args=args, train_dataset=conversations, processing_class=toy_tokenizer)
        return trainer.train().training_loss, torch.cat([p.detach().flatten() for p in model.parameters()])

    return run


def test_packed_episodes_of_qwen2_do_not_see_each_other(one_step):
    loss, weights = one_step("qwen2")
    packed_loss, packed_weights = one_step("qwen2", **PACKED)
    assert packed_loss == pytest.approx(loss, abs=1e-5)
    assert torch.allclose(packed_weights, weights, atol=1e-6)


@pytest.mark.skipif(torch.accelerator.is_available(), reason="an accelerator attends as transformers has it")
def test_on_a_cpu_they_do_not_even_meet(one_step, conversations, toy_tokenizer, monkeypatch):
    attend, lengths = torch.nn.functional.scaled_dot_product_attention, []

    def counting(query, *args, **options):
        lengths.append(query.shape[2])
        return attend(query, *args, **options)

    loss, weights = one_step("qwen2")
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counting)
    packed_loss, packed_weights = one_step("qwen2", apart=True, **PACKED)
    assert packed_loss == pytest.approx(loss, abs=1e-5)
    assert torch.allclose(packed_weights, weights, atol=1e-6)
    rendered = (toy_tokenizer.apply_chat_template(row["messages"], return_dict=False) for row in conversations)
    assert set(lengths) == {len(ids) for ids in rendered}


def test_packed_episodes_of_lfm2_do(one_step):
    """The reason for the refusal below; if this ever fails, packing LFM2 has become possible."""
    (_, weights), (_, packed_weights) = one_step("lfm2"), one_step("lfm2", **PACKED)
    assert not torch.allclose(packed_weights, weights, atol=1e-6)


@pytest.mark.parametrize("options", [PACKED, {"padding_free": True}], ids=["packing", "padding-free"])
def test_refused_for_layers_that_read_across_episodes(sft_config, options):
    hybrid = Lfm2Config(layer_types=["conv", "full_attention"], num_hidden_layers=2)
    check_packing(sft_config(**options), Qwen2Config())
    with pytest.raises(UserError, match="a lfm2 model cannot keep packed episodes apart .layers of type conv"):
        check_packing(sft_config(**options), hybrid)
    check_packing(sft_config(), hybrid)


def test_the_strategy_that_cuts_episodes_is_refused(sft_config):
    with pytest.raises(UserError, match="wrapped"):
        check_packing(sft_config(**PACKED, packing_strategy="wrapped"), Qwen2Config())


@pytest.mark.parametrize("options", [{"max_length": 60}, {**PACKED, "max_length": 60}], ids=["padded", "packed"])
def test_episodes_that_max_length_cuts_are_counted(
    make_model, sft_config, conversations, toy_tokenizer, options, capsys
):
    args = sft_config(**options)
    report_cut(
        SFTTrainer(model=make_model("qwen2"), args=args, train_dataset=conversations, processing_class=toy_tokenizer)
    )
    assert "4 of 4 episodes fill max_length (60 tokens)" in capsys.readouterr().out
