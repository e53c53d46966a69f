"""Every YAML beside the recipes parses into its recipe's dataclasses, and the curriculum knows what recipes read."""

import ast
import runpy
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from graphwalker.train import curriculum, session

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "recipes"


def _tuple_of_names(tree: ast.AST) -> list[tuple[str, ...]]:
    """Every tuple of plain names in a piece of code."""
    tuples = (node for node in ast.walk(tree) if isinstance(node, ast.Tuple))
    return [tuple(e.id for e in node.elts) for node in tuples if all(isinstance(e, ast.Name) for e in node.elts)]


@pytest.mark.parametrize("recipe", ["sft", "grpo"])
def test_the_curriculum_knows_what_the_recipe_reads(recipe):
    source = ast.parse((RECIPES / f"{recipe}.py").read_text())
    (call,) = [
        node for node in ast.walk(source) if isinstance(node, ast.Call) and ast.unparse(node.func) == "session.parse"
    ]
    (reads,) = _tuple_of_names(call)
    assert reads in _tuple_of_names(ast.parse((RECIPES / "curriculum.py").read_text()))


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*/*.yaml")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_yaml_parses(path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["recipe"])
    recipe = runpy.run_path(str(RECIPES / f"{path.parent.name}.py"))
    if path.parent.name != "curriculum":
        stage = {"actor": "sft"}.get(path.parent.name, path.parent.name)  # the actor's recipe is SFT's with other data
        parts = recipe.get("READS") or runpy.run_path(str(RECIPES / "curriculum.py"))["READS"][stage]
        values = session.parse(parts, path, [])
        assert len(values) == len(parts)
        return
    parts = (curriculum.CurriculumConfig, recipe["EnvConfig"], recipe["EvaluationConfig"])
    config, _, settings = session.parse(parts, path, [])
    stages = list(curriculum.stages(config))
    for stage in stages:
        session.check_keys(stage.name, stage.config, {f.name for p in recipe["READS"][stage.recipe] for f in fields(p)})
    assert stages and settings.eval_questions
