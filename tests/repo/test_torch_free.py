"""The torch-free half imports without torch: in a fresh interpreter, since other tests import it."""

import json
import pkgutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WITH_TORCH = {"graphwalker.train", "graphwalker.inference"}
HEAVY = ["torch", "transformers", "trl", "peft", "accelerate", "datasets", "wandb"]


def _torch_free_modules() -> list[str]:
    names = ["graphwalker", "envs", "data_pipelines"]
    for package in list(names):
        paths = [str(ROOT / package)]
        for module in pkgutil.walk_packages(paths, prefix=f"{package}."):
            if not any(module.name == name or module.name.startswith(f"{name}.") for name in WITH_TORCH):
                names.append(module.name)
    return names


def test_no_torch(tmp_path):
    modules = _torch_free_modules()
    code = (
        "import importlib, json, sys\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    assert json.loads(out.stdout.splitlines()[-1]) == [], f"heavy modules came in with one of {modules}"
