"""ArG's recipe as a user runs it: texts from the toy KG, a tiny model, a run that goes on, ZeRO-3, a transfer."""

import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from graphwalker import cli
from graphwalker.files import write_jsonl
from graphwalker.inference.load import load_tokenizer
from graphwalker.protocol.reflection import ALL, token_ids
from graphwalker.types import Entity, Question

LAUNCH = Path(__file__).resolve().parents[2] / "launch" / "accelerate" / "zero3_cpu.yaml"
EMBEDDINGS = "model.embed_tokens.weight"


@pytest.fixture
def arg(workspace, sft) -> dict:
    """A config, and texts made by the command."""
    france = Entity("France", "m.fr")
    gold = {"What is the capital of France?": "m.paris", "What borders France?": "m.es", "Who is near?": "m.ann2"}
    write_jsonl(
        workspace / "q.jsonl", [Question(text, text, (france,), (Entity("A", node),)) for text, node in gold.items()]
    )
    made = [str(workspace / "q.jsonl"), str(workspace / "arg.jsonl"), "--kg", str(workspace / "kg")]
    assert cli.main(["data", "arg", *made]) == 0
    config = {key: value for key, value in sft.items() if key != "trajectories"}
    return {**config, "texts": "arg.jsonl", "output_dir": "out/arg", "branches": 3}


def _losses(folder: Path) -> list[float]:
    log = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    return [entry["loss"] for entry in log if "loss" in entry]


def _moved(folder: Path, start: Path) -> torch.Tensor:
    """How far each reflection token's row is from where it began."""
    rows = list(token_ids(load_tokenizer(str(folder)).get_vocab(), "out").values())
    after, before = (load_file(place / "model.safetensors")[EMBEDDINGS][rows] for place in (folder, start))
    return (after - before).abs().amax(dim=1)


@pytest.mark.slow
def test_a_generator_is_trained_goes_on_and_is_transferred(workspace, arg, run_here):
    config = workspace.config("arg.yaml", arg)
    assert run_here("arg", "--config", config)[0] == 0
    out = workspace / "out/arg"
    assert len(_losses(out)) == 4
    (start,) = (workspace / "models").glob("*-reflection")
    assert (_moved(out, start) > 1e-5).all()

    # interrupted after its first checkpoint, it ends where it ended before
    whole = load_file(out / "model.safetensors")
    (again := workspace / "out/again").mkdir()
    (out / "checkpoint-2").rename(again / "checkpoint-2")
    assert run_here("arg", "--config", workspace.config("again.yaml", {**arg, "output_dir": "out/again"}))[0] == 0
    assert all(torch.equal(value, whole[name]) for name, value in load_file(again / "model.safetensors").items())

    # a trained generator is trained on: no token is added a second time
    further = {**arg, "model_name_or_path": "out/arg", "output_dir": "out/further", "paragraphs": "none"}
    assert run_here("arg", "--config", workspace.config("further.yaml", further))[0] == 0
    assert len(load_tokenizer(str(workspace / "out/further"))) == len(load_tokenizer(str(out)))
    assert len(list((workspace / "models").glob("*-reflection"))) == 1


@pytest.mark.slow
def test_what_cannot_be_trained_ends_with_one_line(workspace, arg, run_here):
    for change, said in (
        ({"texts": "none.jsonl"}, "none.jsonl: no such file"),
        ({"texts": None}, "texts is missing"),
        ({"paragraphs": "some"}, "paragraphs"),
        ({"branches": -1}, "branches: must be at least 0"),
        ({"packing": True}, "packing"),
        ({"model_name_or_path": "out/of/nothing", "demo_data": "made"}, "out/of/nothing: no such folder"),
    ):
        status, error = run_here("arg", "--config", workspace.config("bad.yaml", {**arg, **change}))
        assert status == 2 and said in error and "Traceback" not in error
    assert not (workspace / "made").exists()  # nothing is made for a model that is not there


@pytest.mark.slow
@pytest.mark.deepspeed
def test_every_row_moves_under_zero3_as_in_one_process(workspace, arg, run_here):
    quick = {"model_name_or_path": "tiny-qwen2", "gradient_checkpointing": False, "lr_scheduler_type": "constant"}
    config = {**arg, **quick, "per_device_train_batch_size": 1}
    launch = ["-m", "accelerate.commands.launch", "--config_file", LAUNCH]
    recipe = Path(__file__).resolve().parents[2] / "recipes" / "arg.py"
    done = workspace.run(sys.executable, *launch, recipe, "--config", workspace.config("zero3.yaml", config))
    assert done.returncode == 0, done.stderr
    out = workspace / "out/arg"
    assert json.loads((out / "train_results.json").read_text())["zero_stage"] == 3
    (start,) = (workspace / "models").glob("*-reflection")
    assert len(_moved(out, start)) == len(ALL) and (_moved(out, start) > 1e-5).all()
    single = {**config, "output_dir": "out/single", "gradient_accumulation_steps": 2}
    assert run_here("arg", "--config", workspace.config("single.yaml", single))[0] == 0
    assert _losses(out) == pytest.approx(_losses(workspace / "out/single"), rel=0.02)
