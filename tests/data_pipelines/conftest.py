"""A small demo KG (large cities and capitals) and what the pipelines make of it, each made once a session."""

import pytest


@pytest.fixture(scope="session")
def demo_kg(tmp_path_factory):
    from data_pipelines.demo_kg import build_demo_kg

    return build_demo_kg(tmp_path_factory.mktemp("demo") / "kg", min_population=300_000, progress=False)


@pytest.fixture(scope="session")
def demo_store(demo_kg):
    from graphwalker.kg.open import open_kg

    return open_kg(demo_kg)


@pytest.fixture(scope="session")
def toolbox(demo_store):
    from graphwalker.tools.toolbox import Toolbox

    return Toolbox(demo_store)


@pytest.fixture(scope="session")
def walker(demo_store):
    from data_pipelines.walks import Walker

    return Walker(demo_store)


@pytest.fixture(scope="session")
def walks(walker):
    """Sixty walks of each of the demo's structures."""
    from itertools import islice

    from data_pipelines.dataset import DEMO_STRUCTURES

    return {structure: list(islice(walker.draw(structure), 60)) for structure in DEMO_STRUCTURES}


@pytest.fixture(scope="session")
def items(walks, walker, demo_store):
    from collections import Counter

    from data_pipelines.graphsynth import make_items
    from data_pipelines.teachers import TemplateTeacher

    every = [walk for of in walks.values() for walk in of]
    return list(make_items(every, walker, demo_store, TemplateTeacher(), dataset="demo", dropped=Counter()))


SMALL = {"graphsynth": 60, "graphroll": 40, "train": 20, "dev": 12, "test_entity": 16, "test_path": 9}


@pytest.fixture(scope="session")
def data(demo_store, tmp_path_factory):
    """The folder and the statistics of a small synthesis."""
    from data_pipelines.dataset import Sizes, synthesise

    out = tmp_path_factory.mktemp("data")
    return out, synthesise(demo_store, out, dataset="demo", sizes=Sizes(**SMALL), progress=False)
