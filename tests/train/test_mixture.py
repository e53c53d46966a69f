"""Mixtures: every record in its place, shares that hold in every stretch, filters that say when they leave nothing."""

import pytest

from graphwalker.errors import UserError
from graphwalker.files import write_jsonl
from graphwalker.train.configs import QuestionData, TrajectoryData
from graphwalker.train.mixture import Source, read_mixture, sources
from graphwalker.types import Entity, Question, Trajectory, Turn

FILES = {
    "a": [Question(f"a{i}", "?", hops=1 + i % 3, structure=f"{1 + i % 3}-hop") for i in range(6)],
    "b": [Question(f"b{i}", "?", hops=2, structure="2i") for i in range(3)],
    "c": [Question("c0", "?")],
}


def _ids(found, limit=None):
    return " ".join(q.id for q in read_mixture(found, FILES.__getitem__, lambda q: q, limit))


def test_one_file_keeps_its_order():
    (source,) = sources(QuestionData(questions="a"), "questions", "a")
    assert _ids([source]) == "a0 a1 a2 a3 a4 a5" and _ids([source], 2) == "a0 a1"
    assert _ids([source], 9) == "a0 a1 a2 a3 a4 a5"  # a limit cuts, it repeats nothing


def test_without_weights_every_record_stands_there_once_spread_evenly():
    assert _ids([Source(file="a"), Source(file="b")]) == "a0 b0 a1 a2 b1 a3 a4 b2 a5"


def test_weights_are_shares_in_every_stretch():
    found = [Source(file="a", weight=1), Source(file="b", weight=2)]
    ids = _ids(found).split()
    assert ids == ["b0", "a0", "b1", "b2", "a1", "b0", "b1", "a2", "b2"]  # b begins again, a is cut
    for n in range(len(ids)):
        assert abs(sum(i.startswith("b") for i in ids[:n]) - n * 2 / 3) < 1
    assert _ids(found, 3) == "b0 a0 b1"


def test_filters():
    assert _ids([Source(file="a", min_hops=2, max_hops=2)]) == "a1 a4"
    assert _ids([Source(file="a", structures=["1-hop", "2i"], limit=1), Source(file="b", limit=2)]) == "b0 a0 b1"
    with pytest.raises(UserError, match=r"c: none of its 1 records passes the filters \(max_hops: 9\)"):
        _ids([Source(file="c", max_hops=9)])


def test_difficulty_is_what_an_evaluation_found(tmp_path):
    """Of four episodes of a0 all are right, of a1 one, of a2 none; a3 was cut off by an outage."""
    paris = Entity("Paris")
    episodes = [
        Trajectory(Question(f"a{i}", "?", answers=(paris,)), (Turn("t"),), ("Paris" if j < right else "x",), "answered")
        for i, right in enumerate((4, 1, 0))
        for j in range(4)
    ]
    episodes.append(Trajectory(Question("a3", "?", answers=(paris,)), ending="outage"))
    write_jsonl(tmp_path / "t.jsonl", episodes)
    at = {"file": "a", "difficulty_from": str(tmp_path / "t.jsonl")}
    assert _ids([Source(**at)]) == "a0 a1 a2"
    assert _ids([Source(**at, min_difficulty=0.1, max_difficulty=0.9)]) == "a1"


def test_a_configs_filters_hold_for_files_without_their_own():
    data = TrajectoryData(mixture=[{"file": "a", "max_hops": 1}, {"file": "b"}], max_hops=3)
    assert [source.max_hops for source in sources(data, "trajectories", None)] == [1, 3]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "questions is missing: name a file, or several"),
        ({"questions": "a", "mixture": [{"file": "b"}]}, "questions and mixture are both given"),
        ({"mixture": ["a"]}, "mixture, file 1: expected a mapping with a file, got 'a'"),
        ({"mixture": [{"file": "a"}, {"weight": 1}]}, "mixture, file 2: file: name a file"),
        ({"mixture": [{"file": "a", "wieght": 1}]}, "mixture, file 1: unknown key 'wieght'"),
        ({"mixture": [{"file": "a", "weight": 0}]}, "weight: must be above 0"),
        ({"mixture": [{"file": "a", "weight": "x"}]}, "file 1: weight: expected a number"),
        ({"mixture": [{"file": "a", "weight": 1}, {"file": "b"}]}, "give every file a weight, or none"),
        ({"mixture": [{"file": "a", "limit": 0}]}, "limit: must be at least 1"),
        ({"mixture": [{"file": "a", "min_hops": 2}], "max_hops": 1}, "file 1: min_hops: 2 is above max_hops: 1"),
        ({"questions": "a", "min_difficulty": 0.5, "max_difficulty": 0.2, "difficulty_from": "t"}, "is above max_diff"),
        ({"questions": "a", "structures": []}, "structures: an empty list leaves no question"),
        ({"mixture": [{"file": "a", "max_difficulty": 0.5}]}, "need difficulty_from"),
    ],
)
def test_mistakes(given, message):
    with pytest.raises(UserError, match=message):
        sources(QuestionData(**given), "questions", given.get("questions"))
