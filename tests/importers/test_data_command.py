"""`graphwalker data import`, `import-kg` and `oracle` from the console down."""

import json

import pytest

from graphwalker.cli import main
from graphwalker.files import read_jsonl
from graphwalker.types import Question

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
        (["import", "metaqa", metaqa, "--kg", kg, "--out", out], "dev.txt:2: unknown topic entity 'Nobody'"),
        (["import", "metaqa", metaqa, "--kg", tmp_path / "none", "--out", out], "none"),
        (["import", "metaqa", tmp_path / "none", "--out", out], "no MetaQA question file"),
        (["import", "metaqa", metaqa, "--split", "test", "--out", out], "split 'test'"),
        (["import", "metaqa", metaqa, "--closed-world", "--out", out], "are for webqsp"),
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
