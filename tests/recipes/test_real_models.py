"""The YAMLs of the paper's models: in step with each other, and run on two random layers of the same architecture."""

from pathlib import Path

import pytest
import yaml
from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers import models as bpe
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Gemma2Config,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

from data_pipelines.importers.counts import Counts
from data_pipelines.importers.importing import import_from
from graphwalker.files import write_jsonl
from graphwalker.protocol import chat
from graphwalker.protocol.prompts import Prompt

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
MODELS = {
    "qwen2.5-3b": "Qwen/Qwen2.5-3B-Instruct",
    "qwen2.5-7b": "Qwen/Qwen2.5-7B-Instruct",
    "llama3.1-8b": "meta-llama/Llama-3.1-8B-Instruct",
}
# family, architecture, and what ends a text in the model's own tokenizer
KINDS = {
    "qwen2.5-7b": (chat.CHATML, Qwen2Config, "<|endoftext|>"),
    "llama3.1-8b": (chat.LLAMA3, LlamaConfig, "<|end_of_text|>"),
    "gemma2-9b": (chat.GEMMA, Gemma2Config, "<eos>"),
}
ACTORS = {**{name: MODELS[name] for name in ("llama3.1-8b", "qwen2.5-7b")}, "gemma2-9b": "google/gemma-2-9b-it"}
DIALOGUES = {  # what each actor is trained on: the trajectories of its files (MCTS-KBQA, table 1), its tools
    "webqsp_cwq": ([100, 200], "freebase"),
    "webqsp_100": ([100], "freebase"),
    "grailqa": ([150], "grailqa"),
    "kqapro": ([450], "kqapro"),
}
DIALOGUE = """\
Q: Where was Ann Lee born?
Thought: First the node.
Action: SearchNodes("Ann Lee")
Observation: ['"Ann Lee" | No description.']
Thought: That is it.
Action: Done.
"""
SIZE = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
SIZE |= {"num_key_value_heads": 2, "max_position_embeddings": 4096}


def _read(stage: str, name: str) -> dict:
    return yaml.safe_load((RECIPES / stage / f"{name}.yaml").read_text("utf-8"))


@pytest.mark.parametrize("model", MODELS)
def test_the_curriculum_is_the_single_stages_in_a_row(model):
    curriculum = _read("curriculum", f"{model}_cwq")
    synth, roll, rl = (
        _read("sft", f"{model}_graphsynth"),
        _read("sft", f"{model}_graphroll"),
        _read("grpo", f"{model}_cwq"),
    )
    assert curriculum["model_name_or_path"] == synth["model_name_or_path"] == MODELS[model]
    assert roll["model_name_or_path"] == synth["output_dir"] and rl["model_name_or_path"] == roll["output_dir"]
    for stage, single in zip(curriculum["stages"], (synth, roll, rl), strict=True):
        own = {**curriculum["common"], **stage}
        names = ("name", "recipe"), ("model_name_or_path", "output_dir")
        assert {k: v for k, v in own.items() if k not in names[0]} == {
            k: v for k, v in single.items() if k not in names[1]
        }


@pytest.mark.parametrize("model", MODELS)
def test_grpo_is_as_its_authors_ran_it(model):
    values = _read("grpo", f"{model}_cwq")
    wanted = {"num_generations": 8, "learning_rate": 1e-6, "beta": 0.001, "epsilon": 0.2, "epsilon_high": 0.28}
    wanted |= {"max_turn_tokens": 512, "max_turns": 10}
    assert {key: values[key] for key in wanted} == wanted
    episodes = values["per_device_train_batch_size"] * values["gradient_accumulation_steps"] * 8  # on 8 GPUs
    assert episodes == 16 * values["num_generations"]


def _make(folder: Path, name: str, texts: list[str]) -> None:
    """Two random layers, and a tokenizer with the family's special tokens, as it comes from the hub."""
    family, config, end = KINDS[name]
    core = Tokenizer(bpe.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = [end, *family.tokens]
    core.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=600, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=family.end, bos_token=family.begin or None)
    AutoModelForCausalLM.from_config(config(vocab_size=len(tokenizer), **SIZE)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.mark.parametrize("data", DIALOGUES)
@pytest.mark.parametrize("model", ACTORS)
def test_actors_are_trained_as_table_10_says(model, data):
    values = _read("actor", f"{model}_{data}")
    limits, tools = DIALOGUES[data]
    files = values.get("mixture") or [{"limit": values["max_trajectories"]}]
    assert [file["limit"] for file in files] == limits and values["tools"] == tools
    wanted = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "num_train_epochs": 5}
    wanted |= {"max_length": 4096, "learning_rate": 1e-5, "weight_decay": 1e-3, "warmup_steps": 0}
    wanted |= {"protocol": "interactive", "assistant_only_loss": True, "model_name_or_path": ACTORS[model]}
    assert {key: values[key] for key in wanted} == wanted
    assert (values.get("attn_implementation") == "eager") == (model == "gemma2-9b")


@pytest.mark.slow
@pytest.mark.parametrize("model", ACTORS)
def test_an_actor_of_two_random_layers(model, workspace, run_here):
    """Everything of a recipe but the weights: its own prompt, template and masks, on an imported dialogue."""
    (workspace / "dialog.txt").write_text(DIALOGUE, "utf-8")
    found = list(import_from("interactive-kbqa", workspace / "dialog.txt", Counts()))
    write_jsonl(workspace / "dialogues.jsonl", found * 2)
    _make(workspace / "model", model, [chat.render(chat.messages(found[0], Prompt("interactive_kqapro")))])
    config = ["--config", str(RECIPES / "actor" / f"{model}_kqapro.yaml"), "--trajectories", "dialogues.jsonl"]
    short = ["--max_steps", "1", "--logging_steps", "1", "--model_name_or_path", "model", "--output_dir", "out"]
    status, error = run_here("actor", *config, *short)
    assert status == 0, error
    tokenizer = AutoTokenizer.from_pretrained(workspace / "out")
    assert tokenizer.chat_template == KINDS[model][0].template and tokenizer.eos_token == KINDS[model][0].end


@pytest.mark.slow
@pytest.mark.parametrize("model", sorted(MODELS.keys() & KINDS))
def test_sft_then_grpo_of_two_random_layers(model, workspace, run_here, toy_trajectories):
    texts = [chat.render(chat.messages(t, Prompt("graphwalker"))) for t in toy_trajectories]
    _make(workspace / "model", model, texts)
    data = ["--kg", "kg", "--max_steps", "1", "--gradient_accumulation_steps", "1", "--logging_steps", "1"]
    sft = ["--config", str(RECIPES / "sft" / f"{model}_graphsynth.yaml"), "--trajectories", "trajectories.jsonl"]
    status, error = run_here("sft", *sft, *data, "--model_name_or_path", "model", "--output_dir", "out/sft")
    assert status == 0, error
    tokenizer = AutoTokenizer.from_pretrained(workspace / "out/sft")
    family = KINDS[model][0]
    assert tokenizer.eos_token == family.end and tokenizer.pad_token != family.end
    assert tokenizer.chat_template == family.template  # and no token was added
    assert len(tokenizer) == len(AutoTokenizer.from_pretrained(workspace / "model"))

    grpo = ["--config", str(RECIPES / "grpo" / f"{model}_cwq.yaml"), "--questions", "questions.jsonl"]
    short = ["--max_turn_tokens", "6", "--max_turns", "3", "--per_device_train_batch_size", "8"]
    status, error = run_here("grpo", *grpo, *data, *short, "--model_name_or_path", "out/sft", "--output_dir", "out/rl")
    assert status == 0, error
    log = yaml.safe_load((workspace / "out/rl/trainer_state.json").read_text())["log_history"]
    assert log[0]["kl"] == pytest.approx(0, abs=1e-6) and log[0]["episode/turns"] > 1
