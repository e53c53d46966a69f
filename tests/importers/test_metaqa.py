"""MetaQA's questions and KB, on a hand-made KB of a few films."""

import pytest

from data_pipelines.importers import kgs, metaqa, metaqa_kb
from data_pipelines.importers.counts import Counts
from data_pipelines.importers.importing import import_from
from data_pipelines.importers.on_kg import GOLD_IS_PART
from data_pipelines.importers.paths import PathWalker
from graphwalker.errors import FileFormatError, UserError
from graphwalker.kg.open import open_kg

FACTS = [
    ("Paris, Texas", "directed_by", "Wim Wenders"),
    ("Paris, Texas", "starred_actors", "Harry Dean Stanton"),
    ("Paris, Texas", "release_year", "1984"),
    ("Alien", "directed_by", "Ridley Scott"),
    ("Alien", "starred_actors", "Harry Dean Stanton"),
    ("Alien", "release_year", "1979"),
    ("Until the End of the World", "directed_by", "Wim Wenders"),
    ("Until the End of the World", "release_year", "1991"),
    ("Paris", "release_year", "2008"),
    ("[REC]", "release_year", "2007"),
    ("Texas", "has_tags", "Texas"),
    ("Gigi", "in_language", "English"),
    ("Gigi", "in_language", "French"),
]


@pytest.fixture
def kb(tmp_path):
    path = tmp_path / "kb.txt"
    path.write_text("".join("|".join(fact) + "\n" for fact in FACTS), "utf-8")
    return path


@pytest.fixture
def store(kb, tmp_path):
    kgs.build("metaqa", kb, tmp_path / "kg", progress=False)
    return open_kg(tmp_path / "kg")


def questions_in(folder, lines, types=(), hops=1, split="dev"):
    home = folder / f"{hops}-hop"
    home.mkdir(exist_ok=True)
    (home / f"{split}.txt").write_text("".join(line + "\n" for line in lines), "utf-8")
    if types:
        (home / f"qa_{split}_qtype.txt").write_text("".join(line + "\n" for line in types), "utf-8")
    return home / f"{split}.txt"


def read(source, **options):
    counts = Counts()
    return list(import_from("metaqa", source, counts, **options)), counts


def numbered(folder, triples, relations=("directed_by", "directed_by_reverse")):
    folder.mkdir()
    (folder / "entities.dict").write_text("0\tAlien\n1\tRidley Scott\n", "utf-8")
    (folder / "relations.dict").write_text("".join(f"{i}\t{r}\n" for i, r in enumerate(relations)), "utf-8")
    (folder / "train.txt").write_text(triples, "utf-8")
    return folder


def test_both_forms_of_the_kb_give_the_same_facts(tmp_path, kb):
    folder = numbered(tmp_path / "kb", "0\t0\t1\n")
    assert list(metaqa_kb.read_kb(folder)) == [("Alien", "directed_by", "Ridley Scott")]
    assert list(metaqa_kb.read_kb(tmp_path)) == list(metaqa_kb.read_kb(kb))


def test_a_fact_in_both_directions_is_one_fact(tmp_path):
    folder = numbered(tmp_path / "kb", "0\t0\t1\n1\t1\t0\n")
    lines = kgs.build("metaqa", folder, tmp_path / "kg", progress=False)
    store = open_kg(tmp_path / "kg")
    director, film = metaqa_kb.entity_id("Ridley Scott"), metaqa_kb.entity_id("Alien")
    assert [step.relation for step in store.steps(director)] == ["directed_by"]
    assert store.expand(director, ["directed_by"], 5)[0].triples[0].head == film
    assert "1 facts over 1 relations" in lines[0] and "1 lines repeat a fact" in lines[1]


@pytest.mark.parametrize(
    ("triples", "message"),
    [
        ("0\t0\n", "train.txt:1: expected head, relation, tail"),
        ("0\t0\t1\n0 0 7\n", "train.txt:2: number 7 is not in .*entities.dict"),
        ("0\t9\t1\n", "train.txt:1: number 9 is not in .*relations.dict"),
        ("0\tx\t1\n", "train.txt:1: expected head"),
    ],
)
def test_a_broken_integer_kb_names_its_line(tmp_path, triples, message):
    with pytest.raises(FileFormatError, match=message):
        list(metaqa_kb.read_kb(numbered(tmp_path / "kb", triples)))


def test_a_broken_named_kb_names_its_line_and_leaves_nothing(tmp_path):
    (tmp_path / "kb.txt").write_text("a|directed_by|b\na|directed_by\n", "utf-8")
    with pytest.raises(FileFormatError, match=r"kb.txt:2: expected head\|relation\|tail, got 'a\|directed_by'"):
        kgs.build("metaqa", tmp_path / "kb.txt", tmp_path / "kg", progress=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kb.txt"]
    with pytest.raises(UserError, match="neither kb.txt nor entities.dict"):
        metaqa_kb.read_kb(tmp_path / "nowhere")


def test_ids_come_from_names(store):
    assert store.named("Paris, Texas") == ["Paris%2C%20Texas"]
    assert store.names(["Paris%2C%20Texas"]) == ["Paris, Texas"]
    assert store.named("paris, texas", ignore_case=True) == ["Paris%2C%20Texas"]


def test_a_question_with_its_type(tmp_path):
    path = questions_in(
        tmp_path, ["what movies did [Harry Dean Stanton] act in\tAlien|Paris, Texas"], ["actor_to_movie"]
    )
    (question,), counts = read(path)
    assert question.text == "what movies did Harry Dean Stanton act in"
    assert [e.name for e in question.topic_entities] == ["Harry Dean Stanton"]
    assert [e.name for e in question.answers] == ["Alien", "Paris, Texas"]
    assert question.paths == (("^starred_actors",),) and question.hops == 1 and question.structure == "1-hop"
    assert (question.dataset, question.split, question.id) == ("metaqa", "dev", "metaqa-1hop-dev-1")
    assert counts.kept == 1 and not counts.dropped


def test_a_topic_may_hold_brackets(tmp_path, store):
    path = questions_in(tmp_path, ["when was [[REC]] released\t2007"], ["movie_to_year"])
    (question,), _ = read(path, store=store)
    assert question.text == "when was [REC] released" and question.topic_entities[0].name == "[REC]"


def test_without_types_the_folder_tells_the_hops(tmp_path):
    (question,), _ = read(questions_in(tmp_path, ["who [X]\ty"], hops=3))
    assert (question.hops, question.paths) == (3, ())


def test_every_layout_is_found(tmp_path):
    questions_in(tmp_path, ["who [X]\ty"])
    questions_in(tmp_path, ["who [X]\ty"], hops=2, split="train")
    vanilla = tmp_path / "3-hop" / "vanilla"
    vanilla.mkdir(parents=True)
    (vanilla / "qa_test.txt").write_text("who [X]\ty\n", "utf-8")
    (tmp_path / "3-hop" / "qa_test_qtype.txt").write_text("movie_to_actor_to_movie_to_year\n", "utf-8")
    found, _ = read(tmp_path)
    assert [(q.hops, q.split) for q in found] == [(1, "dev"), (2, "train"), (3, "test")]
    assert found[2].paths == (("starred_actors", "^starred_actors", "release_year"),)
    assert [q.split for q in read(tmp_path, split="train")[0]] == ["train"]
    assert [q.hops for q in read(tmp_path / "3-hop")[0]] == [3]
    with pytest.raises(UserError, match="no MetaQA question file of split 'extra'"):
        read(tmp_path, split="extra")


@pytest.mark.parametrize(
    ("lines", "types", "message"),
    [
        (["who directed [Alien]"], [], r"dev.txt:1: expected question, tab, answers"),
        (["who [A]\tb", "who\tb"], [], r"dev.txt:2: no \[topic entity\]"),
        (["who []\tb"], [], r"dev.txt:1: no \[topic entity\]"),
        (["who [A]\tb\tc"], [], r"dev.txt:1: expected question, tab, answers"),
        (["who [A]\tb"], ["actor_to_dog"], r"qtype.txt:1: unknown question type 'actor_to_dog'"),
        (["who [A]\tb", "who [A]\tb"], ["movie_to_year"], r"qtype.txt:2: no type for the question on line 2"),
        (["who [A]\tb"], ["movie_to_year"] * 2, r"has 2 types for the 1 questions"),
    ],
)
def test_a_broken_line_is_named(tmp_path, lines, types, message):
    with pytest.raises(UserError, match=message):
        read(questions_in(tmp_path, lines, types))


def test_not_utf8_is_named(tmp_path):
    path = questions_in(tmp_path, ["who [A]\tb"])
    path.write_bytes(path.read_bytes() + b"who [\xff]\tb\n")
    with pytest.raises(FileFormatError, match="dev.txt:2: not UTF-8"):
        read(path)


def test_an_unknown_topic_is_an_error_or_dropped(tmp_path, store):
    path = questions_in(tmp_path, ["who directed [Alien]\tRidley Scott", "who directed [Aliens]\tJames Cameron"])
    with pytest.raises(FileFormatError, match="dev.txt:2: metaqa-1hop-dev-2: unknown topic entity 'Aliens'"):
        read(path, store=store)
    found, counts = read(path, store=store, missing="drop")
    assert len(found) == 1 and counts.dropped == {"its topic entity is not in the KG": 1}
    assert counts.examples["its topic entity is not in the KG"].endswith("dev.txt:2")


def test_an_answer_split_at_its_comma_is_put_together(tmp_path, store):
    line = "what movies did [Harry Dean Stanton] act in\tAlien|Paris|Texas"
    (question,), counts = read(questions_in(tmp_path, [line], ["actor_to_movie"]), store=store)
    assert [(e.name, e.id) for e in question.answers] == [("Alien", "Alien"), ("Paris, Texas", "Paris%2C%20Texas")]
    assert counts.notes["an answer that stood split at its comma was put together"] == 1
    assert read(questions_in(tmp_path, [line], ["actor_to_movie"]))[0][0].answers[1].name == "Paris"  # no KG: as it is


def test_pieces_that_are_answers_themselves_stay_apart():
    assert metaqa.rejoin(["Paris", "Texas"], {"Paris", "Texas", "Paris, Texas"}) == ["Paris", "Texas"]
    assert metaqa.rejoin(["10", "000 BC"], {"10,000 BC"}) == ["10,000 BC"]
    assert metaqa.rejoin(["a", "b", "c", "d"], {"a, b, c", "d"}) == ["a, b, c", "d"]
    assert metaqa.rejoin([], {"a"}) == []


def test_the_gold_leaves_the_topic_out_as_the_data_set_does(tmp_path, store):
    two = questions_in(
        tmp_path,
        ["which films share the director of [Paris, Texas]\tUntil the End of the World"],
        ["movie_to_director_to_movie"],
        hops=2,
    )
    three = questions_in(
        tmp_path,
        ["when did the films of the director of [Paris, Texas] come out\t1991"],
        ["movie_to_director_to_movie_to_year"],
        hops=3,
    )
    one = questions_in(tmp_path, ["which films are about [Texas]\tTexas"], ["tag_to_movie"])
    for path in (one, two, three):
        found, counts = read(path, store=store, only_exact=True)
        assert len(found) == 1 and not counts.notes, path


def test_a_walk_leaves_the_start_out_where_told(store):
    walker, start = PathWalker(store), metaqa_kb.entity_id("Paris, Texas")
    path = ("directed_by", "^directed_by", "release_year")
    assert walker.walk(start, path) == {"1991"}
    assert walker.walk(start, path, "never") == {"1984", "1991"}
    assert start in walker.walk(start, path[:2], "never") and start not in walker.walk(start, path[:2], "end")


def test_gold_that_is_a_part_of_the_kb_is_noticed_or_dropped(tmp_path, store):
    path = questions_in(tmp_path, ["which language has [Gigi]\tFrench"], ["movie_to_language"])
    (question,), counts = read(path, store=store)
    assert [e.name for e in question.answers] == ["French"] and counts.notes == {GOLD_IS_PART: 1}
    found, counts = read(path, store=store, only_exact=True)
    assert not found and counts.dropped == {GOLD_IS_PART: 1}
    with pytest.raises(UserError, match="need a KG"):
        read(path, only_exact=True)


def test_missing_answers_are_counted(tmp_path, store):
    path = questions_in(tmp_path, ["who [Alien]\t", "who [Alien]\tNobody", "who [Alien]\tNobody|Ridley Scott"])
    found, counts = read(path, store=store)
    assert [len(q.answers) for q in found] == [2]
    assert counts.dropped == {"it has no answer": 1, "no answer is in the KG": 1}
    assert counts.notes == {"some of its answers are not in the KG": 1, "it has no gold path": 1}
    assert counts.to_json()["read"] == 3
