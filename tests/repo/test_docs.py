"""What README and docs/ tell a reader to type exists: commands, make targets, files and links."""

import re
import shlex
from pathlib import Path

import pytest

from graphwalker import cli
from graphwalker.kg.schema import load_schema

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def _shell_lines(page: Path) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]


LINES = [(page.name, line) for page in PAGES for line in _shell_lines(page)]


@pytest.mark.parametrize(("page", "line"), [(p, line) for p, line in LINES if line.startswith("graphwalker ")])
def test_console_commands_parse(page, line):
    words = shlex.split(line, comments=True)[1:]
    if "--help" not in words:
        cli.make_parser(words[0]).parse_args(words)


@pytest.mark.parametrize(("page", "line"), [(p, line) for p, line in LINES if line.startswith("make ")])
def test_make_targets_exist(page, line):
    targets = [word for word in shlex.split(line, comments=True)[1:] if "=" not in word]
    known = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(targets) <= known


@pytest.mark.parametrize(("page", "line"), LINES)
def test_scripts_and_configs_exist(page, line):
    named = re.findall(r"\b(?:recipes|launch)/[\w./-]+\.(?:py|ya?ml)\b", line)
    assert not [path for path in named if not (ROOT / path).is_file()]


def test_the_schema_example_loads(tmp_path):
    page = (ROOT / "docs" / "own-kg.md").read_text(encoding="utf-8")
    example = re.findall(r"```yaml\n# my-schema.yaml\n(.*?)```", page, flags=re.DOTALL)[0]
    file = tmp_path / "my-schema.yaml"
    file.write_text(example, encoding="utf-8")
    assert load_schema(file).expand("skos:prefLabel") == "http://www.w3.org/2004/02/skos/core#prefLabel"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert not [target for target in targets if not (page.parent / target).exists()]
