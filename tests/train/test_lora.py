"""LoRA through SFT, GRPO, evaluation and merging: what is trained, what the KL reference is, what is saved."""

import dataclasses
import importlib.util

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from trl import ModelConfig, SFTConfig, SFTTrainer

from graphwalker import cli
from graphwalker.errors import UserError
from graphwalker.inference.load import load_engine, load_model, load_tokenizer
from graphwalker.protocol.prompts import Prompt
from graphwalker.protocol.render import render_turn
from graphwalker.train import models, sft_data, tiny
from graphwalker.train.grpo_trainer import RolloutConfig
from graphwalker.train.session import train_and_save

LORA = ModelConfig(use_peft=True, lora_r=4, lora_alpha=8, lora_dropout=0.0)
QUIET = {"report_to": "none", "use_cpu": True, "bf16": False, "disable_tqdm": True, "save_strategy": "no"}
WRONG, RIGHT = (render_turn("Done.", "answer", text) for text in ('["Atlantis"]', '["Paris"]'))


@pytest.fixture(scope="module")
def base(tmp_path_factory, toy_tokenizer) -> str:
    """A whole model in a folder."""
    out = tmp_path_factory.mktemp("base")
    tiny.make_model(toy_tokenizer, "qwen2", width=32, layers=2, heads=2).save_pretrained(out)
    toy_tokenizer.save_pretrained(out)
    return str(out)


@pytest.fixture(scope="module")
def adapter(base, tmp_path_factory, toy_tokenizer, toy_trajectories) -> str:
    """An adapter that SFT trained and saved."""
    out = str(tmp_path_factory.mktemp("adapter"))
    model, config = models.load_for_training(base, toy_tokenizer, LORA)
    args = SFTConfig(out, max_steps=2, learning_rate=0.05, assistant_only_loss=True, **QUIET)
    data = sft_data.conversations(toy_trajectories, Prompt("compact"))
    train_and_save(
        SFTTrainer(model=model, args=args, train_dataset=data, processing_class=toy_tokenizer, peft_config=config)
    )
    return out


@pytest.fixture
def logits(toy_tokenizer):
    ids = torch.tensor([toy_tokenizer("Which country is Lyon in?")["input_ids"]])

    def of(model) -> torch.Tensor:
        with torch.no_grad():
            return model.eval()(ids).logits

    return of


def test_sft_saves_an_adapter_that_evaluation_loads_and_merge_makes_whole(base, adapter, tmp_path, logits):
    assert models.prepare_model(adapter) == adapter
    tokenizer = load_tokenizer(adapter)
    before = logits(load_model(base, tokenizer, "float32"))
    trained = logits(PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), adapter))
    assert not torch.allclose(before, trained, atol=1e-3)
    torch.testing.assert_close(logits(load_engine(adapter, dtype="float32").model), trained, atol=1e-5, rtol=1e-4)
    out = tmp_path / "merged"
    assert cli.main(["merge", adapter, str(out), "--dtype", "float32"]) == 0
    merged = load_model(str(out), load_tokenizer(str(out)), "float32")
    torch.testing.assert_close(logits(merged), trained, atol=1e-5, rtol=1e-4)


def test_merge_refuses(base, adapter, tmp_path, capsys, monkeypatch):
    for args, said in (
        ([base, str(tmp_path / "x")], "no adapter here"),
        ([str(tmp_path / "none"), str(tmp_path / "x")], "no adapter here"),
        ([adapter, base], "exists: name another folder"),
    ):
        assert cli.main(["merge", *args]) == 2
        assert said in capsys.readouterr().err
    with pytest.raises(UserError, match="vLLM needs a whole model: graphwalker merge"):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
        load_engine(adapter, backend="vllm")
    assert not (tmp_path / "x").exists()


def _policy_and_reference(trainer) -> dict[str, dict[str, torch.Tensor]]:
    weights: dict[str, dict[str, torch.Tensor]] = {"default": {}, "ref": {}}
    for name, value in trainer.model.named_parameters():
        for which, found in weights.items():
            if f".{which}." in name:
                found[name.replace(f".{which}.", ".")] = value.detach().clone()
    return weights


@pytest.fixture
def one_right(use_script):
    """The first episode of each group of four answers right, if Paris is."""
    use_script(lambda key: [RIGHT] if key % 4 == 0 else [WRONG])


def test_grpo_from_an_adapter_keeps_it_as_its_reference(adapter, toy_tokenizer, make_grpo, one_right, tmp_path):
    model, config = models.load_for_training(adapter, toy_tokenizer, LORA)
    assert config is None
    trainer = make_grpo(model, beta=0.5, max_steps=3, learning_rate=0.05, output_dir=str(tmp_path / "rl"))
    start = _policy_and_reference(trainer)
    assert start["default"].keys() == start["ref"].keys() != set()
    assert all(torch.equal(start["ref"][name], value) for name, value in start["default"].items())
    train_and_save(trainer)
    end = _policy_and_reference(trainer)
    assert all(torch.equal(end["ref"][name], value) for name, value in start["ref"].items())
    assert any(not torch.equal(end["default"][name], value) for name, value in start["default"].items())
    kl = [entry["kl"] for entry in trainer.state.log_history if "kl" in entry]
    assert kl[0] == pytest.approx(0, abs=1e-6) and kl[-1] > 1e-6
    assert (tmp_path / "rl" / "adapter_model.safetensors").is_file() and not (tmp_path / "rl" / "ref").exists()


def test_grpo_with_a_fresh_adapter_has_the_bare_model_as_its_reference(base, toy_tokenizer, make_grpo, one_right):
    model, config = models.load_for_training(base, toy_tokenizer, LORA)
    before = {name: value.clone() for name, value in model.named_parameters()}
    trainer = make_grpo(model, peft_config=config, beta=0.5, max_steps=3, learning_rate=0.05)
    trainer.train()
    kl = [entry["kl"] for entry in trainer.state.log_history if "kl" in entry]
    assert kl[0] == pytest.approx(0, abs=1e-6) and kl[-1] > 1e-6
    bare = trainer.model.unload()
    assert all(torch.equal(value, before[name]) for name, value in bare.named_parameters())


def test_a_stage_over_an_adapter_resumes_exactly(adapter, toy_tokenizer, make_grpo, one_right, tmp_path):
    def run(name: str, steps: int) -> dict[str, torch.Tensor]:
        model, _ = models.load_for_training(adapter, toy_tokenizer, LORA)
        options = {"save_strategy": "steps", "save_steps": 1, "lr_scheduler_type": "constant", "learning_rate": 0.05}
        train_and_save(make_grpo(model, beta=0.5, max_steps=steps, output_dir=str(tmp_path / name), **options))
        return load_file(tmp_path / name / "adapter_model.safetensors")

    run("interrupted", 2)
    (tmp_path / "interrupted" / "train_results.json").unlink()
    resumed, whole = run("interrupted", 3), run("whole", 3)
    assert resumed.keys() == whole.keys()
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)


def test_training_all_weights_from_an_adapter_merges_it_first(base, adapter, toy_tokenizer, make_grpo, logits):
    model, config = models.load_for_training(adapter, toy_tokenizer, ModelConfig())
    assert config is None and not isinstance(model, PeftModel)
    torch.testing.assert_close(logits(model), logits(load_model(adapter, toy_tokenizer, "float32")))
    with pytest.raises(UserError, match="beta: 0.1 needs a reference model on disk.*graphwalker merge"):
        make_grpo(model, beta=0.1)
    make_grpo(model, beta=0.0)


def test_an_adapter_of_another_shape_is_refused(adapter, toy_tokenizer):
    with pytest.raises(UserError, match="lora_r: 8, but the adapter in .* has 4"):
        models.load_for_training(adapter, toy_tokenizer, dataclasses.replace(LORA, lora_r=8))


def test_new_turn_tokens_are_trained_or_refused(tmp_path, foreign_model):
    path = models.with_turn_tokens(foreign_model, str(tmp_path / "cache"))
    assert path != foreign_model
    tokenizer = load_tokenizer(path)
    assert models.with_turn_tokens(path, str(tmp_path / "cache")) == path
    with pytest.raises(UserError, match="LoRA would leave their embeddings untrained: set lora_modules_to_save"):
        models.load_for_training(path, tokenizer, LORA)
    _, config = models.load_for_training(
        path, tokenizer, dataclasses.replace(LORA, lora_modules_to_save=["embed_tokens"])
    )
    assert config is not None


def test_an_architecture_that_peft_does_not_know_trains_all_its_linear_layers(tmp_path, make_model, toy_tokenizer):
    make_model("lfm2").save_pretrained(tmp_path)
    _, config = models.load_for_training(str(tmp_path), toy_tokenizer, LORA)
    assert config is not None and config.target_modules == "all-linear"


@pytest.mark.skipif(not importlib.util.find_spec("bitsandbytes"), reason="needs bitsandbytes (the qlora extra)")
def test_qlora(base, toy_tokenizer, conversations, sft_config, make_grpo, one_right, tmp_path, logits):
    """Four-bit weights under SFT, then GRPO from its adapter, then one whole model."""
    arguments = dataclasses.replace(LORA, load_in_4bit=True)
    model, config = models.load_for_training(base, toy_tokenizer, arguments)
    assert model.is_loaded_in_4bit
    args = sft_config(output_dir=str(tmp_path / "q"), max_steps=2, learning_rate=0.05)
    kinds = {"model": model, "processing_class": toy_tokenizer, "peft_config": config}
    train_and_save(SFTTrainer(args=args, train_dataset=conversations, **kinds))
    model, _ = models.load_for_training(str(tmp_path / "q"), toy_tokenizer, arguments)
    trainer = make_grpo(model, beta=0.1, max_steps=2, rollout=RolloutConfig(8, 8, 256))
    trainer.train()
    assert cli.main(["merge", str(tmp_path / "q"), str(tmp_path / "whole"), "--dtype", "float32"]) == 0
    whole = load_model(str(tmp_path / "whole"), toy_tokenizer, "float32")
    assert not torch.allclose(logits(whole), logits(load_model(base, toy_tokenizer, "float32")), atol=1e-3)
