"""Fixtures that all areas share: a toy KG of two dozen triples with what makes real ones hard.

Two people called Ann Lee, a capital, a mediator (CVT) between neighbours, declared reverse relations, names in other
scripts and with protocol characters, a literal, an alias and a hidden predicate.
"""

import os
from pathlib import Path

import pytest

TOY = """\
<f:m.fr> <f:type.object.name> "France"@en .
<f:m.fr> <f:type.object.name> "Frankreich"@de .
<f:m.fr> <f:common.topic.alias> "French Republic"@en .
<f:m.fr> <f:type.object.type> <f:location.country> .
<f:m.fr> <f:type.object.type> <f:location.location> .
<f:m.fr> <f:location.country.capital> <f:m.paris> .
<f:m.fr> <f:location.location.contains> <f:m.paris> .
<f:m.fr> <f:location.location.contains> <f:m.lyon> .
<f:m.fr> <f:location.location.area> "543965"^^<http://www.w3.org/2001/XMLSchema#decimal> .
<f:m.fr> <f:location.location.adjoin_s> <f:m.cvt1> .
<f:m.cvt1> <f:location.adjoining_relationship.adjoins> <f:m.es> .
<f:m.es> <f:location.location.adjoin_s> <f:m.cvt1> .
<f:m.cvt1> <f:location.adjoining_relationship.adjoins> <f:m.fr> .
<f:m.fr> <f:common.topic.description> "A country in Europe."@en .
<f:m.es> <f:type.object.name> "Spain"@en .
<f:m.es> <f:type.object.type> <f:location.country> .
<f:m.paris> <f:type.object.name> "Paris"@en .
<f:m.paris> <f:location.location.containedby> <f:m.fr> .
<f:m.lyon> <f:type.object.name> "Lyon"@en .
<f:m.lyon> <f:location.location.containedby> <f:m.fr> .
<f:m.ann1> <f:type.object.name> "Ann Lee"@en .
<f:m.ann1> <f:people.person.place_of_birth> <f:m.paris> .
<f:m.ann2> <f:type.object.name> "Ann Lee"@en .
<f:m.ann2> <f:type.object.type> <f:people.person> .
<f:m.ann2> <f:people.person.place_of_birth> <f:m.lyon> .
<f:m.odd> <f:type.object.name> "A \\"B\\", </information> \\\\ (東京)"@en .
<f:m.odd> <f:people.person.place_of_birth> <f:m.paris> .
<f:location.location.containedby> <f:type.property.reverse_property> <f:location.location.contains> .
""".replace("<f:", "<http://rdf.freebase.com/ns/")


@pytest.fixture(scope="session")
def toy_nt(tmp_path_factory) -> Path:
    """The toy KG as a Freebase-shaped N-Triples file."""
    path = tmp_path_factory.mktemp("toy") / "toy.nt"
    path.write_text(TOY, "utf-8")
    return path


@pytest.fixture(scope="session")
def toy_kg(toy_nt, tmp_path_factory) -> Path:
    """The toy KG as a built folder (in memory)."""
    from graphwalker.kg.build import build_kg

    return build_kg(toy_nt, tmp_path_factory.mktemp("toy") / "kg", "freebase", progress=False)


@pytest.fixture(scope="session")
def toy_store(toy_kg):
    """The toy KG, open."""
    from graphwalker.kg.open import open_kg

    return open_kg(toy_kg)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data; the test is skipped where there is none."""
    folder = os.environ.get("GRAPHWALKER_DATA")
    if not folder:
        pytest.skip("set GRAPHWALKER_DATA to a folder with the real data sets to run this test")
    if not Path(folder).is_dir():
        pytest.skip(f"GRAPHWALKER_DATA={folder} is not a folder")
    return Path(folder)
