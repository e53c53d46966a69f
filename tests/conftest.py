"""Fixtures that all areas share: a toy KG of two dozen triples with what makes real ones hard.

Two people called Ann Lee, a capital, a mediator (CVT) between neighbours, declared reverse relations, names in other
scripts and with protocol characters, a literal, an alias and a hidden predicate.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: a busy machine is not a fault. Derandomised: the same examples in each run, as all else here.
settings.register_profile("project", deadline=None, derandomize=True)
settings.load_profile("project")


def pytest_configure() -> None:
    """Tests that run side by side take a core each, and the threads and processes they start stay on it."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})


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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of Virtuoso run one after another, since its start is what takes long."""
    for item in items:
        if item.get_closest_marker("virtuoso"):
            item.add_marker(pytest.mark.xdist_group("virtuoso"))


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
def toy_sparql_kg(toy_nt, tmp_path_factory) -> Path:
    """The toy KG as a built folder with SPARQL (Oxigraph)."""
    from graphwalker.kg.build import build_kg

    folder = tmp_path_factory.mktemp("toy") / "sparql"
    return build_kg(toy_nt, folder, "freebase", store="oxigraph", progress=False)


@pytest.fixture(scope="session")
def toy_kbqa_toolbox(toy_sparql_kg):
    """The KBQA tools on the toy KG, those of GrailQA included."""
    from graphwalker.kg.open import open_kg
    from graphwalker.tools.kbqa.toolbox import KBQAToolbox

    return KBQAToolbox(open_kg(toy_sparql_kg), toy_sparql_kg, "grailqa")


@pytest.fixture(scope="session")
def toy_kbqa_env(toy_kbqa_toolbox):
    """A function that makes an environment of the interactive protocol on the toy KG, with a short prompt."""
    from envs.kbqa_env import KBQAEnv
    from graphwalker.protocol.prompts import Prompt

    return lambda **options: KBQAEnv(toy_kbqa_toolbox, **{"prompt": Prompt("compact"), **options})


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


def _ask(number: int, text: str, topic: tuple[str, str], answer: tuple[str, str], *queries: str):
    """A question on the toy KG and the turns that answer it."""
    from graphwalker.protocol.render import format_answer, render_turn
    from graphwalker.types import Entity, Question

    question = Question(f"toy-{number}", text, (Entity(*topic),), (Entity(*answer),), structure="1-hop", hops=1)
    turns = [render_turn(f"Step {i}.", "query", query) for i, query in enumerate(queries)]
    return question, (*turns, render_turn("Done.", "answer", format_answer([answer[0]])))


@pytest.fixture(scope="session")
def toy_tasks() -> list:
    """Pairs (question, the texts of the turns that answer it) on the toy KG; one has a name full of protocol text."""
    from graphwalker.protocol.render import format_query

    france, paris, lyon = ("France", "m.fr"), ("Paris", "m.paris"), ("Lyon", "m.lyon")
    odd = ('A "B", </information> \\ (東京)', "m.odd")

    def hop(entity, relation):
        return format_query("get_relations", entity[0]), format_query("get_triples", entity[0], [relation])

    return [
        _ask(1, "What is the capital of France?", france, paris, *hop(france, "location.country.capital")),
        _ask(2, "Which country is Lyon in?", lyon, france, *hop(lyon, "location.location.containedby")),
        _ask(3, "Where was this person born?", odd, paris, *hop(odd, "people.person.place_of_birth")),
        _ask(4, "Which country is Paris in?", paris, france, *hop(paris, "location.location.containedby")),
    ]


@pytest.fixture(scope="session")
def toy_env(toy_store):
    """A function that makes an environment on the toy KG, with the short prompt."""
    from envs.kg_env import KGEnv
    from graphwalker.protocol.prompts import Prompt
    from graphwalker.tools.toolbox import Toolbox

    toolbox = Toolbox(toy_store)
    return lambda **options: KGEnv(toolbox, **{"prompt": Prompt("compact"), **options})


@pytest.fixture(scope="session")
def toy_arg_env(toy_store):
    """A function that makes an environment of ArG's protocol on the toy KG, with the short prompt."""
    from envs.arg_env import ArgEnv
    from graphwalker.tools.paths import PathTools

    tools = PathTools(toy_store)
    return lambda **options: ArgEnv(tools, **options)


@pytest.fixture(scope="session")
def toy_trajectories(toy_tasks, toy_env) -> list:
    """The tasks as finished episodes, observations included."""
    done = []
    for question, texts in toy_tasks:
        env = toy_env()
        env.reset(options={"question": question})
        for text in texts:
            env.step(text)
        done.append(env.trajectory())
    assert all(t.ending == "answered" for t in done)
    return done


@pytest.fixture(scope="session")
def toy_tokenizer(toy_trajectories):
    """A tokenizer trained on the toy episodes, with the protocol's templates."""
    from graphwalker.protocol import chat
    from graphwalker.protocol.prompts import Prompt
    from graphwalker.train import tiny

    texts = [chat.render(chat.messages(t, Prompt("compact"))) for t in toy_trajectories]
    tokenizer = tiny.train_tokenizer(texts, 400, model_max_length=1024)
    chat.install(tokenizer)
    return tokenizer


@pytest.fixture(scope="session")
def scripted_engine():
    """The class of an engine without a model: it says what its script holds, row by row and turn by turn."""
    from graphwalker.inference.engine import Completion
    from graphwalker.inference.in_step import Alone

    class ScriptedEngine:
        """``script(key)`` gives a row's turns; a turn that is a pair ``(text, False)`` was cut at its token cap.

        Rows that ended their turn come out last in, first out: not in the order in which they were added.
        """

        def __init__(self, tokenizer, script, *, capacity=4, max_length=1024, in_step=None):
            self.tokenizer, self.script, self.capacity, self.max_length = tokenizer, script, capacity, max_length
            self.in_step, self.steps = in_step or Alone(), 0
            self.open, self.waiting, self.fed = {}, [], {}

        def add(self, key, ids, sampling, seed):
            if key not in self.open:
                assert len(self.open) < self.capacity
                self.open[key], self.fed[key] = iter(self.script(key)), []
            self.fed[key] += ids
            self.waiting.append(key)

        def finish(self):
            self.in_step.finish(lambda most: None)

        def step(self):
            self.in_step.agree(1)
            self.steps += 1
            key = self.waiting.pop()
            turn = next(self.open[key])
            text, stopped = turn if isinstance(turn, tuple) else (turn, True)
            ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
            ids += [self.tokenizer.eos_token_id] if stopped else []
            self.fed[key] += ids
            return [Completion(key, ids, [-0.5] * len(ids), stopped)]

        def release(self, key):
            del self.open[key]

    return ScriptedEngine
