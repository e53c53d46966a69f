"""What decodes GRPO's episodes is settled before the trainer is made; then each step's engine has its weights."""

from types import SimpleNamespace

import pytest
from transformers import AutoConfig, Lfm2Config
from trl import GRPOConfig

from graphwalker.errors import UserError
from graphwalker.train import tiny, vllm_rollouts
from graphwalker.train.vllm_rollouts import settle, vllm_engine


@pytest.fixture(scope="module")
def folder(toy_tokenizer, tmp_path_factory):
    out = tmp_path_factory.mktemp("model")
    tiny.make_model(toy_tokenizer, "qwen2", width=32, layers=1, heads=2).save_pretrained(out)
    return str(out)


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A GRPOConfig; `installed` says whether vLLM is."""

    def make(installed=True, **options):
        monkeypatch.setattr(vllm_rollouts, "is_vllm_available", lambda: installed)
        return GRPOConfig(str(tmp_path), use_cpu=True, bf16=False, report_to="none", **{"use_vllm": True, **options})

    return make


def test_without_vllm_transformers_generates_and_one_line_says_so(config, folder, toy_tokenizer, capsys):
    training = config(installed=False)
    settle(training, folder, toy_tokenizer, max_length=300, guided=False)
    assert not training.use_vllm
    (line,) = capsys.readouterr().out.splitlines()
    assert "vLLM is not installed: transformers generates the episodes" in line
    settle(config(use_vllm=False), folder, toy_tokenizer, max_length=300, guided=False)
    assert capsys.readouterr().out == ""


def test_a_colocated_vllm_holds_episodes_and_no_more(config, folder, toy_tokenizer):
    for asked, length, held in ((None, 300, 300), (None, 10**6, 1024), (128, 300, 128)):
        training = config(vllm_max_model_length=asked)
        settle(training, folder, toy_tokenizer, max_length=length, guided=True)
        assert training.use_vllm and training.vllm_max_model_length == held


@pytest.mark.parametrize(
    ("options", "guided", "said"),
    [
        ({"installed": False}, True, "guided_turns needs vLLM, which is not installed: pip install"),
        ({"use_vllm": False}, True, "guided_turns needs use_vllm: true"),
        ({"vllm_tensor_parallel_size": 2}, False, "vllm_tensor_parallel_size above 1"),
        ({"vllm_enable_sleep_mode": True}, False, "cannot sleep on a CPU"),
        ({"vllm_mode": "server"}, False, "needs CUDA: use vllm_mode: colocate"),
    ],
)
def test_what_cannot_work_is_refused(config, folder, toy_tokenizer, options, guided, said):
    with pytest.raises(UserError, match=said):
        settle(config(**options), folder, toy_tokenizer, max_length=300, guided=guided)


def test_models_that_vllm_would_serve_wrongly_are_refused(config, folder, toy_tokenizer, tmp_path):
    other = AutoConfig.from_pretrained(folder)
    other.head_dim = 64
    other.save_pretrained(tmp_path / "heads")
    with pytest.raises(UserError, match=r"heads: vLLM cannot run a Qwen2 .* \(head_dim is 64\)"):
        settle(config(), str(tmp_path / "heads"), toy_tokenizer, max_length=300, guided=False)
    Lfm2Config(head_dim=64, tie_word_embeddings=True).save_pretrained(tmp_path / "tiny")
    with pytest.raises(UserError, match=r"tiny: vLLM's build for CPUs cannot run LFM2's convolutions"):
        settle(config(), str(tmp_path / "tiny"), toy_tokenizer, max_length=300, guided=False)
    with pytest.raises(UserError, match="the tokenizer has 1001 tokens, .* and the model embeds 400"):
        settle(config(), folder, range(1001), max_length=300, guided=False)


def _server_mode(url):
    """As much of a GRPOConfig as is read, on a machine with CUDA."""
    return SimpleNamespace(
        use_vllm=True,
        device=SimpleNamespace(type="cuda"),
        vllm_mode="server",
        vllm_server_base_url=url,
        vllm_server_timeout=0.1,
        process_index=0,
    )


def test_a_server_that_is_not_up_is_given_up_before_the_trainer_is_made(config, folder, toy_tokenizer, capsys):
    config()
    with pytest.raises(UserError, match=r"start it with: VLLM_SERVER_DEV_MODE=1 .*vllm.* --port 9 .*nccl"):
        settle(_server_mode("http://127.0.0.1:9"), folder, toy_tokenizer, max_length=300, guided=False)


def test_weights_are_sent_once_a_step_and_a_sleeping_vllm_wakes(toy_tokenizer):
    did: list[str] = []

    def note(what):
        return lambda *args, **kwargs: did.append(what)

    llm = SimpleNamespace(
        wake_up=note("wake"),
        sleep=note("sleep"),
        llm_engine=SimpleNamespace(model_config=SimpleNamespace(max_model_len=200)),
    )
    generation = SimpleNamespace(
        mode="colocate", enable_sleep_mode=False, _llm_weights_sleeping=False, llm=llm, sync_weights=note("sync")
    )
    trainer = SimpleNamespace(
        vllm_generation=generation,
        processing_class=toy_tokenizer,
        state=SimpleNamespace(global_step=3),
        _last_loaded_step=-1,
        accelerator=SimpleNamespace(wait_for_everyone=note("together")),
    )
    for _ in range(2):
        with vllm_engine(trainer, 5, 4096, False) as engine:
            assert (engine.capacity, engine.max_length) == (5, 200)
    assert did == ["sync", "together"]
    generation.enable_sleep_mode = generation._llm_weights_sleeping = True  # its weights are gone
    with vllm_engine(trainer, 5, 4096, False):
        pass
    assert did[2:] == ["sync", "together", "wake", "sleep"] and generation._llm_weights_sleeping
