"""`graphwalker eval` from the command line, with an untrained model."""

import json
import shutil
import subprocess
import sys

import pytest

from graphwalker.cli import main
from graphwalker.files import read_jsonl, write_jsonl
from graphwalker.inference import partial
from graphwalker.train import tiny
from graphwalker.types import Trajectory


@pytest.fixture(scope="module")
def inputs(toy_tokenizer, toy_tasks, toy_kg, tmp_path_factory):
    """A folder with `model`, `questions.jsonl` and the KG."""
    folder = tmp_path_factory.mktemp("eval")
    tiny.make_model(toy_tokenizer, "lfm2", width=32, layers=2, heads=2).save_pretrained(folder / "model")
    toy_tokenizer.save_pretrained(folder / "model")
    write_jsonl(folder / "questions.jsonl", [question for question, _ in toy_tasks])
    shutil.copytree(toy_kg, folder / "kg")
    return folder


@pytest.fixture
def run(inputs, tmp_path, capsys):
    def call(*options, model="model", questions="questions.jsonl", kg="kg"):
        short = ("--prompt", "compact", "--turn-tokens", "8", "--episode-tokens", "400")
        status = main(
            ["eval", str(inputs / model), str(inputs / questions), "--kg", str(inputs / kg)]
            + ["--out", str(tmp_path / "out"), *short, *options]
        )
        return status, *capsys.readouterr()

    return call


def test_greedy_and_again(run, tmp_path):
    status, out, _ = run()
    assert status == 0 and "4 questions, 4 episodes" in out and "em_set" in out and "[0.000, 0.000]" in out
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["overall"]["questions"] == 4
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    status, again, _ = run()
    assert status == 0 and "is finished" in again
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    status, _, error = run("--seed", "3")
    assert status == 2 and "another evaluation (seed changed)" in error
    for name, text, said in (
        ("metrics.json", '{"metrics_version": 2}', "metrics.json: damaged"),
        ("metrics.json", "{", "metrics.json: "),
        ("config.yaml", "- a", "config.yaml: expected a mapping"),
        ("config.yaml", "1: \x01", "config.yaml:1: not YAML"),
    ):
        (tmp_path / "out" / name).write_text(text)
        status, _, error = run()
        assert status == 2 and said in error and "Traceback" not in error


def test_two_at_once_take_turns(run, tmp_path):
    """The second waits for the first, and finds that its work is done."""
    assert run()[0] == 0
    (tmp_path / "out" / "metrics.json").rename(tmp_path / "metrics.json")
    before = (tmp_path / "out" / "trajectories.jsonl").stat().st_mtime_ns
    holder = (
        "import sys, time; from pathlib import Path; from graphwalker.inference.partial import held\n"
        f"out = Path({str(tmp_path)!r}) / 'out'\n"
        "with held(out):\n"
        "    print('held', flush=True); sys.stdin.readline(); time.sleep(0.5)\n"
        "    (out.parent / 'metrics.json').rename(out / 'metrics.json')"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", holder], **pipes) as first:
        assert first.stdout.readline() == b"held\n"
        with pytest.MonkeyPatch.context() as patch:
            waited = partial.locked
            patch.setattr(partial, "locked", lambda path, busy: first.stdin.close() or waited(path, busy))
            status, out, _ = run()
    assert status == 0 and "out is being written by another process: waiting for its end" in out
    assert (tmp_path / "out" / "trajectories.jsonl").stat().st_mtime_ns == before


def test_sampled(run, tmp_path):
    status, out, _ = run("--samples", "2", "--temperature", "1", "--max-questions", "3", "--rows", "4")
    assert status == 0 and "3 questions, 6 episodes" in out
    trajectories = list(read_jsonl(tmp_path / "out" / "trajectories.jsonl", Trajectory))
    assert [t.sample for t in trajectories] == [0, 1] * 3
    assert trajectories[0].turns[0].text != trajectories[1].turns[0].text


@pytest.mark.parametrize(
    ("options", "changed", "named"),
    [
        ((), {"kg": "no-kg"}, "no-kg"),
        ((), {"questions": "none.jsonl"}, "none.jsonl: no such file"),
        ((), {"questions": "wrong.jsonl"}, "wrong.jsonl:2: unknown field 'texxt'"),
        ((), {"questions": "elsewhere.jsonl"}, "elsewhere.jsonl:1: question toy-1: unknown topic entity 'Atlantis'"),
        ((), {"questions": "twice.jsonl"}, "twice.jsonl:2: question id 'toy-1' occurs twice"),
        ((), {"questions": "empty.jsonl"}, "empty.jsonl: no questions"),
        ((), {"model": "no-model"}, "no-model: no such model folder"),
        ((), {"model": "no-tokenizer"}, "no tokenizer here"),
        (("--samples", "4"), {}, "needs a --temperature"),
        (("--samples", "4", "--temperature", "1e-300"), {}, "needs a --temperature"),
        (("--prompt", "no.jinja"), {}, "no.jinja"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(run, inputs, tmp_path, options, changed, named):
    good = (inputs / "questions.jsonl").read_text().splitlines()[0]
    (inputs / "wrong.jsonl").write_text(good + "\n" + good.replace('"text"', '"texxt"') + "\n")
    (inputs / "elsewhere.jsonl").write_text(good.replace('"France"', '"Atlantis"').replace("m.fr", "m.none") + "\n")
    (inputs / "twice.jsonl").write_text(f"{good}\n{good}\n")
    (inputs / "empty.jsonl").touch()
    shutil.copytree(inputs / "model", inputs / "no-tokenizer", dirs_exist_ok=True)
    for file in (inputs / "no-tokenizer").glob("tokenizer*"):
        file.unlink()
    status, _, error = run(*options, **changed)
    said = [line for line in error.splitlines() if line.startswith("graphwalker: error:")]
    assert status == 2 and len(said) == 1 and named in said[0]
    assert not (tmp_path / "out").exists()
