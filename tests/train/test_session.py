"""How a recipe reads its config and ends: one line for every mistake."""

import errno
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import torch
from trl import SFTConfig

from graphwalker.errors import UserError
from graphwalker.train import session


@dataclass
class Own:
    """A recipe's own settings."""

    needed: str = field(metadata={"help": "Has no default."})
    count: int = field(default=1, metadata={"help": "A number."})


@pytest.fixture
def parse(tmp_path):
    def run(text, *args, parts=(Own, SFTConfig), **defaults):
        (tmp_path / "default.yaml").write_text(text)
        return session.parse(parts, tmp_path / "default.yaml", args, **defaults)

    return run


def test_config_file_command_line_and_defaults(parse, tmp_path):
    own, training = parse("needed: a\nlearning_rate: 3e-3\n", "--max_steps", "7", assistant_only_loss=True)
    assert (own.needed, own.count, training.learning_rate, training.max_steps) == ("a", 1, 0.003, 7)
    assert training.assistant_only_loss
    assert training.use_cpu == (not torch.accelerator.is_available())
    (tmp_path / "other.yaml").write_text("needed: b\nassistant_only_loss: false\n")
    for args in (("--config", str(tmp_path / "other.yaml")), (f"--config={tmp_path / 'other.yaml'}",)):
        own, training = parse("needed: a\n", *args, assistant_only_loss=True)
        assert own.needed == "b" and not training.assistant_only_loss


def test_only_the_asked_for_parts_come_back(parse):
    assert parse("needed: a\n", parts=(Own,)) == (Own("a"),)


@pytest.mark.parametrize(
    ("text", "args", "message"),
    [
        ("needed: a\nlerning_rate: 1\n", (), r"default.yaml: unknown key 'lerning_rate'; did you mean 'learning_rate'"),
        ("needed: a\n1: 2\n", (), "default.yaml: unknown key 1"),
        ("needed: a\n", ("--max_stps", "3"), "command line: unknown key 'max_stps'; did you mean 'max_steps'"),
        ("needed: a\n", ("--max_step", "3"), "command line: unknown key 'max_step'"),  # no abbreviations
        ("needed: a\nmax_steps: many\n", (), "argument --max_steps.*invalid int value: 'many'"),
        ("count: 2\n", (), "arguments are required: --needed"),
        ("needed: [a\n", (), "default.yaml:2: not YAML"),
        ("- needed\n", (), "default.yaml: expected a mapping"),
        ("needed: a\n", ("--config", "none.yaml"), "none.yaml: no such file"),
        ("needed: a\n", ("--config",), "--config: expected one argument"),
        ("needed: a\nsave_strategy: sometimes\n", (), "save_strategy: 'sometimes' is not one of no, steps"),
        ("needed: a\ntrain_sampling_strategy: length\n", (), "train_sampling_strategy: 'length' is not one of random"),
        ("needed: a\nsave_strategy: no\n", (), 'default.yaml: save_strategy: write "no" in quotes'),
        ("needed: a\nadam_beta2: 1.5\n", (), "adam_beta2: must be below 1, got 1.5"),
        ("needed: 5\n", (), "default.yaml: needed: expected a string, got 5"),
        ("needed: null\n", (), "default.yaml: needed: expected a string, got None"),
        ("needed: a\ncount: 1.5\n", (), "default.yaml: count: expected a whole number, got 1.5"),
        ("needed: a\ncount: true\n", (), "default.yaml: count: expected a whole number, got True"),
        ("needed: a\nbf16: [1]\n", (), "default.yaml: bf16: expected true or false"),
        ("needed: a\nenv: 5\n", (), "default.yaml: env: expected a mapping, got 5"),
        ("needed: a\nper_device_train_batch_size: 0\n", (), "per_device_train_batch_size: must be at least 1, got 0"),
        ("needed: a\nlearning_rate: .nan\n", (), "learning_rate: must be at least 0, got nan"),
        ("needed: a\n", ("--learning_rate", "-1"), "learning_rate: must be at least 0, got -1.0"),
        ("needed: a\n", ("--learning_rate=inf",), "learning_rate: expected a number, got inf"),
        ("needed: a\nmax_steps: -2\n", (), "max_steps: must be at least -1, got -2"),
        ("needed: a\nmax_steps: 0\n", (), "max_steps: 0 would train nothing"),
        ("needed: a\nnum_train_epochs: 0\n", (), "num_train_epochs: must be at least 1e-06, got 0"),
        ("needed: a\noutput_dir: null\n", (), "default.yaml: output_dir: name a folder"),
        ("needed: a\n", ("--output_dir=",), "output_dir: name a folder"),
        ("needed: a\nneeded: b\n", (), "default.yaml:2: not YAML: the key 'needed' stands here a second time"),
        ("needed: a\nsave_steps: 0\n", (), "save_steps: must be at least 1e-06, got 0"),
        ("needed: a\nseed: 4294967296\n", (), "seed: must be below 4294967296"),
    ],
)
def test_mistakes_are_one_line(parse, text, args, message):
    with pytest.raises(UserError, match=message) as caught:
        parse(text, *args)
    assert "\n" not in str(caught.value)


def test_the_seed_is_set(parse):
    parse("needed: a\nseed: 5\n")
    first = torch.rand(3)
    parse("needed: a\nseed: 5\n")
    assert torch.equal(first, torch.rand(3))


def _raises(error: BaseException) -> int:
    def main():
        raise error

    with pytest.raises(SystemExit) as caught:
        session.run(main)
    return caught.value.code


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (UserError("x: wrong"), 2, "error: x: wrong\n"),
        (KeyboardInterrupt(), 130, "interrupted; run the same command to go on from the last checkpoint\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "error: the disk is full: [Errno 28] No space"),
        (RuntimeError("[enforce fail] . PytorchStreamWriter failed writing file data/0"), 1, "error: the disk is full"),
    ],
)
def test_endings(error, status, said, capsys):
    assert _raises(error) == status
    assert capsys.readouterr().err.startswith(said)


def test_a_bug_is_not_hidden():
    def main():
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        session.run(main)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no eval_dataset\n  was passed"), "no eval_dataset was passed"),
        (FileExistsError(errno.EEXIST, "File exists"), "output_dir: 'out': File exists"),
    ],
)
def test_what_a_trainer_refuses_is_one_line(error, said):
    def refuse(**parts):
        raise error

    with pytest.raises(UserError) as caught:
        session.make_trainer(refuse, args=SimpleNamespace(output_dir="out"))
    assert str(caught.value) == said


def test_torn_checkpoints_go_and_whole_ones_stay(tmp_path):
    states = {"checkpoint-10": "{}", "checkpoint-20": None, "checkpoint-30": '{"epoch"', "checkpoint-notes": None}
    for name, state in states.items():
        (tmp_path / name).mkdir()
        if state:
            (tmp_path / name / "trainer_state.json").write_text(state)
    (tmp_path / ".saving").mkdir()
    session.drop_torn_checkpoints(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint-10", "checkpoint-notes"}
    session.drop_torn_checkpoints(tmp_path / "not there yet")


def test_one_process_at_a_time_trains_in_a_folder(tmp_path, capfd):
    """The second waits, then goes on from what the first left."""
    holder = (
        "import sys, time; from pathlib import Path; from graphwalker.files import locked\n"
        f"out = Path({str(tmp_path)!r})\n"
        f"with locked(out / {session.LOCK!r}, 'busy'):\n"
        "    print('held', flush=True); time.sleep(1); (out / 'config.json').write_text('{}')"
    )
    seen = []
    trainer = SimpleNamespace(
        args=SimpleNamespace(
            output_dir=str(tmp_path), save_strategy="no", main_process_first=lambda desc: nullcontext()
        ),
        add_callback=lambda callback: None,
        is_world_process_zero=lambda: True,
    )
    with subprocess.Popen([sys.executable, "-c", holder], stdout=subprocess.PIPE) as first:
        assert first.stdout.readline() == b"held\n"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                session, "_train_and_save", lambda trainer, out: seen.extend(sorted(p.name for p in out.iterdir()))
            )
            session.train_and_save(trainer)
    assert seen == [session.LOCK, "config.json"]
    assert f"{tmp_path} is being trained by another process: waiting for its end" in capfd.readouterr().out


def test_deepspeed_without_its_package(parse, monkeypatch):
    monkeypatch.setattr("graphwalker.train.config_values.find_spec", lambda name: None)
    with pytest.raises(
        UserError, match=r"deepspeed: the package deepspeed is not installed: pip install 'graphwalker-kgqa\["
    ):
        parse("needed: a\ndeepspeed: zero.json\n")


def test_checkpoints_between_steps_of_one_generation_are_refused():
    def check(**options):
        names = {"save_strategy": "steps", "steps_per_generation": 8, "num_iterations": 1}
        session.check_saves(SimpleNamespace(**{**names, "gradient_accumulation_steps": 8, "save_steps": 1, **options}))

    check()
    check(num_iterations=3, save_steps=6)
    check(steps_per_generation=4)
    check(steps_per_generation=None, save_steps=1)
    with pytest.raises(UserError, match="save_steps: 4: 3 steps share one generation"):
        check(num_iterations=3, save_steps=4)
    check(num_iterations=3, save_steps=4, save_strategy="no")
