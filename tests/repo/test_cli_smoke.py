"""The console from an RDF file in a foreign schema to an agent's observation, as docs/own-kg.md says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRIPLES = """\
<https://shop.example/ns/lamp> <http://www.w3.org/2004/02/skos/core#prefLabel> "Desk lamp"@en .
<https://shop.example/ns/lamp> <https://shop.example/ns/madeBy> <https://shop.example/ns/acme> .
<https://shop.example/ns/lamp> <https://shop.example/ns/internalNote> "do not show" .
<https://shop.example/ns/lamp> <https://shop.example/ns/offer> _:b1 .
_:b1 <https://shop.example/ns/soldIn> <https://shop.example/ns/oslo> .
<https://shop.example/ns/acme> <http://www.w3.org/2004/02/skos/core#prefLabel> "Acme"@en .
<https://shop.example/ns/oslo> <http://www.w3.org/2004/02/skos/core#prefLabel> "Oslo"@en .
"""


def _graphwalker(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "graphwalker.cli", *map(str, args)], capture_output=True, text=True)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    page = (ROOT / "docs" / "own-kg.md").read_text(encoding="utf-8")
    schema = re.findall(r"```yaml\n# my-schema.yaml\n(.*?)```", page, flags=re.DOTALL)[0]
    (folder / "schema.yaml").write_text(schema, encoding="utf-8")
    (folder / "shop.nt").write_text(TRIPLES, encoding="utf-8")
    built = _graphwalker("kg", "build", folder / "shop.nt", folder / "kg", "--schema", folder / "schema.yaml")
    assert built.returncode == 0, built.stderr
    return folder


def test_info(shop):
    out = _graphwalker("kg", "info", shop / "kg")
    assert out.returncode == 0, out.stderr
    assert "7" in out.stdout  # triples


def test_relations_are_flattened_and_hidden_as_the_schema_says(shop):
    out = _graphwalker("kg", "query", shop / "kg", 'get_relations("Desk lamp")')
    assert out.returncode == 0, out.stderr
    assert "madeBy" in out.stdout and "offer.soldIn" in out.stdout
    assert "internalNote" not in out.stdout


def test_triples_show_names(shop):
    out = _graphwalker("kg", "query", shop / "kg", 'get_triples("Desk lamp", ["madeBy"])')
    assert "[Desk lamp, madeBy, Acme]" in out.stdout


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (("build", "missing.nt", "out"), "missing.nt"),
        (("build", "broken.nt", "out"), "broken.nt:2"),
        (("build", "good.nt", "out", "--schema", "unknown-key.yaml"), "nam_predicates"),
        (("info", "no-such-kg"), "no-such-kg"),
        (("query", "half-built", 'get_relations("x")'), "half-built"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, monkeypatch, args, named):
    (tmp_path / "good.nt").write_text(TRIPLES)
    (tmp_path / "broken.nt").write_text(TRIPLES.splitlines()[0] + "\n<a b .\n")
    (tmp_path / "unknown-key.yaml").write_text("nam_predicates: []\n")
    (tmp_path / "half-built").mkdir()
    before = sorted(tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    out = _graphwalker("kg", *args)
    assert out.returncode == 2
    said = [line for line in out.stderr.splitlines() if line.startswith("graphwalker: error: ")]
    assert len(said) == 1 and named in said[0] and "Traceback" not in out.stderr
    assert sorted(tmp_path.iterdir()) == before
