"""Run folders: rescoring without a model, and the console's tables."""

import json

import pytest

from graphwalker.cli import main
from graphwalker.errors import FileFormatError, UserError
from graphwalker.metrics.run_folder import evaluations, rescore
from graphwalker.report.stages import format_gains, format_stage_table, stage_gains, stage_table


def files(run):
    return {path: path.read_bytes() for path in sorted(run.glob("eval/*/metrics.json"))}


def test_evaluations_come_in_the_order_of_the_stages(run_folder):
    stages = [(e.stage, e.split, e.decoding) for e in evaluations(run_folder)]
    assert stages == [
        (stage, "test_entity", decoding)
        for stage in ("base", "graphsynth", "graphroll", "grpo")
        for decoding in ("greedy", "sampled")
    ]


def test_rescore_gives_back_lost_and_doctored_metrics(run_folder):
    before = files(run_folder)
    first, second, *_ = before
    first.unlink()
    second.write_text(json.dumps({**json.loads(before[second]), "overall": {}}))
    rescore(run_folder)
    assert files(run_folder) == before


def test_rescore_keeps_the_seed_that_was_stored(run_folder):
    rescore(run_folder, seed=7)
    seven = files(run_folder)
    rescore(run_folder)
    assert files(run_folder) == seven


def test_a_broken_line_is_named_and_changes_nothing(run_folder):
    broken = run_folder / "eval" / "grpo-test_entity-sampled" / "trajectories.jsonl"
    lines = broken.read_text(encoding="utf-8").splitlines()
    broken.write_text("\n".join([*lines[:2], lines[2].replace('"ending"', '"endnig"'), *lines[3:]]), encoding="utf-8")
    for metrics in run_folder.glob("eval/*/metrics.json"):
        metrics.write_text("{}")
    before = files(run_folder)
    with pytest.raises(FileFormatError, match=r"trajectories.jsonl:3: unknown field 'endnig'"):
        rescore(run_folder)
    assert files(run_folder) == before


def test_a_folder_with_trajectories_is_a_run_of_its_own(run_folder):
    folder = run_folder / "eval" / "grpo-test_entity-greedy"
    [evaluation] = rescore(folder)
    assert evaluation.path == folder and stage_table(folder)[0].questions == 12


@pytest.mark.parametrize("make", [lambda run: run / "nowhere", lambda run: run / "stages"])
def test_what_is_no_run_is_said_so(run_folder, make):
    with pytest.raises(UserError, match="no such run folder|no evaluations.*trajectories.jsonl, or .*eval"):
        rescore(make(run_folder))


def test_metrics_of_another_version_are_not_shown(run_folder):
    file = next(run_folder.glob("eval/*/metrics.json"))
    file.write_text(json.dumps({**json.loads(file.read_text()), "metrics_version": 0}))
    with pytest.raises(UserError, match="metrics_version is 0.*graphwalker rescore"):
        stage_table(run_folder)
    file.unlink()
    with pytest.raises(UserError, match="no such file.*graphwalker rescore"):
        stage_table(run_folder)


def test_the_stage_table_as_text(run_folder):
    lines = format_stage_table(stage_table(run_folder)).splitlines()
    assert len(lines) == 2 + 8
    assert lines[0].split()[:4] == ["stage", "split", "decoding", "questions"] and "1-hop  2-hop" in lines[0]
    assert lines[2].startswith("base  ") and "0.000 [0.000, 0.000]" in lines[2]
    assert "12 x 4" in lines[3] and max(map(len, lines)) == len(lines[1])


def test_two_equal_runs_print_one_table(run_folder, tmp_path):
    from_here = format_stage_table(stage_table(run_folder))
    copy = tmp_path / "elsewhere"
    run_folder.rename(copy)
    rescore(copy)
    assert format_stage_table(stage_table(copy)) == from_here


def test_gains_compare_each_stage_with_the_one_before(run_folder):
    gains = stage_gains(run_folder)
    assert [(g.before, g.stage) for g in gains if g.decoding == "greedy"] == [
        ("base", "graphsynth"),
        ("graphsynth", "graphroll"),
        ("graphroll", "grpo"),
    ]
    assert gains[0].result["excludes_zero"] and "excludes 0" in format_gains(gains)
    assert format_gains([]) == ""


def test_the_rescore_command(run_folder, capsys):
    next(run_folder.glob("eval/*/metrics.json")).unlink()
    assert main(["rescore", str(run_folder)]) == 0
    shown = capsys.readouterr().out
    assert format_stage_table(stage_table(run_folder)) in shown and "Gain in em_set" in shown
    assert main(["rescore", str(run_folder / "nowhere")]) == 2
    assert "graphwalker: error:" in capsys.readouterr().err
