"""`envs` and `data_pipelines` are generic names: whatever else is installed, they must resolve into this repository."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("data_pipelines", "envs", "graphwalker")


def test_packages_resolve_into_the_repository(tmp_path):
    code = (
        "import "
        + ", ".join(PACKAGES)
        + "; print("
        + ", ".join(f"{name}.__file__" for name in PACKAGES)
        + ", sep='\\n')"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    origins = [Path(line).resolve() for line in out.split("\n") if line]
    assert [origin.parent for origin in origins] == [ROOT / name for name in PACKAGES]


def test_the_source_tree_has_no_other_package():
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == set(PACKAGES)


def test_every_folder_of_code_is_a_package():
    """Setuptools lists packages by their __init__.py: a folder without one would be missing from a wheel."""
    folders = {path.parent for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    assert not [str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()]
