"""A run with damaged files: one line that names the file, or the value left out; never a traceback."""

import json

import pytest

from graphwalker.errors import UserError
from graphwalker.report.page import render_report


@pytest.mark.parametrize("text", ['{"log_history": 5}', '{"log_history": null}', "[]", "", '{"log', "[" * 100_000])
def test_a_damaged_trainer_state_is_named(run_folder, text):
    state = next(run_folder.glob("stages/*/trainer_state.json"))
    state.write_text(text)
    with pytest.raises(UserError, match="trainer_state.json: no trainer state with a log_history") as caught:
        render_report(run_folder)
    assert str(state) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("loss", [1e308, -1e308, 1e99, 5e-324, 1e-310, float("nan"), float("inf"), 10**400, "x", None])
def test_losses_that_no_chart_can_show(run_folder, loss):
    state = next(run_folder.glob("stages/*/trainer_state.json"))
    log = [{"step": i, "loss": value} for i, value in enumerate([0.0, loss, -loss if isinstance(loss, float) else 1.0])]
    state.write_text(json.dumps({"log_history": [*log, 5, None, {"step": loss, "loss": 1.0}]}))
    page = render_report(run_folder)
    assert "nan" not in page.split('id="curves"')[1].split('id="walks"')[0]


def _edits():
    yield "no overall", lambda m: m.pop("overall")
    yield "overall is a list", lambda m: m.update(overall=[])
    yield "no by_structure", lambda m: m.pop("by_structure")
    yield "no em_set", lambda m: m["overall"]["metrics"].pop("em_set")
    yield "a text for a value", lambda m: m["overall"]["metrics"]["em"].update(value="x")
    yield "half an interval", lambda m: m["overall"]["metrics"]["em"].update(low=None)
    yield "an endless value", lambda m: m["overall"]["metrics"]["em"].update(value=float("inf"))
    yield "an empty group", lambda m: m["by_hops"].update({"1": {}})
    yield "a null group", lambda m: m["by_structure"].update({"1-hop": None})
    yield "pass at x", lambda m: m["overall"]["pass_at_k"]["em"].update(x={})
    yield "no endings", lambda m: m.update(endings={})
    yield "outages in words", lambda m: m.update(outages={"timeout": "many"})
    yield "left_out in words", lambda m: m["left_out"].update(outage="many")


@pytest.mark.parametrize("edit", [pytest.param(edit, id=name) for name, edit in _edits()])
def test_damaged_metrics_are_named(run_folder, edit):
    file = next(run_folder.glob("eval/*/metrics.json"))
    metrics = json.loads(file.read_text())
    edit(metrics)
    file.write_text(json.dumps(metrics))
    with pytest.raises(UserError, match=r"metrics.json: damaged; compute it again with: graphwalker rescore"):
        render_report(run_folder)


def test_what_does_not_show_in_the_config_is_made_visible(run_folder):
    (run_folder / "config.yaml").write_text("model: a\u202eb\x1b[31m\n", encoding="utf-8")
    page = render_report(run_folder)
    assert "model: a⟨U+202E⟩b⟨U+001B⟩[31m" in page
