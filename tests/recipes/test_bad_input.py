"""Whatever is wrong with what a recipe is given, it says so in one line, ends with 2 and writes nothing."""

import shutil

import pytest


def _files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


CASES = [
    ("sft", {"lerning_rate": 1}, "sft.yaml: unknown key 'lerning_rate'; did you mean 'learning_rate'?"),
    ("sft", {"max_steps": "many"}, "invalid int value: 'many'"),
    ("sft", {"trajectories": "none.jsonl"}, "none.jsonl: no such file"),
    ("sft", {"trajectories": "wrong.jsonl"}, "wrong.jsonl:2: question: unknown field 'texxt' in a Question"),
    ("sft", {"model_name_or_path": "./no-model"}, "./no-model: no such model folder"),
    ("sft", {"model_name_or_path": "no-tokenizer"}, "no-tokenizer: no tokenizer here"),
    ("sft", {"model_name_or_path": "other-vocabulary"}, "other-vocabulary: the tokenizer has 400 tokens and the model"),
    ("sft", {"prompt": "no.jinja"}, "no.jinja"),
    ("sft", {"chat_template_path": "plain.jinja"}, "plain.jinja: marks no text as generated"),
    ("sft", {"max_length": 30}, "the prompt of row 1 takes"),
    ("sft", {"model_name_or_path": "model", "eval_strategy": "steps"}, "pass an `eval_dataset`"),
    ("sft", {"model_name_or_path": "model", "padding_free": True, "max_length": 700}, "packing: a lfm2 model"),
    ("sft", {"model_name_or_path": "model", "output_dir": "sft.yaml"}, "output_dir: 'sft.yaml': File exists"),
    ("sft", {"model_name_or_path": "model", "dtype": "float99"}, "dtype: 'float99' is not one of auto, bfloat16"),
    ("sft", {"structures": "2i"}, "structures: expected a list or null, got '2i'"),
    ("sft", {"model_name_or_path": "model", "use_peft": True, "lora_task_type": "SEQ_X"}, "Invalid task type: 'SEQ_X'"),
    ("grpo", {"max_episode_tokens": 30, "model_name_or_path": "model"}, "an episode may take 30 (max_episode_tokens)"),
    ("grpo", {"model_name_or_path": "model", "use_liger_kernel": True}, "the package liger_kernel is not installed"),
    ("grpo", {"kg": "no-kg", "model_name_or_path": "model"}, "no-kg"),
    ("grpo", {"kg": "half-built", "model_name_or_path": "model"}, "half-built"),
    ("grpo", {"questions": "wrong.jsonl", "model_name_or_path": "model"}, "wrong.jsonl:1: unknown field"),
    (
        "grpo",
        {"questions": "elsewhere.jsonl", "model_name_or_path": "model"},
        "elsewhere.jsonl:1: question toy-1: unknown",
    ),
    ("grpo", {"max_turns": 1, "model_name_or_path": "model"}, "max_turns: must be at least 2, got 1"),
    ("grpo", {"max_errors": 0, "model_name_or_path": "model"}, "max_errors: must be at least 1, got 0"),
    ("grpo", {"rollout_rows": 0, "model_name_or_path": "model"}, "rollout_rows: must be at least 1, got 0"),
    ("sft", {"tiny_layers": 0}, "tiny_layers: must be at least 1, got 0"),
    ("sft", {"max_trajectories": 0}, "max_trajectories: must be at least 1, got 0"),
    ("sft", {"max_steps": 0}, "max_steps: 0 would train nothing"),
    ("sft", {"output_dir": None}, "sft.yaml: output_dir: name a folder"),
    ("sft", {"min_hops": 2, "max_hops": 1}, "min_hops: 2 is above max_hops: 1"),
    ("sft", {"min_hops": 9}, "trajectories.jsonl: none of its 4 records passes the filters (min_hops: 9)"),
    ("grpo", {"model_name_or_path": "tiny", "demo_data": "demo"}, "untrained: train it first"),
    ("curriculum", {"eval_rows": 0}, "eval_rows: must be at least 1, got 0"),
    ("curriculum", {"common": {"max_turns": 0}}, "max_turns: must be at least 2, got 0"),
    ("grpo", {"max_turns": "ten"}, "invalid int value: 'ten'"),
    ("grpo", {"max_turns": None}, "max_turns: expected a whole number, got None"),
    ("grpo", {"rewards": "em"}, "rewards: expected a list, got 'em'"),
    ("grpo", {"temperature": float("nan")}, "temperature: must be at least 1e-06, got nan"),
    ("grpo", {"temperature": 0.0}, "temperature: must be at least 1e-06, got 0.0"),
    ("grpo", {"loss_type": "ppo"}, "loss_type: 'ppo' is not one of bnpo, cispo"),
    ("grpo", {"scale_rewards": "some"}, "scale_rewards: 'some' is not one of batch, group, none"),
    ("grpo", {"reward_weights": [float("nan")]}, "reward_weights: expected numbers, got [nan]"),
    ("grpo", {"model_name_or_path": "model", "eval_strategy": "steps"}, "pass an `eval_dataset`"),
    ("curriculum", {"seed": -1}, "seed: must be at least 0, got -1"),
    ("curriculum", {"seed": 2**32}, "seed: must be below 4294967296"),
    ("curriculum", {"run": 5}, "run: expected a string, got 5"),
    ("curriculum", {"run": ""}, "run: name a folder"),
    ("curriculum", {"common": [1]}, "common: expected a mapping, got [1]"),
    ("curriculum", {"launch": "--quiet"}, "launch: expected a list"),
    ("curriculum", {"eval_questions": {"dev": 5}}, "eval_questions: expected a mapping, got {'dev': 5}"),
    ("curriculum", {"eval_temperature": float("inf")}, "eval_temperature: expected a number, got inf"),
    ("curriculum", {"stages": [{"name": "a/b", "recipe": "sft"}]}, "stage 1: needs a name of its own"),
    ("curriculum", {"stages": [{"name": 5, "recipe": "sft"}]}, "stage 1: needs a name of its own"),
    ("curriculum", {"stages": [{"name": "a", "recipe": "sft"}]}, "stage a: trajectories is missing"),
    ("grpo", {"rewards": ["exact"]}, "unknown reward 'exact'"),
    ("grpo", {"model_name_or_path": "tiny"}, "untrained: train it first"),
    ("grpo", {"num_generations": 3, "model_name_or_path": "model"}, "generation"),
    ("curriculum", {"sed": 1}, "unknown key 'sed'; did you mean 'seed'?"),
    ("curriculum", {"stages": [{"name": "a", "recipe": "dpo"}]}, "unknown recipe 'dpo'"),
    ("curriculum", {"common": {"kgg": "kg"}}, "stage synth: unknown key 'kgg'"),
    ("curriculum", {"eval_questions": {"dev": "none.jsonl"}}, "none.jsonl: no such file"),
    ("curriculum", {"eval_questions": {"a-b": "questions.jsonl"}}, "letters, digits, _ and . only, got 'a-b'"),
    ("curriculum", {"eval_questions": {"a/b": "questions.jsonl"}}, "letters, digits, _ and . only, got 'a/b'"),
    ("curriculum", {"eval_questions": {"dev": "elsewhere.jsonl"}}, "unknown topic entity 'Atlantis'"),
    ("curriculum", {"kg": "no-kg"}, "no-kg"),
    ("curriculum", {"evaluate_start": True}, "evaluate_start: the model tiny does not exist before stage synth"),
]


@pytest.mark.parametrize(("recipe", "changes", "said"), CASES, ids=lambda value: str(value)[:40])
def test_one_line_and_no_output(recipe, changes, said, request, workspace, run_here, toy_tokenizer):
    from graphwalker.train import tiny

    for name in ("model", "no-tokenizer"):
        tiny.make_model(toy_tokenizer, width=32, layers=2, heads=1).save_pretrained(workspace / name)
    toy_tokenizer.save_pretrained(workspace / "model")
    other = tiny.train_tokenizer(["of another model"], 300)
    tiny.make_model(other, width=32, layers=2, heads=1).save_pretrained(workspace / "other-vocabulary")
    toy_tokenizer.save_pretrained(workspace / "other-vocabulary")
    (workspace / "plain.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    shutil.copytree(workspace / "kg", workspace / "half-built")
    (workspace / "half-built" / "meta.json").unlink()
    lines = (workspace / "trajectories.jsonl").read_text().splitlines()
    (workspace / "wrong.jsonl").write_text(lines[0] + "\n" + lines[1].replace('"text"', '"texxt"', 1) + "\n")
    question = (workspace / "questions.jsonl").read_text().splitlines()[0]
    elsewhere = question.replace('"France"', '"Atlantis"').replace("m.fr", "m.none")
    (workspace / "elsewhere.jsonl").write_text(elsewhere + "\n")
    config = workspace.config(f"{recipe}.yaml", {**request.getfixturevalue(recipe), **changes})
    before = _files(workspace.folder)
    status, error = run_here(recipe, "--config", config)
    assert status == 2
    assert [line for line in error.splitlines() if line.startswith("error: ") and said in line], error
    assert "Traceback" not in error
    new = [name for name in _files(workspace.folder) if name not in before]
    assert not [name for name in new if not name.startswith("models")], new  # the tiny model's cache is whole


def test_the_tail_of_a_curriculum_is_checked_before_its_first_stage(curriculum, workspace, run_here):
    for changes, said in (
        ({"lerning_rate": 1}, "stage rl: unknown key 'lerning_rate'"),
        ({"questions": "none.jsonl"}, "stage rl: questions: none.jsonl: no such file"),
        ({"questions": None}, "stage rl: questions is missing"),
        ({"questions": 5}, "stage rl: questions: expected a string or null, got 5"),
        ({"learning_rate": "abc"}, "stage rl: argument --learning_rate/--learning-rate: invalid float value: 'abc'"),
        ({"learning_rate": -1.0}, "stage rl: learning_rate: must be at least 0, got -1.0"),
        ({"per_device_train_batch_size": 0}, "stage rl: per_device_train_batch_size: must be at least 1, got 0"),
        ({"max_steps": [1]}, "stage rl: max_steps: expected a whole number, got [1]"),
        ({"max_turns": "ten"}, "stage rl: argument --max_turns/--max-turns: invalid int value: 'ten'"),
        ({"max_turns": 1}, "stage rl: max_turns: must be at least 2, got 1"),
        ({"max_errors": 0}, "stage rl: max_errors: must be at least 1, got 0"),
        ({"max_steps": 0}, "stage rl: max_steps: 0 would train nothing"),
        ({"model_name_or_path": "tiny"}, "stage rl: the model tiny is untrained"),
        ({"structures": ["7-hop"]}, "stage rl: questions.jsonl: none of its 4 records passes the filters (structures:"),
        ({"min_hops": 2, "max_hops": 1}, "stage rl: min_hops: 2 is above max_hops: 1"),
    ):
        stages = [curriculum["stages"][0], {**curriculum["stages"][1], **changes}]
        config = workspace.config("c.yaml", {**curriculum, "stages": stages})
        status, error = run_here("curriculum", "--config", config)
        assert status == 2 and said in error
    order = ("--curriculum_order", "rl")
    status, error = run_here("curriculum", "--config", workspace.config("c.yaml", curriculum), *order)
    assert status == 2 and "stage rl: the model tiny is untrained: train it first with recipes/sft.py" in error
    assert not (workspace / "run").exists()


def test_by_hand(workspace, sft):
    """As typed at a prompt: the exit status, one line, no traceback."""
    config = workspace.config("sft.yaml", {**sft, "packing": "yes", "max_stps": 3})
    done = workspace.recipe("sft", "--config", config)
    assert done.returncode == 2
    assert "error: sft.yaml: unknown key 'max_stps'; did you mean 'max_steps'?" in done.stderr.splitlines()
    assert "Traceback" not in done.stderr
    assert not (workspace / "out").exists()
