"""What is trained can be seen and counted; no token or every token is refused."""

import argparse

import pytest
from trl import SFTTrainer

from graphwalker.commands import mask
from graphwalker.errors import UserError
from graphwalker.files import write_jsonl
from graphwalker.train import masks


def test_the_command_shows_what_both_trainers_train(tmp_path, toy_tokenizer, toy_trajectories, expected, capsys):
    """Between the marks stands each turn to the letter with its end, nothing else; `expected` is SFT's and GRPO's."""
    toy_tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text("{}")
    write_jsonl(tmp_path / "t.jsonl", toy_trajectories)
    parser = argparse.ArgumentParser()
    mask.add_parser(parser.add_subparsers())
    args = [str(tmp_path / "model"), str(tmp_path / "t.jsonl"), "--prompt", "compact", "--show", "99"]
    assert mask.run(parser.parse_args(["mask", *args])) == 0
    out = capsys.readouterr().out
    shown = [piece.partition("⟧")[0] for piece in out.split("⟦")[1:]]
    assert shown == [turn.text + "<|im_end|>" for t in toy_trajectories for turn in t.turns]
    trained = sum(token is not None for t in toy_trajectories for token in expected(t).trained)
    assert f"{len(toy_trajectories)} episodes, " in out and f", {trained} trained (" in out
    with pytest.raises(UserError, match=r"no token of \d+ episodes would be trained"):
        mask.run(parser.parse_args(["mask", *args, "--max-length", "5"]))


def test_in_a_terminal_the_trained_tokens_are_coloured(toy_tokenizer, toy_trajectories):
    from rich.console import Console

    console = Console(force_terminal=True, soft_wrap=True, width=10_000, color_system="standard", highlight=False)
    ids = toy_tokenizer("a<|im_end|>", add_special_tokens=False)["input_ids"]
    with console.capture() as captured:
        mask._print(console, "q", masks.Masked([*ids, *ids], [True] * len(ids) + [False] * len(ids)), toy_tokenizer)
    assert "\x1b[1;32ma<|im_end|>\x1b[0m\x1b[2ma<|im_end|>\x1b[0m" in captured.get()


def test_sft_refuses_no_token_and_every_token(make_model, sft_config, conversations, toy_tokenizer, capsys):
    def check(**options):
        args, model = sft_config(**options), make_model()
        trainer = SFTTrainer(model=model, args=args, train_dataset=conversations, processing_class=toy_tokenizer)
        masks.check_sft(trainer, len(conversations))

    check()
    assert "left out" not in capsys.readouterr().out
    with pytest.raises(UserError, match="SFT: every token of episode 1 would be trained"):
        check(assistant_only_loss=False)
    with pytest.raises(UserError, match="SFT: no token of 0 episodes would be trained"):
        check(max_length=5)


def test_grpo_refuses_no_token_and_every_token(make_grpo, use_script, toy_tasks, monkeypatch):
    query = '<think>t</think><kg-query>get_relations("France")</kg-query>'
    for on, message in ((0, "GRPO: no token of 8 episodes"), (1, "GRPO: every token of episode 1")):
        trainer = make_grpo()
        use_script(lambda key: [query] * 10)
        run = trainer._run

        def masked(prompts, run=run, on=on):
            rollouts = run(prompts)
            for rollout in rollouts:
                rollout.mask = [on] * len(rollout.mask)
            return rollouts

        monkeypatch.setattr(trainer, "_run", masked)
        with pytest.raises(UserError, match=message):
            trainer.train()
        assert trainer.state.global_step == 0
