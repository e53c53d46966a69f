"""Expert trajectories for questions with gold paths, on the toy KG and a small film KG."""

import pytest

from data_pipelines.expert import experts
from data_pipelines.graphroll import KINDS
from data_pipelines.importers import kgs
from data_pipelines.importers.counts import Counts
from data_pipelines.importers.importing import import_from
from data_pipelines.question_split import cut
from data_pipelines.teachers import TemplateTeacher
from envs.kg_env import KGEnv
from graphwalker.errors import UserError
from graphwalker.kg.open import open_kg
from graphwalker.metrics.trajectory import grounded, reflects
from graphwalker.rewards import em
from graphwalker.tools.toolbox import Toolbox
from graphwalker.types import Entity, Question

ANN = 'A "B", </information> \\ (東京)'
FACTS = """\
Alien|directed_by|Ridley Scott
Alien|written_by|Dan O'Bannon
Alien|written_by|Ronald Shusett
Alien|release_year|1979
Blade Runner|directed_by|Ridley Scott
Blade Runner|release_year|1982
Blade Runner|has_genre|Science Fiction
Blade Runner|has_genre|Thriller
Dark Star|written_by|Dan O'Bannon
Dark Star|directed_by|John Carpenter
Total Recall|written_by|Ronald Shusett
Total Recall|written_by|Gary Goldman
Total Recall|release_year|1990
Big Trouble|written_by|Gary Goldman
Navy Seals|written_by|Gary Goldman
Navy Seals|release_year|1990
"""


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    folder = tmp_path_factory.mktemp("films")
    (folder / "kb.txt").write_text(FACTS, "utf-8")
    kgs.build("metaqa", folder / "kb.txt", folder / "kg", progress=False)
    return open_kg(folder / "kg")


def ask(text, topic, path, *answers, name="q"):
    topics = (Entity(topic),) if isinstance(topic, str) else topic
    paths = (tuple(path.split()),) if isinstance(path, str) else path
    return Question(name, text, topics, tuple(map(Entity, answers)), hops=max(map(len, paths), default=0), paths=paths)


def write(store, *questions, max_turns=10, **options):
    counts = Counts()
    env = KGEnv(Toolbox(store), max_turns=max_turns)
    return list(experts(questions, env, TemplateTeacher(), counts=counts, **options)), counts


GENRES = ask(
    "what genres are the films of the director of Alien",
    "Alien",
    "directed_by ^directed_by has_genre",
    "Thriller",
    "Science Fiction",
)


def test_a_path_becomes_short_thoughts_and_real_queries(films):
    (trajectory,), counts = write(films, GENRES)
    assert [(turn.kind, turn.action) for turn in trajectory.turns] == [
        ("query", 'get_relations("Alien")'),
        ("query", 'get_triples("Alien", ["directed_by"])'),
        ("query", 'get_relations("Ridley Scott")'),
        ("query", 'get_triples("Ridley Scott", ["directed_by"])'),
        ("query", 'get_relations("Blade Runner")'),
        ("query", 'get_triples("Blade Runner", ["has_genre"])'),
        ("answer", '["Science Fiction", "Thriller"]'),
    ]
    words = [
        "director",
        "directed by",
        "Ridley Scott",
        "movie",
        "Blade Runner",
        "has genre",
        "Science Fiction and others",
    ]
    for turn, word in zip(trajectory.turns, words, strict=True):
        assert word in turn.thought and len(turn.thought.split()) <= 16
    assert trajectory.question == GENRES and trajectory.ending == "answered"
    assert trajectory.extra == {"source": "expert", "detours": [], "kinds": []} and counts.kept == 1


def test_where_an_entity_leads_nowhere_the_next_one_is_tried(films):
    """The first writer's other film has no year; the width counts only what leads to an end."""
    asked = ask("when", "Alien", "written_by ^written_by release_year", "1990")
    (trajectory,), _ = write(films, asked, width=1)
    thoughts = [turn.thought for turn in trajectory.turns]
    assert "That is a dead end. Go back to Ronald Shusett." in thoughts and trajectory.answer == ("1990",)
    assert trajectory.extra["detours"] == []  # the expert could not know


@pytest.mark.parametrize(("width", "followed"), [(1, 1), (2, 2), (None, 3)])
def test_width_is_how_many_entities_are_followed(films, width, followed):
    asked = ask("who", "Ridley Scott", "^directed_by release_year", "1979", "1982")
    more = ask("who", "Gary Goldman", "^written_by written_by", "Ronald Shusett")
    (trajectory,), _ = write(films, asked, width=width)
    assert len(trajectory.answer) == min(followed, 2)
    (trajectory,), _ = write(films, more, width=width)  # two of the three films lead to nobody but himself
    assert trajectory.answer == ("Ronald Shusett",)


def test_both_branches_of_a_conjunction(toy_store):
    topics = (Entity("France", "m.fr"), Entity("Lyon", "m.lyon"))
    paths = (("location.country.capital",), ("location.location.containedby", "location.location.contains"))
    for recovery in (0.0, 1.0):
        (trajectory,), _ = write(toy_store, ask("q", topics, paths, "Paris"), recovery=recovery)
        assert trajectory.answer == ("Paris",) and "Paris" in trajectory.turns[-1].thought
        assert (
            len(trajectory.turns) == 7 + len(trajectory.extra["detours"])
            and bool(trajectory.extra["kinds"]) == recovery
        )


def test_names_stand_in_thoughts_as_the_tools_show_them(toy_store):
    asked = ask("who", (Entity("Paris", "m.paris"),), (("^people.person.place_of_birth",),), "Ann Lee", ANN)
    back = ask("where", (Entity(ANN, "m.odd"),), (("people.person.place_of_birth",),), "Paris")
    found, _ = write(toy_store, asked, back, recovery=1.0)
    assert len(found) == 2
    for trajectory in found:
        for turn in trajectory.turns:
            assert "</information>" not in turn.text and turn.text.count("<think>") == 1


def test_mistakes_are_of_all_kinds_in_the_share_asked_for_and_all_are_recovered_from(toy_store, films):
    for store, asked in (
        (films, GENRES),
        (toy_store, ask("q", (Entity("France", "m.fr"),), (("location.country.capital",),), "Paris")),
    ):
        found, counts = write(store, *[asked] * 40, recovery=0.5)
        strayed = [trajectory for trajectory in found if trajectory.extra["kinds"]]
        assert len(found) == counts.kept and len(strayed) + sum(counts.dropped.values()) == 20
        assert {kind for t in strayed for kind in t.extra["kinds"]} >= {"misspelled", "unseen_relation", "bad_query"}
        for trajectory in found:
            assert em(trajectory.answer, asked.answers) == 1 and grounded(trajectory)
            assert trajectory.ending == "answered" and len(trajectory.turns) <= 10
        for trajectory in strayed:
            (kind,), places = trajectory.extra["kinds"], trajectory.extra["detours"]
            assert all(trajectory.turns[place].status in KINDS[kind] for place in places)
            assert reflects(trajectory.turns[places[-1] + 1].thought)
            assert all(turn.status == "ok" for i, turn in enumerate(trajectory.turns) if i not in places)


def test_a_mistake_is_made_only_where_the_turns_have_room_for_it(films):
    found, counts = write(films, *[GENRES] * 12, recovery=1.0, max_turns=7)
    assert len(found) == 12 and not any(trajectory.extra["kinds"] for trajectory in found)


def test_the_same_seed_gives_the_same_trajectories(films):
    runs = [write(films, *[GENRES] * 12, recovery=0.5, seed=seed)[0] for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_what_is_not_right_is_dropped_and_counted(films):
    wrong = ask("who", "Alien", "written_by", "Dan O'Bannon")
    nowhere = ask("what", "Dark Star", "directed_by ^directed_by has_genre", "Comedy")
    found, counts = write(films, wrong, nowhere, GENRES)
    assert len(found) == 1 and counts.dropped == {
        "the path leads to more than the gold": 1,
        "the path has no end": 1,
    }
    with pytest.raises(UserError, match="question q has 0 gold paths"):
        write(films, ask("q", "Alien", (), "x"))


@pytest.mark.slow
def test_metaqa_questions(data_dir, tmp_path):
    kgs.build("metaqa", data_dir / "metaqa", tmp_path / "kg", progress=False)
    store = open_kg(tmp_path / "kg")
    questions = list(import_from("metaqa", data_dir / "metaqa", Counts(), store=store, split="dev"))
    _, some = cut(questions, per_hop=40)
    found, counts = write(store, *some, width=1, recovery=0.3)
    assert counts.read == 120 and len(found) > 100
    assert {trajectory.question.hops for trajectory in found} == {1, 2, 3}
    assert sum(bool(t.extra["kinds"]) for t in found) > 25
    assert max(len(t.turns) for t in found) <= 10
