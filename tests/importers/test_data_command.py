"""`graphwalker data import`, `import-kg`, `oracle`, `expert` and `split` from the console down."""

import json
from dataclasses import replace

import pytest

from graphwalker.cli import main
from graphwalker.files import read_jsonl, write_jsonl
from graphwalker.types import Entity, Question, Trajectory

QUESTIONS = "what movies did [Harry Dean Stanton] act in\tAlien|Paris|Texas\nwhat movies did [Nobody] act in\tAlien\n"
KB = "Paris, Texas|starred_actors|Harry Dean Stanton\nAlien|starred_actors|Harry Dean Stanton\n"


@pytest.fixture
def metaqa(tmp_path):
    home = tmp_path / "metaqa"
    (home / "1-hop").mkdir(parents=True)
    (home / "kb.txt").write_text(KB, "utf-8")
    (home / "1-hop" / "dev.txt").write_text(QUESTIONS, "utf-8")
    (home / "1-hop" / "qa_dev_qtype.txt").write_text("actor_to_movie\nactor_to_movie\n", "utf-8")
    return home


def run(*words):
    return main(["data", *map(str, words)])


def test_from_published_files_to_the_oracles_scores(metaqa, tmp_path, capsys):
    kg, out = tmp_path / "kg", tmp_path / "dev.jsonl"
    assert run("import-kg", "metaqa", metaqa, kg) == 0
    assert "2 facts over 1 relations, 3 named entities" in capsys.readouterr().out
    assert run("import", "metaqa", metaqa, "--kg", kg, "--out", out, "--missing-topic", "drop") == 0
    shown = capsys.readouterr().out
    assert "read 2, kept 1, dropped 1" in shown and "its topic entity is not in the KG" in shown
    (question,) = read_jsonl(out, Question)
    assert [a.name for a in question.answers] == ["Alien", "Paris, Texas"]
    counts = json.loads((tmp_path / "dev.counts.json").read_text("utf-8"))
    assert (counts["read"], counts["kept"], sum(counts["dropped"].values())) == (2, 1, 1)
    assert counts["first_example"]["its topic entity is not in the KG"].endswith("dev.txt:2")
    assert run("oracle", kg, out, "--out", tmp_path / "run", "--strict") == 0
    shown = capsys.readouterr().out
    assert "em: 1 of 1" in shown and "em_set, at most five answers: 1 of 1" in shown and "top 30: 1 of 1" in shown
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text("utf-8"))
    assert metrics["overall"]["metrics"]["em_set"]["value"] == 1.0


def test_bad_input_is_one_message_and_no_file(metaqa, tmp_path, capsys):
    kg, out = tmp_path / "kg", tmp_path / "out.jsonl"
    run("import-kg", "metaqa", metaqa, kg)
    before = sorted(p.name for p in tmp_path.iterdir())
    capsys.readouterr()
    for words, message in [
        (
            ["import", "metaqa", metaqa, "--kg", kg, "--out", out],
            "dev.txt:2: metaqa-1hop-dev-2: unknown topic entity 'Nobody'",
        ),
        (["import", "metaqa", metaqa, "--kg", tmp_path / "none", "--out", out], "none"),
        (["import", "metaqa", tmp_path / "none", "--out", out], "no MetaQA question file"),
        (["import", "metaqa", metaqa, "--split", "test", "--out", out], "split 'test'"),
        (["import", "metaqa", metaqa, "--closed-world", "--out", out], "need a KG"),
        (["import", "metaqa", metaqa, "--only-exact", "--out", out], "--kg"),
        (["import", "metaqa", metaqa, "--limit", "0", "--out", out], "--limit must be at least 1"),
        (["import", "webqsp", metaqa / "kb.txt", "--out", out], "kb.txt:1: not JSON"),
        (["oracle", kg, metaqa / "kb.txt", "--out", tmp_path / "run"], "kb.txt:1"),
    ]:
        assert run(*words) == 2, words
        shown = capsys.readouterr()
        assert shown.err.startswith("graphwalker: error: ") and message in shown.err and "Traceback" not in shown.err
        assert sorted(p.name for p in tmp_path.iterdir()) == before, words


def test_an_import_that_keeps_nothing_is_an_error(metaqa, tmp_path, capsys):
    (metaqa / "1-hop" / "dev.txt").write_text("who [Nobody]\t\nwho [Nobody]\t\n", "utf-8")
    assert run("import", "metaqa", metaqa, "--out", tmp_path / "out.jsonl") == 2
    assert "no question is left" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists() and not (tmp_path / "out.counts.json").exists()


def test_a_limit(metaqa, tmp_path):
    assert run("import", "metaqa", metaqa, "--out", tmp_path / "out.jsonl", "--limit", "1") == 0
    assert len(list(read_jsonl(tmp_path / "out.jsonl"))) == 1


@pytest.fixture
def asked(metaqa, tmp_path):
    """A KG, and questions on it: twelve of one hop with gold, and one whose gold its path does not give."""
    lines = [f"which movies was [Harry Dean Stanton] in, take {i}\tAlien|Paris|Texas\n" for i in range(12)]
    lines.append("which movie was [Harry Dean Stanton] in\tAlien\n")
    (metaqa / "1-hop" / "dev.txt").write_text("".join(lines), "utf-8")
    (metaqa / "1-hop" / "qa_dev_qtype.txt").write_text("actor_to_movie\n" * 13, "utf-8")
    run("import-kg", "metaqa", metaqa, tmp_path / "kg")
    run("import", "metaqa", metaqa, "--kg", tmp_path / "kg", "--out", tmp_path / "dev.jsonl")
    return tmp_path / "kg", tmp_path / "dev.jsonl"


def test_expert_trajectories_and_what_was_dropped(asked, tmp_path, capsys):
    kg, questions = asked
    out = tmp_path / "expert.jsonl"
    assert run("expert", kg, questions, "--out", out, "--recovery", "0.5", "--width", "1", "--strict") == 0
    shown = capsys.readouterr().out
    assert "read 13, kept 12, dropped 1" in shown and "1: the path leads to more than the gold" in shown
    assert f"{out}: 12 trajectories" in shown
    found = list(read_jsonl(out, Trajectory))
    assert all(set(t.answer) == {"Alien", "Paris, Texas"} for t in found)
    assert sum(bool(t.extra["kinds"]) for t in found) == 6
    counts = json.loads((tmp_path / "expert.counts.json").read_text("utf-8"))
    assert counts["kept"] == 12 and sum(counts["dropped"].values()) == 1
    assert run("expert", kg, questions, "--out", out, "--limit", "2") == 0
    assert len(list(read_jsonl(out))) == 2
    assert run("oracle", kg, questions, "--out", tmp_path / "run", "--width", "1") == 0
    assert json.loads((tmp_path / "run" / "oracle.json").read_text("utf-8"))["width"] == 1


def test_a_question_set_is_cut_in_two(asked, tmp_path, capsys):
    _, questions = asked
    train, test = tmp_path / "train.jsonl", tmp_path / "test.jsonl"
    assert run("split", questions, "--out-train", train, "--out-test", test, "--per-hop", "5") == 0
    assert f"{test}: 5 questions (5 of 1 hops)" in capsys.readouterr().out
    texts = [{question.text for question in read_jsonl(path, Question)} for path in (train, test)]
    assert [len(part) for part in texts] == [8, 5] and not texts[0] & texts[1]
    assert run("split", questions, "--out-train", train, "--out-test", test, "--test-share", "0.2") == 0
    assert len(list(read_jsonl(test))) == 3


def test_bad_input_to_expert_and_split_is_one_message_and_no_file(asked, tmp_path, capsys):
    kg, questions = asked
    (question, *_) = read_jsonl(questions, Question)
    bare, lost = tmp_path / "bare.jsonl", tmp_path / "lost.jsonl"
    write_jsonl(bare, [replace(question, paths=())])
    write_jsonl(lost, [replace(question, topic_entities=(Entity("Atlantis"),))])
    twice, taken = tmp_path / "twice.jsonl", tmp_path / "taken"
    write_jsonl(twice, [question, question])
    (taken.with_suffix(".counts.json")).mkdir()
    taken.write_text("as it was")
    expert, parts = ["--out", tmp_path / "out.jsonl"], ["--out-train", tmp_path / "a", "--out-test", tmp_path / "b"]
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    capsys.readouterr()
    for words, message in [
        (["expert", kg, bare, *expert], "bare.jsonl: no question has a gold path"),
        (["expert", kg, lost, *expert], f"lost.jsonl:1: question {question.id}: unknown topic entity 'Atlantis'"),
        (["expert", kg, twice, *expert], "twice.jsonl:2: question id"),
        (["oracle", kg, twice, "--out", tmp_path / "run"], "twice.jsonl:2: question id"),
        (["split", twice, *parts], "twice.jsonl:2: question id"),
        (["expert", kg, questions, "--out", taken], "taken.counts.json: Is a directory"),
        (["split", questions, "--out-train", taken, "--out-test", tmp_path / "kg"], "Is a directory"),
        (["oracle", kg, questions, "--out", tmp_path / "run", "--seed", "-1"], "--seed must be at least 0, got -1"),
        (["expert", kg, questions, *expert, "--seed", "-1"], "--seed must be at least 0, got -1"),
        (["split", questions, *parts, "--seed", "-1"], "--seed must be at least 0, got -1"),
        (["expert", tmp_path / "none", questions, *expert], "none"),
        (["expert", kg, questions, "--out", questions], "dev.jsonl: the output would be written onto the input"),
        (["expert", kg, questions, *expert, "--recovery", "2"], "--recovery must be from 0 to 1, got 2"),
        (["expert", kg, questions, *expert, "--width", "0"], "--width must be at least 1, got 0"),
        (["expert", kg, questions, *expert, "--max-turns", "2"], "no question is left"),
        (["split", questions, "--out-train", questions, "--out-test", tmp_path / "b"], "onto the input"),
        (["split", questions, "--out-train", tmp_path / "a", "--out-test", tmp_path / "a"], "both parts"),
        (["split", questions, *parts, "--per-hop", "13"], "there are 13 questions of 1 hops: cannot put 13 aside"),
        (["split", questions, *parts, "--test-share", "1.5"], "--test-share must be from 0 to 1, got 1.5"),
        (["split", bare, *parts], "too few to cut in two"),
        (["split", tmp_path / "none", *parts], "none: no such file"),
    ]:
        assert run(*words) == 2, words
        shown = capsys.readouterr()
        assert shown.err.startswith("graphwalker: error: ") and message in shown.err and "Traceback" not in shown.err
        assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before, words
