"""The memory estimate: figures for known sizes, refusals with a change that fits, silence for tiny models."""

from types import SimpleNamespace

import pytest
from transformers import LlamaConfig, Qwen2Config
from trl import ModelConfig

from graphwalker.errors import UserError
from graphwalker.train import memory
from graphwalker.train.memory import GIB, Room, Setting, Size, estimate, fits, model_size, refuse

pytest.importorskip("deepspeed")
EIGHT_B = Size(8_030_261_248, 8_030_261_248, 525_336_576)
H100, HOST = 80 * GIB, 1000 * GIB


def test_a_models_size_is_read_from_its_config(tmp_path):
    LlamaConfig(vocab_size=128256, intermediate_size=14336, num_key_value_heads=8).save_pretrained(tmp_path)
    size = model_size(str(tmp_path), ModelConfig())
    assert size == EIGHT_B  # Llama-3.1-8B
    lora = model_size(str(tmp_path), ModelConfig(use_peft=True, lora_r=16, lora_target_modules=["q_proj", "v_proj"]))
    assert lora.trained == 32 * 16 * ((4096 + 4096) + (4096 + 1024)) and lora.total == size.total + lora.trained


def test_tied_embeddings_count_once(tmp_path):
    Qwen2Config(
        vocab_size=151936, hidden_size=2048, intermediate_size=11008, num_hidden_layers=36, num_attention_heads=16,
        num_key_value_heads=2, tie_word_embeddings=True,
    ).save_pretrained(tmp_path)  # fmt: skip
    assert model_size(str(tmp_path), ModelConfig()).total == 3_085_938_688  # Qwen2.5-3B, as its authors count


def test_figures():
    device, host = estimate(EIGHT_B, Setting(3, 8, 1))
    assert device == 18 * EIGHT_B.total // 8 + 4 * EIGHT_B.largest_layer
    reference = Size(EIGHT_B.total, EIGHT_B.trained, EIGHT_B.largest_layer, reference=True)
    assert estimate(reference, Setting(3, 8, 1))[0] - device == 2 * EIGHT_B.total // 8
    assert estimate(EIGHT_B, Setting(2, 8, 1))[0] > 2 * EIGHT_B.total  # ZeRO-2 keeps whole weights everywhere
    moved = estimate(EIGHT_B, Setting(3, 8, 1, offload_optimizer=True))
    assert moved[0] < device and moved[1] > host
    four_bit = Size(EIGHT_B.total, 10_000_000, EIGHT_B.largest_layer, frozen_bytes=0.6)
    assert estimate(four_bit, Setting(2, 1, 1))[0] < 6 * GIB


@pytest.mark.parametrize(
    ("setting", "room", "advice"),
    [
        (Setting(2, 8, 1), Room(24 * GIB, HOST), "launch/accelerate/zero3.yaml"),
        (Setting(3, 2, 1), Room(60 * GIB, HOST), "keep the optimizer in host memory"),
        (Setting(3, 1, 1), Room(12 * GIB, HOST), "keep optimizer and parameters in host memory"),
        (Setting(3, 8, 1), Room(16 * GIB, 24 * GIB), "take 2 such machines"),
        (Setting(3, 2, 1), Room(GIB, GIB), "use_peft: true"),
        (Setting(3, 2, 1), Room(32 * GIB, 32 * GIB, shared=True), "such machines"),
    ],
)
def test_what_cannot_fit_is_refused_with_a_change_that_does(setting, room, advice):
    with pytest.raises(UserError, match="m does not fit: .* GiB .*check_memory: false") as caught:
        refuse("m", EIGHT_B, setting, room)
    assert advice in str(caught.value)


def test_what_fits_passes():
    assert fits(EIGHT_B, Setting(3, 8, 1), Room(H100, HOST))
    refuse("m", EIGHT_B, Setting(3, 8, 1), Room(H100, HOST))


@pytest.fixture
def training():
    """What a recipe has of its arguments once `accelerate launch` started it under ZeRO-3."""
    plugin = SimpleNamespace(zero_stage=3, offload_optimizer_device="none", offload_param_device=None)
    return SimpleNamespace(deepspeed_plugin=plugin, world_size=8, process_index=0, beta=0.001)


def test_before_a_start(tmp_path, training, monkeypatch, capsys):
    LlamaConfig(vocab_size=128256, intermediate_size=14336, num_key_value_heads=8).save_pretrained(tmp_path)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    monkeypatch.setattr(memory, "free_memory", lambda: Room(H100, HOST))
    memory.check_memory(training, str(tmp_path), ModelConfig())
    assert "GiB of 80.0 free on each GPU" in (said := capsys.readouterr().out) and "ZeRO-3, 8 processes" in said
    monkeypatch.setattr(memory, "free_memory", lambda: Room(8 * GIB, 8 * GIB))
    with pytest.raises(UserError, match="does not fit"):
        memory.check_memory(training, str(tmp_path), ModelConfig())
    training.deepspeed_plugin = None
    memory.check_memory(training, str(tmp_path), ModelConfig())


def test_nothing_is_said_of_a_tiny_model(tmp_path, training, monkeypatch, capsys):
    LlamaConfig(vocab_size=100, hidden_size=32, intermediate_size=32, num_hidden_layers=1).save_pretrained(tmp_path)
    monkeypatch.setattr(memory, "free_memory", lambda: Room(0, 0))
    memory.check_memory(training, str(tmp_path), ModelConfig())
    assert not capsys.readouterr().out
