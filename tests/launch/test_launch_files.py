"""Every file below launch/ is read by the program that it is for, and what its header says to type parses."""

import re
import runpy
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser

from graphwalker.train import session

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "launch" / "accelerate").glob("*.yaml"))
ASKED = {"cpu", "single_gpu", "ddp", "zero2", "zero3", "zero3_cpu", "zero3_multi_node", "fsdp2"}
HEADERS = [*FILES, *(path for path in sorted((ROOT / "recipes").glob("*/*.yaml")))]


@pytest.fixture(scope="module")
def reads() -> dict:
    """What each recipe reads, as the curriculum knows it; recipes/actor.py is recipes/sft.py."""
    names = ("curriculum.py", "infer.py", "arg.py")
    stages, infer, arg = (runpy.run_path(str(ROOT / "recipes" / name))["READS"] for name in names)
    return {**stages, "actor": stages["sft"], "infer": infer, "arg": arg}


def _launch_lines(path: Path) -> list[str]:
    """The commands in a file's header."""
    text = path.read_text("utf-8")
    return re.findall(r"^#\s*((?:.*; )?(?:[A-Z_]+=\S+ )*(?:accelerate|python|sbatch) .+)$", text, flags=re.MULTILINE)


def _recipe_and_arguments(words: list[str]) -> tuple[Path, list[str]]:
    place = next(i for i, word in enumerate(words) if re.fullmatch(r"recipes/\w+\.py", word))
    return ROOT / words[place], words[place + 1 :]


def test_all_kinds_of_machines_are_there():
    assert {path.stem for path in FILES} >= ASKED


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_accelerate_reads_it(path):
    """By its own loader, and then with its own defaults filled in, as `accelerate launch` does."""
    given = yaml.safe_load(path.read_text("utf-8"))
    config = load_config_from_file(str(path))
    assert config.num_processes == given["num_processes"] and config.use_cpu == given.get("use_cpu", False)
    arguments = launch_command_parser().parse_args(["--config_file", str(path), "recipes/sft.py"])
    filled, _, _ = _validate_launch_command(arguments)
    stage = given.get("deepspeed_config", {}).get("zero_stage")
    assert filled.use_deepspeed == (stage is not None)
    if stage is not None:
        assert filled.zero_stage == stage
        assert bool(filled.zero3_save_16bit_model) == bool(filled.zero3_init_flag) == (stage == 3)


@pytest.mark.parametrize("path", HEADERS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_launch_line_of_the_header_parses(path, reads, monkeypatch):
    own = str(path.relative_to(ROOT))
    words = next(words for words in map(shlex.split, _launch_lines(path)) if own in words)
    recipe, arguments = _recipe_and_arguments(words)
    if words[0] == "accelerate":
        launch = words[2 : words.index(str(recipe.relative_to(ROOT)))]
        launch = ["0" if word == "RANK" else word for word in launch]
        launched = launch_command_parser().parse_args([*launch, str(recipe)])
        assert launched.config_file is None or (ROOT / launched.config_file).is_file()
    monkeypatch.chdir(ROOT)
    if recipe.stem != "curriculum":
        assert session.parse(reads[recipe.stem], "none", arguments)


def test_the_slurm_script(tmp_path):
    script = ROOT / "launch" / "slurm" / "train.sbatch"
    (line,) = _launch_lines(script)
    recipe, arguments = _recipe_and_arguments(shlex.split(line))
    assert recipe.is_file() and (ROOT / arguments[1]).is_file()
    done = subprocess.run(["bash", str(script)], capture_output=True, text=True)
    assert done.returncode == 2 and "name a recipe" in done.stderr

    # the launcher's arguments, machine by machine, with stand-ins for Slurm's commands and accelerate
    for name, body in {
        "scontrol": "echo node7; echo node8",
        "srun": 'shift; for rank in 0 1; do SLURM_NODEID=$rank "$@"; done',
        "accelerate": 'printf "%s " "$@"; echo',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "50001", "SLURM_NNODES": "2", "SLURM_GPUS_ON_NODE": "4"}
    env["SLURM_JOB_NODELIST"] = "node[7-8]"
    done = subprocess.run(
        ["bash", str(script), "recipes/sft.py", "--config", "a b.yaml"], capture_output=True, text=True, env=env
    )
    assert done.returncode == 0, done.stderr
    for rank, launched in enumerate(done.stdout.splitlines()):
        words = launched.split()
        assert words[0] == "launch" and words[-4:] == ["recipes/sft.py", "--config", "a", "b.yaml"]
        parsed = launch_command_parser().parse_args(words[1:-1])
        assert (parsed.machine_rank, parsed.num_machines, parsed.num_processes) == (rank, 2, 8)
        assert parsed.main_process_ip == "node7" and parsed.main_process_port == 30001


def test_the_compose_file_trains_against_its_server():
    services = yaml.safe_load((ROOT / "launch" / "vllm" / "compose.yaml").read_text("utf-8"))["services"]
    (command,) = services["trainer"]["command"]
    command = command.replace("$$(seq -s, 1 ${TRAINERS:-7})", "1,2").replace("${TRAINERS:-7}", "7")
    words = shlex.split(
        command.replace("${RECIPE:-recipes/grpo/qwen2.5-7b_cwq.yaml}", "recipes/grpo/qwen2.5-7b_cwq.yaml")
    )
    launch = words[words.index("accelerate") + 2 : words.index("recipes/grpo.py")]
    assert launch_command_parser().parse_args([*launch, "x.py"]).num_processes == 7
    _, arguments = _recipe_and_arguments(words)
    flags = dict(zip(arguments, arguments[1:], strict=False))
    port = next(word for word in services["vllm"]["command"] if word.startswith("--port=")).removeprefix("--port=")
    assert flags["--vllm_mode"] == "server" and flags["--vllm_server_base_url"].endswith(f":{port}")
    assert services["vllm"]["environment"]["VLLM_SERVER_DEV_MODE"] == "1"
    assert any("weight-transfer-config" in word for word in services["vllm"]["command"])
