"""ArG's rows token by token, and that training with them moves every reflection token's row."""

import argparse
import dataclasses

import pytest
from trl import ModelConfig, SFTTrainer

from graphwalker.commands import mask
from graphwalker.errors import UserError
from graphwalker.files import write_jsonl
from graphwalker.inference.load import load_model, load_tokenizer
from graphwalker.protocol.prompts import Prompt
from graphwalker.protocol.reflection import ALL, token_ids
from graphwalker.protocol.reflection_data import Branch, ReflectionRecord
from graphwalker.train import masks, models, tiny
from graphwalker.train.reflection_rows import RowMaker, read_records
from graphwalker.train.reflection_vocab import with_reflection_tokens
from graphwalker.train.session import train_and_save
from graphwalker.types import Entity, Question

FRANCE = Entity("France", "m.fr")
PREFIX = "[Relation Retrieval]<paragraph>location.country.capital</paragraph>[Fully Relevant][Entity Retrieval]"
PATH = PREFIX + "<paragraph>Paris</paragraph>[Fully Relevant][Fully Reasonable][No Retrieval]Paris[Utility:5]"
SEEN = "<paragraph>Lyon</paragraph>"
BRANCHES = (
    Branch("entity", len(PREFIX), SEEN, "[Unrelevant]"),
    Branch(
        "rationality", len(PREFIX), SEEN + "[Partially Relevant]", "[Unreasonable][No Retrieval]Paris[Utility:3]", True
    ),
)
RECORD = ReflectionRecord(Question("q", "Capital?", (FRANCE, Entity("Spain"))), FRANCE, PATH, BRANCHES)
ASKED = "<|im_start|>user\nQuestion: Capital?\nTopic entities: France<|im_end|>\n<|im_start|>assistant\n"
END = "<|im_end|>"


@pytest.fixture(scope="module")
def base(tmp_path_factory, toy_tokenizer) -> str:
    """A tiny model with the reflection tokens, in a folder."""
    out = tmp_path_factory.mktemp("arg")
    tiny.make_model(toy_tokenizer, "qwen2", width=32, layers=2, heads=2).save_pretrained(out / "plain")
    toy_tokenizer.save_pretrained(out / "plain")
    return with_reflection_tokens(str(out / "plain"), str(out / "cache"))


@pytest.fixture
def tokenizer(base):
    return load_tokenizer(base)


def _pieces(tokenizer, **options) -> list[list[tuple[bool, str]]]:
    return [list(row.pieces(tokenizer)) for row in RowMaker(tokenizer, Prompt("compact"), **options).rows(RECORD)]


def test_a_path_is_trained_whole_and_a_candidate_by_its_label(tokenizer):
    path, entity, stop = _pieces(tokenizer)
    assert path == [(False, ASKED), (True, PATH + END)]
    assert entity == [(False, ASKED + PREFIX + SEEN), (True, "[Unrelevant]")]
    assert stop == [
        (False, ASKED + PREFIX + SEEN + "[Partially Relevant]"),
        (True, "[Unreasonable][No Retrieval]Paris[Utility:3]" + END),
    ]


def test_paragraphs_are_masked_on_request(tokenizer):
    path, entity, _ = _pieces(tokenizer, paragraphs="none")
    assert path == [
        (False, ASKED),
        (True, "[Relation Retrieval]<paragraph>"),
        (False, "location.country.capital</paragraph>"),
        (True, "[Fully Relevant][Entity Retrieval]<paragraph>"),
        (False, "Paris</paragraph>"),
        (True, "[Fully Relevant][Fully Reasonable][No Retrieval]Paris[Utility:5]" + END),
    ]
    assert entity[-1] == (True, "[Unrelevant]")


def test_of_paragraphs_relations_alone_are_trained_on_request(tokenizer):
    path, entity, _ = _pieces(tokenizer, paragraphs="relations")
    assert path == [
        (False, ASKED),
        (True, PREFIX + "<paragraph>"),
        (False, "Paris</paragraph>"),
        (True, "[Fully Relevant][Fully Reasonable][No Retrieval]Paris[Utility:5]" + END),
    ]
    assert entity[-1] == (True, "[Unrelevant]")


def test_paragraphs_of_candidates_are_trained_on_request(tokenizer):
    _, entity, _ = _pieces(tokenizer, paragraphs="all")
    assert entity == [(False, ASKED + PREFIX + "<paragraph>"), (True, "Lyon</paragraph>[Unrelevant]")]


def test_the_command_shows_which_tokens_of_a_text_are_trained(tmp_path, base, capsys):
    write_jsonl(tmp_path / "arg.jsonl", [RECORD])
    parser = argparse.ArgumentParser()
    mask.add_parser(parser.add_subparsers())
    args = [base, str(tmp_path / "arg.jsonl"), "--prompt", "compact", "--paragraphs", "relations", "--branches", "1"]
    assert mask.run(parser.parse_args(["mask", *args])) == 0
    shown = [piece.partition("⟧")[0] for piece in capsys.readouterr().out.split("⟦")[1:]]
    after = "[Fully Relevant][Fully Reasonable][No Retrieval]Paris[Utility:5]" + END
    assert shown[:2] == [PREFIX + "<paragraph>", after]
    assert shown[2:] in (["[Unrelevant]"], ["[Unreasonable][No Retrieval]Paris[Utility:3]" + END])


def test_the_pieces_are_the_whole_text_tokenised_at_once(tokenizer):
    row, *_ = RowMaker(tokenizer, Prompt("compact")).rows(RECORD)
    assert row.ids == tokenizer(ASKED + PATH + END, add_special_tokens=False)["input_ids"]


def test_a_path_that_a_label_cut_has_no_end(tokenizer):
    cut = dataclasses.replace(RECORD, text=PREFIX, branches=(), ended=False)
    (row,) = RowMaker(tokenizer, Prompt("compact")).rows(cut)
    assert list(row.pieces(tokenizer)) == [(False, ASKED), (True, PREFIX)]


def test_branches_are_drawn_by_the_seed(tokenizer):
    many = dataclasses.replace(RECORD, branches=tuple(Branch("entity", 0, "", token) for token in ALL))
    drawn = [RowMaker(tokenizer, Prompt("compact"), branches=3, seed=seed).rows(many) for seed in (0, 0, 1)]
    assert [len(rows) for rows in drawn] == [4, 4, 4]
    assert drawn[0] == drawn[1] != drawn[2]


def test_what_cannot_be_trained_is_refused(toy_tokenizer, tmp_path):
    with pytest.raises(UserError, match="the model to train: 16 of the 16 reflection tokens are missing"):
        RowMaker(toy_tokenizer, Prompt("compact"))
    write_jsonl(tmp_path / "none.jsonl", [])
    with pytest.raises(UserError, match="no training texts"):
        read_records(str(tmp_path / "none.jsonl"))


def test_packed_texts_keep_their_labels(base, tokenizer, sft_config):
    model, _ = models.load_for_training(base, tokenizer, ModelConfig())
    maker = RowMaker(tokenizer, Prompt("compact"))
    args = sft_config(assistant_only_loss=False, packing=True, max_length=400)
    trainer = SFTTrainer(model=model, args=args, train_dataset=maker.dataset([RECORD] * 2), processing_class=tokenizer)
    rows = trainer.train_dataset
    assert len(rows) < 6 == sum(map(len, rows["seq_lengths"]))
    trained = sorted(label for row in rows["labels"] for label in row if label != -100)
    assert trained == sorted(
        i for row in maker.rows(RECORD) * 2 for i, on in zip(row.ids, row.trained, strict=True) if on
    )


@pytest.mark.parametrize("lora", [False, True])
def test_every_new_row_moves_in_training_and_is_saved(base, tokenizer, sft_config, tmp_path, lora):
    arguments = ModelConfig(use_peft=lora, lora_r=4, lora_modules_to_save=["embed_tokens", "lm_head"] if lora else None)
    model, config = models.load_for_training(base, tokenizer, arguments)
    every = dataclasses.replace(RECORD, branches=(Branch("entity", 0, "", "".join(ALL), True),))  # read, and written
    rows = RowMaker(tokenizer, Prompt("compact")).dataset([every])
    args = sft_config(assistant_only_loss=False, learning_rate=0.01, output_dir=str(tmp_path / "out"))
    trainer = SFTTrainer(model=model, args=args, train_dataset=rows, processing_class=tokenizer, peft_config=config)
    assert trainer.train_dataset["labels"] == rows["labels"]
    masks.check_sft(trainer, len(rows))
    train_and_save(trainer)
    before = load_model(base, tokenizer, "float32")
    after = load_model(str(tmp_path / "out"), load_tokenizer(str(tmp_path / "out")), "float32")
    ids = list(token_ids(load_tokenizer(str(tmp_path / "out")).get_vocab(), "out").values())
    for layer in ("get_input_embeddings", "get_output_embeddings"):
        old, new = (getattr(m, layer)().weight.detach() for m in (before, after))
        moved = (new - old).abs().amax(dim=1)
        assert (moved[ids] > 1e-4).all(), [token for token, i in zip(ALL, ids, strict=True) if moved[i] <= 1e-4]


def test_lora_that_would_leave_the_tokens_untrained_is_refused(base, tokenizer):
    with pytest.raises(UserError, match=r"\[Relation Retrieval\].*are new to this model.*lora_modules_to_save"):
        models.load_for_training(base, tokenizer, ModelConfig(use_peft=True, lora_r=4))
