"""The oracle on the toy KG."""

import pytest

from data_pipelines.oracle import Oracle, run_oracle, summarise
from envs.kg_env import KGEnv
from graphwalker.errors import UserError
from graphwalker.files import read_jsonl, write_jsonl
from graphwalker.kg.build import build_from_triples
from graphwalker.kg.open import open_kg
from graphwalker.kg.terms import literal
from graphwalker.rewards import em_set
from graphwalker.tools.toolbox import Toolbox
from graphwalker.types import Entity, Question, Trajectory

ADJOINS = "location.location.adjoin_s.location.adjoining_relationship.adjoins"


def question(*paths, answers=(), topics=(("France", "m.fr"),), name="q"):
    return Question(
        id=name,
        text="what is it?",
        topic_entities=tuple(Entity(*topic) for topic in topics),
        answers=tuple(Entity(answer) for answer in answers),
        paths=tuple(tuple(path) for path in paths),
    )


def replay(store, asked, max_turns=10, **options):
    return Oracle(KGEnv(Toolbox(store, **options), max_turns=max_turns)).replay(asked)


@pytest.mark.parametrize(
    ("path", "topic", "answers"),
    [
        (["location.country.capital"], ("France", "m.fr"), ["Paris"]),
        ([ADJOINS], ("France", "m.fr"), ["Spain"]),
        (["^people.person.place_of_birth"], ("Lyon", "m.lyon"), ["Ann Lee"]),
        (["location.location.contains", "^people.person.place_of_birth"], ("France", "m.fr"), None),
        (["location.location.containedby", "location.country.capital"], ("Lyon", "m.lyon"), ["Paris"]),
    ],
)
def test_gold_paths_are_replayed_through_the_environment(toy_store, path, topic, answers):
    names = answers or ["Ann Lee", 'A "B", </information> \\ (東京)']
    result = replay(toy_store, question(path, topics=[topic], answers=names))
    assert em_set(result.trajectory.answer, result.trajectory.question.answers) == 1
    assert result.trajectory.ending == "answered" and result.rank() is not None and not result.cut
    assert [turn.status for turn in result.trajectory.turns] == ["ok"] * len(result.trajectory.turns)


def test_a_conjunction_gives_what_both_branches_share(toy_store):
    asked = question(
        ["location.country.capital"],
        ["location.location.containedby", "location.location.contains"],
        topics=[("France", "m.fr"), ("Lyon", "m.lyon")],
        answers=["Paris"],
    )
    assert replay(toy_store, asked).trajectory.answer == ("Paris",)


def test_the_topic_is_never_an_answer(toy_store):
    asked = question(["location.location.contains", "location.location.containedby"], answers=["x"])
    result = replay(toy_store, asked)
    assert result.trajectory.answer == () and summarise([result], 20)["exceptions"][0]["why"] == "the path has no end"


def test_a_relation_that_is_not_listed_is_refused_only_when_strict(toy_store):
    asked = question(["location.location.contains"], answers=["Paris", "Lyon"])
    ranks = [replay(toy_store, asked, top_k=1, strict=strict) for strict in (True, False)]
    strict, free = ranks
    assert strict.not_listed and strict.trajectory.answer == ()
    assert free.not_listed and set(free.trajectory.answer) == {"Paris", "Lyon"}
    assert summarise([strict], 1)["exceptions"][0]["why"] == "a gold relation was not listed"
    assert strict.rank() == free.rank() > 1
    summary = summarise([free], 1)
    assert summary["gold_relation_in_top"] == {"1": 0, "10": 1, "20": 1, "30": 1} and not summary["exceptions"]


@pytest.fixture
def wide(tmp_path):
    """A root with eight children, each with a child of its own; the first child in order is childless."""
    facts = [("m.root", "a.b.c", f"m.c{i}") for i in range(8)]
    facts += [(f"m.c{i}", "d.e.f", f"m.g{i}") for i in range(1, 8)]
    nodes = sorted({node for h, _, t in facts for node in (h, t)})
    facts += [(node, "type.object.name", literal(node[2:], lang="en")) for node in nodes]
    build_from_triples(facts, tmp_path / "kg", "freebase")
    return open_kg(tmp_path / "kg")


def test_the_oracle_keeps_to_the_turns_and_says_what_was_cut(wide):
    gold = [f"g{i}" for i in range(1, 8)]
    asked = question(["a.b.c", "d.e.f"], topics=[("root", "m.root")], answers=gold)
    few = replay(wide, asked)
    assert len(few.trajectory.turns) <= 10 and few.trajectory.ending == "answered" and few.cut
    assert set(few.trajectory.answer) < set(gold) and few.trajectory.answer
    assert summarise([few], 20)["exceptions"][0]["why"].startswith("not all was shown")
    many = replay(wide, asked, max_turns=40, triples_per_relation=8)
    assert set(many.trajectory.answer) == set(gold) and not many.cut
    none = replay(wide, asked, max_turns=4)
    assert none.trajectory.answer == () and none.rank() is None
    assert summarise([none], 20)["exceptions"][0]["why"] == "what was shown leads to no end of the path"


def test_gold_that_the_path_does_not_give_is_explained(toy_store):
    less = replay(toy_store, question(["location.country.capital"], answers=["Paris", "Rome"]))
    more = replay(toy_store, question(["location.location.contains"], answers=["Paris"]))
    unknown = replay(toy_store, question(["location.country.capital"], topics=[("Atlantis", None)], answers=["x"]))
    why = [entry["why"] for entry in summarise([less, more, unknown], 20)["exceptions"]]
    assert why == [
        "the path leads to less than the gold",
        "the path leads to more than the gold",
        "queries failed: unknown_entity x1",
    ]
    with pytest.raises(UserError, match="0 gold paths"):
        replay(toy_store, question())


def test_a_run_writes_trajectories_metrics_and_ranks(toy_kg, tmp_path):
    questions = tmp_path / "questions.jsonl"
    asked = [question(["location.country.capital"], answers=["Paris"]), question(answers=["x"], name="no path")]
    write_jsonl(questions, asked)
    lines = run_oracle(toy_kg, questions, tmp_path / "run")
    assert lines[0] == "1 questions replayed, 1 without a gold path, not strict" and lines[1] == "em: 1 of 1"
    (trajectory,) = read_jsonl(tmp_path / "run" / "trajectories.jsonl", Trajectory)
    assert trajectory.question == asked[0]
    assert {p.name for p in (tmp_path / "run").iterdir()} == {"trajectories.jsonl", "metrics.json", "oracle.json"}
    write_jsonl(questions, asked[1:])
    with pytest.raises(UserError, match="no question has a gold path"):
        run_oracle(toy_kg, questions, tmp_path / "none")
    write_jsonl(questions, [question(["location.country.capital"], topics=[("Atlantis", None)], name="q7")])
    with pytest.raises(UserError, match="questions.jsonl:1: question q7: unknown topic entity 'Atlantis'.* with --kg"):
        run_oracle(toy_kg, questions, tmp_path / "none")
    assert not (tmp_path / "none").exists()
