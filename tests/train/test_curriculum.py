"""Stages from one config: each starts from the last one's checkpoint, a run keeps the config it was begun with."""

from dataclasses import replace

import pytest
import yaml

from graphwalker.errors import UserError
from graphwalker.inference.configs import EvaluationConfig
from graphwalker.train.curriculum import CurriculumConfig, check_unchanged, claim, set_keys, stage_flags, stages

CONFIG = CurriculumConfig(
    run="runs/x",
    model_name_or_path="start",
    seed=3,
    common={"kg": "kg", "max_steps": 5},
    stages=[
        {"name": "one", "recipe": "sft", "trajectories": "a.jsonl"},
        {"name": "two", "recipe": "grpo", "evaluate": False, "max_steps": 9, "questions": "b.jsonl"},
    ],
)


MIX = replace(
    CONFIG,
    common={"kg": "kg"},
    stages=[
        {
            "name": "synth",
            "recipe": "sft",
            "trajectories": "a.jsonl",
            "max_steps": 20,
            "max_hops": 2,
            "warmup_steps": 3,
        },
        {"name": "roll", "recipe": "sft", "trajectories": "b.jsonl", "max_steps": 5, "max_trajectories": 9},
        {"name": "grpo", "recipe": "grpo", "questions": "c.jsonl", "max_steps": 1},
    ],
)


def test_a_stage_has_its_own_keys_and_the_common_ones():
    one, two = stages(CONFIG)
    assert one.config == {"seed": 3, "kg": "kg", "max_steps": 5, "trajectories": "a.jsonl"}
    assert two.config["max_steps"] == 9
    assert (one.evaluate, two.evaluate) == (True, False) and "evaluate" not in two.config


@pytest.mark.parametrize(
    ("order", "names"),
    [
        (None, ["synth", "roll", "grpo"]),
        ("roll,synth,grpo", ["roll", "synth", "grpo"]),
        ("roll, grpo", ["roll", "grpo"]),
        ("synth+roll,grpo", ["synth+roll", "grpo"]),
    ],
)
def test_order(order, names):
    assert [stage.name for stage in stages(replace(MIX, curriculum_order=order))] == names


def test_mixed_stages_are_one_with_the_steps_of_all_and_the_first_ones_settings():
    (mixed,) = stages(replace(MIX, curriculum_order="synth+roll"))
    sources = [{"file": "a.jsonl", "max_hops": 2}, {"file": "b.jsonl", "limit": 9}]
    settings = {"seed": 3, "kg": "kg", "warmup_steps": 3, "max_steps": 25}
    assert mixed.config == {**settings, "mixture": sources}
    weights = {"name": "w", "recipe": "sft", "mixture": [{"file": "c", "weight": 2}]}
    with pytest.raises(UserError, match="synth.w: w has weights"):
        stages(replace(MIX, stages=[*MIX.stages, weights], curriculum_order="synth+w"))


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("roll,sinth", "'sinth' is no stage; the stages are synth, roll, grpo"),
        ("roll,roll", "'roll' is named twice"),
        ("", "'' is no stage"),
        ("roll+grpo", r"stages of one recipe can be mixed, these are \['grpo', 'sft'\]"),
    ],
)
def test_mistakes_in_the_order(order, message):
    with pytest.raises(UserError, match=message):
        stages(replace(MIX, curriculum_order=order))


def test_flags_for_one_stage_and_the_runs_name():
    flags = ["--seed", "1", "--grpo.beta=1e-3", "--grpo.rewards", "[em, f1]", "--common.kg=other", "--run=x"]
    rest, keys = stage_flags(flags)
    assert rest == ["--seed", "1", "--run=x"]
    config = replace(MIX, run="runs/{curriculum_order}/{grpo.rewards}-{seed}", stages=[dict(s) for s in MIX.stages])
    set_keys(config, keys)
    assert config.run == "runs/synth,roll,grpo/em+f1-3"
    *_, grpo = stages(config)
    assert (
        grpo.config["kg"] == "other" and float(grpo.config["beta"]) == 1e-3 and grpo.config["rewards"] == ["em", "f1"]
    )
    for flags, message in (
        (["--grp.beta=1"], "grp is no stage; the stages are synth, roll, grpo"),
        (["--grpo.beta"], "--grpo.beta: expected one argument"),
        (["--grpo.beta=[1"], "--grpo.beta:1: not YAML"),
    ):
        with pytest.raises(UserError, match=message):
            set_keys(replace(MIX), stage_flags(flags)[1])
    with pytest.raises(UserError, match="run: {grpo.bta} is not set"):
        set_keys(replace(MIX, run="{grpo.bta}"), {})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"recipe": "sft"}], "stage 1: needs a name"),
        ([{"name": "a-b", "recipe": "sft"}], "letters, digits, _ and . only, got 'a-b'"),
        ([{"name": "a", "recipe": "sft"}] * 2, "stage 2: needs a name of its own"),
        ([{"name": "a", "recipe": "dpo"}], "stage a: unknown recipe 'dpo'; one of sft, grpo"),
        ([{"name": "a", "recipe": "sft", "output_dir": "x"}], "output_dir is not yours to set"),
        (["a"], "stage 1: expected a mapping"),
        ([], "stages: none are given"),
        ([{"name": "a", "recipe": "sft", "gate": {"at_least": 1}}], "stage a: gate: expected a mapping with split"),
        (
            [{"name": "a", "recipe": "sft", "gate": {"split": "x", "at_least": "y"}}],
            "gate: at_least: expected a number",
        ),
        (
            [{"name": "a", "recipe": "sft", "gate": {"split": "x", "at_least": 50}}],
            "gate: at_least: em_set is 1 at most, got 50",
        ),
        (
            [{"name": "a", "recipe": "sft", "gate": {"split": "x", "at_least": 1, "metric": "exact"}}],
            "gate: metric: 'exact' is not one of em, ",
        ),
    ],
)
def test_mistakes(given, message):
    with pytest.raises(UserError, match=message):
        list(stages(replace(CONFIG, stages=given)))


def test_the_name_of_the_start_is_taken_where_it_is_evaluated():
    named = replace(CONFIG, stages=[{"name": "start", "recipe": "sft"}])
    assert [stage.name for stage in stages(named)] == ["start"]
    with pytest.raises(UserError, match="a name of its own .* got 'start'"):
        list(stages(replace(named, evaluate_start=True)))


def test_a_run_belongs_to_one_config(tmp_path):
    config = replace(CONFIG, run=str(tmp_path / "run"))
    settings = EvaluationConfig(eval_questions={"test": "q.jsonl"})
    check_unchanged(config, settings)
    assert not (tmp_path / "run").exists()
    with claim(config, settings):
        pass
    text = (tmp_path / "run" / "config.yaml").read_text()
    assert yaml.safe_load(text)["eval_questions"] == {"test": "q.jsonl"}
    with claim(config, settings):
        pass
    changed = (replace(config, seed=4), replace(settings, eval_samples=2))
    with pytest.raises(UserError, match=r"another config \(eval_samples, seed changed\)"), claim(*changed):
        pass
    assert (tmp_path / "run" / "config.yaml").read_text() == text
