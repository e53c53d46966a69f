"""Questions and environments on the toy KG."""

import pytest

from envs.kg_env import KGEnv
from graphwalker.protocol.prompts import Prompt
from graphwalker.tools.toolbox import Toolbox
from graphwalker.types import Entity, Question


@pytest.fixture(scope="session")
def question() -> Question:
    france, paris = Entity("France", "m.fr"), Entity("Paris", "m.paris", ("City of Light",))
    return Question("toy-1", "What is the capital of France?", (france,), (paris,), structure="1-hop", hops=1)


@pytest.fixture(scope="session")
def toolbox(toy_store) -> Toolbox:
    return Toolbox(toy_store)


@pytest.fixture
def make_env(toolbox):
    return lambda **options: KGEnv(toolbox, **{"prompt": Prompt("compact"), **options})
