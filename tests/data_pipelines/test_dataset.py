import json
from pathlib import Path

import pytest

from data_pipelines.dataset import PARTS, Sizes, prepare_demo_data, synthesise
from data_pipelines.splits import EntitySplit, leaks
from data_pipelines.walks import Branch, Walk
from graphwalker.cli import main
from graphwalker.errors import UserError
from graphwalker.files import read_jsonl
from graphwalker.types import Question, Trajectory

TRAJECTORIES = ("graphsynth", "graphroll")


def questions(out: Path, part: str) -> list[Question]:
    if part in TRAJECTORIES:
        return [trajectory.question for trajectory in read_jsonl(out / f"{part}.jsonl", Trajectory)]
    return list(read_jsonl(out / f"{part}.jsonl", Question))


def topics(of: list[Question]) -> set[str]:
    return {entity.id for question in of for entity in question.topic_entities}


def paths(of: list[Question]) -> set[tuple]:
    return {tuple(sorted(question.paths)) for question in of}


def test_files_hold_what_the_statistics_say_in_equal_shares(data):
    out, statistics = data
    assert statistics == json.loads((out / "stats.json").read_text("utf-8"))
    assert statistics["fewer_than_asked"] == {}
    for part in PARTS:
        of, counts = questions(out, part), statistics["counts"][part]
        assert len(of) == counts["total"] == sum(counts["by_structure"].values())
        shares = counts["by_structure"].values()
        assert max(shares) - min(shares) <= 1 and len(shares) == (3 if part == "test_path" else 4)
        assert {question.split for question in of} == {part if part.startswith(("dev", "test")) else "train"}


def test_no_leaks_by_the_makers_count_and_by_the_files(data):
    out, statistics = data
    assert set(statistics["leaks"].values()) == {0}
    train = [question for part in ("graphsynth", "graphroll", "train") for question in questions(out, part)]
    test_entity, test_path, dev = (questions(out, part) for part in ("test_entity", "test_path", "dev"))
    answers = {answer.id for question in train for answer in question.answers}
    assert topics(test_entity).isdisjoint(topics(train) | answers)
    assert paths(test_entity) <= paths(train)
    assert paths(test_path).isdisjoint(paths(train))
    relations = {relation for of in paths(train) for path in of for relation in path}
    assert {relation for of in paths(test_path) for path in of for relation in path} <= relations
    assert all(not topics([question]) <= topics(train) for question in dev)


def test_no_entity_that_is_held_out_is_named_in_between_in_training(data):
    out, _ = data
    held_out = {entity.name for question in questions(out, "test_entity") for entity in question.topic_entities}
    for trajectory in read_jsonl(out / "graphsynth.jsonl", Trajectory):
        for turn in trajectory.turns:
            assert not any(f'("{name}"' in turn.action for name in held_out)


def test_no_question_is_in_two_files(data):
    out, _ = data
    every = [question for part in PARTS for question in questions(out, part)]
    assert len({question.text for question in every}) == len({question.id for question in every}) == len(every)


def test_the_leak_count_finds_leaks():
    def chain(topic: str, *relations: str) -> Walk:
        return Walk((Branch((topic, *(f"n{i}" for i in range(len(relations)))), relations),))

    train = [chain("a", "r", "s"), chain("n9", "r")]
    counts = leaks(train, {"test_entity": [chain("n1", "r")], "test_path": [chain("b", "r", "s"), chain("b", "t")]})
    assert counts["test_entity: topic entity"] == 1
    assert counts["test_path: relation path"] == 1 and counts["test_path: relation never trained"] == 1
    assert leaks(train, {"dev": [chain("a", "r", "s")]}) == {"dev: same walk": 1, "dev: topic entity": 1}


def test_hubs_are_never_held_out(demo_store, walker):
    splits = [EntitySplit(demo_store, walker.graph.kinds, seed=seed) for seed in range(10)]
    (china,) = [node for node in demo_store.named("China") if "location.country" in demo_store.types(node)]
    assert {split.of(china) for split in splits} == {"train"}
    assert len({split.of("m.none") for split in splits}) == 1


def test_the_seed_decides_everything(demo_store, tmp_path):
    sizes = Sizes(graphsynth=12, graphroll=8, train=4, dev=4, test_entity=4, test_path=3)
    runs = {}
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        options = {"structures": ("2-hop", "2i"), "sizes": sizes, "seed": seed, "progress": False}
        synthesise(demo_store, tmp_path / name, dataset="demo", **options)
        runs[name] = {part: (tmp_path / name / f"{part}.jsonl").read_bytes() for part in PARTS}
    assert runs["one"] == runs["two"]
    assert all(runs["one"][part] != runs["three"][part] for part in PARTS)


def test_a_graph_without_walks_is_an_error_and_leaves_nothing(toy_store, tmp_path):
    with pytest.raises(UserError, match="no walks"):
        synthesise(toy_store, tmp_path / "out", dataset="toy", structures=("5-hop",), progress=False)
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_written_whole_leaves_what_was_there(demo_store, tmp_path):
    sizes = Sizes(graphsynth=4, graphroll=2, train=2, dev=1, test_entity=1, test_path=1)
    (tmp_path / "graphsynth.jsonl").write_text("as it was")
    (tmp_path / "stats.json").mkdir()
    with pytest.raises(UserError, match="stats.json: Is a directory"):
        synthesise(demo_store, tmp_path, dataset="demo", structures=("2-hop",), sizes=sizes, progress=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graphsynth.jsonl", "stats.json"]
    assert (tmp_path / "graphsynth.jsonl").read_text() == "as it was"


def test_prepared_data_is_reused_with_the_same_settings_only(tmp_path):
    sizes = {"n_synth": 8, "n_roll": 4, "n_train": 4, "n_dev": 0, "n_test_entity": 4, "n_test_path": 3}
    settings = {**sizes, "min_population": 1_000_000, "progress": False}
    first = prepare_demo_data(tmp_path, **settings)
    written = (tmp_path / "stats.json").stat().st_mtime_ns
    assert prepare_demo_data(tmp_path, **settings) == first
    assert (tmp_path / "stats.json").stat().st_mtime_ns == written
    (tmp_path / "dev.jsonl").unlink()
    assert prepare_demo_data(tmp_path, **settings) == first and (tmp_path / "dev.jsonl").is_file()
    other = prepare_demo_data(tmp_path, **{**settings, "n_synth": 4})
    assert other["counts"]["graphsynth"]["total"] == 4


@pytest.mark.slow
def test_the_whole_demo_data_is_as_large_as_asked_for(tmp_path):
    statistics = prepare_demo_data(tmp_path, progress=False)
    assert statistics["fewer_than_asked"] == {} and set(statistics["leaks"].values()) == {0}
    counts = {part: of["by_structure"] for part, of in statistics["counts"].items()}
    assert counts["graphsynth"] == dict.fromkeys(("1-hop", "2-hop", "2i", "3-hop"), 1500)
    assert sum(counts["test_entity"].values()) >= 240 and len(set(counts["test_entity"].values())) == 1
    assert sum(counts["test_path"].values()) >= 100


def test_the_command_writes_data_for_a_kg(demo_kg, tmp_path, capsys):
    sizes = ["--graphsynth", "8", "--graphroll", "4", "--train", "2", "--dev", "2", "--test-entity", "0"]
    out = tmp_path / "out"
    asked = ["data", "synth", str(demo_kg), str(out), *sizes, "--test-path", "0", "--structures", "1-hop,2i"]
    assert main([*asked, "--recovery", "1"]) == 0
    assert "graphsynth.jsonl: 8 (4 1-hop, 4 2i)" in capsys.readouterr().out
    assert {question.structure for question in questions(out, "graphsynth")} == {"1-hop", "2i"}
    assert {question.dataset for question in questions(out, "train")} == {"out"}
    assert all(t.extra["detours"] for t in read_jsonl(out / "graphroll.jsonl", Trajectory))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["{kg}", "{out}", "--structures", "1-hop,9-hop"], "unknown structure '9-hop'"),
        (["{none}", "{out}"], "no such knowledge graph"),
        (["{kg}", "{out}", "--graphsynth", "-3"], "expected a count"),
        (["{kg}", "{out}", "--recovery", "1.5"], "between 0 and 1"),
        (["{kg}", "{out}", "--phrases", "{none}"], "no such file"),
        (["{kg}", "{file}"], "is not a folder"),
        (["{kg}", "{out}", "--top-k", "0"], "at least 1"),
    ],
)
def test_bad_input_gives_one_message_and_no_output(demo_kg, tmp_path, capsys, arguments, problem):
    (tmp_path / "file").write_text("", "utf-8")
    places = {"kg": demo_kg, "out": tmp_path / "out", "none": tmp_path / "none", "file": tmp_path / "file"}
    try:
        status = main(["data", "synth", *(argument.format(**places) for argument in arguments)])
    except SystemExit as leave:  # argparse's own way
        status = leave.code
    assert status == 2 and problem in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
