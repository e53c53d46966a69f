"""Recipes are scripts: nothing imports them, none hides an installed module, and every YAML beside them parses."""

import importlib.metadata
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "recipes").glob("*.py"))
YAMLS = sorted(path for folder in ("recipes", "launch") for path in (ROOT / folder).rglob("*.y*ml"))


def test_no_recipe_is_named_like_an_installed_module():
    installed = set(importlib.metadata.packages_distributions()) | set(sys.stdlib_module_names)
    assert {path.stem for path in SCRIPTS} & installed == set()


def test_recipes_are_not_a_package():
    assert not list((ROOT / "recipes").rglob("__init__.py"))


@pytest.mark.parametrize("path", YAMLS, ids=lambda path: str(path.relative_to(ROOT)))
def test_yaml_is_a_mapping(path):
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)
