"""Records on disk: what is read is checked and named by file, line and field; what is written is whole or not there."""

import json
import subprocess
import sys

import pytest

from graphwalker.errors import FileFormatError, UserError
from graphwalker.files import atomic_files, file_hash, locked, read_jsonl
from graphwalker.tools.questions import read_questions
from graphwalker.types import Entity, Parse, Question, Trajectory, Turn

ENTITY = Entity("France", "m.fr", ("République",))
QUESTION = Question("q", "what?", (ENTITY,), (ENTITY,), hops=0, paths=(("r",),), parses=(Parse((ENTITY,), sparql="S"),))
TRAJECTORY = Trajectory(QUESTION, (Turn("t", kind="query"), Turn("u")), ("a",), "answered", extra={"a": [1]})


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"a": "\xff"}', "can't decode byte 0xff"),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 5000, "5000 digits"),
        (b'{"a": }', r"Expecting value \(column 7\)"),
        (b'{"\\udC00": 1}', "surrogates not allowed"),
        (b'{"a": "\\ud83d \\ude00"}', "surrogates not allowed"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path, line, problem):
    (tmp_path / "a.jsonl").write_bytes(b'{"a": "\\ud83d\\ude00"}\n\n' + line + b"\n")
    values = read_jsonl(tmp_path / "a.jsonl")
    assert next(values) == {"a": "😀"}
    with pytest.raises(FileFormatError, match=f"a.jsonl:3: .*{problem}"):
        next(values)


@pytest.mark.parametrize("text", [b"", b'{"a": 1}\r\n', b"\n"])
def test_a_byte_order_mark_is_passed_over(tmp_path, text):
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + text)
    assert list(read_jsonl(tmp_path / "a.jsonl")) == [{"a": 1}] * (b"a" in text)


def _broken(record, path, value):
    """A copy of a record with another value at a path of keys."""
    record = json.loads(json.dumps(record))
    at = record
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return record


def _places(value, path=()):
    """The path of every field of a record, at any depth; what ``extra`` holds is free."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        if key != "extra":
            yield from _places(part, (*path, key))


WRONG = [True, -1, 1.5, {"": 0}, [None], [{"name": True}], "\ud800", "other", [["x"], 0]]
ALLOWED = {"id", "text", "name", "dataset", "split", "structure", "sparql", "thought", "action", "observation"}


@pytest.mark.parametrize("path", list(_places(TRAJECTORY.to_json())), ids=str)
def test_every_field_is_checked_and_named(path):
    record, named = TRAJECTORY.to_json(), [key for key in path if isinstance(key, str)][-1]
    assert Trajectory.from_json(json.loads(json.dumps(record))) == TRAJECTORY
    for wrong in WRONG:
        right = (wrong == "other" and (named in ALLOWED or isinstance(path[-1], int))) or (
            named == "extra" and isinstance(wrong, dict)
        )
        if named == "schema" and wrong is True:  # equal to 1
            continue
        if right:
            continue
        with pytest.raises(UserError, match=named):
            Trajectory.from_json(_broken(record, path, wrong))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("structure", 3, "structure: expected a string, got 3"),
        ("hops", True, "hops: expected a whole number from 0 on, got True"),
        ("topic_entities", [{"name": "a", "id": 5}], "topic_entities: id: expected a string, got 5"),
        ("text", "\ud800", "surrogate"),
        ("id", "q", "question id 'q' occurs twice"),
    ],
)
def test_questions_are_refused_with_file_line_and_field(tmp_path, field, value, message):
    first = QUESTION.to_json()
    lines = [first, {**first, "id": "q2", field: value}]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(FileFormatError, match=f"q.jsonl:2: .*{message}"):
        read_questions(tmp_path / "q.jsonl")


def test_files_of_one_command_are_written_all_or_none(tmp_path):
    paths = [tmp_path / "a", tmp_path / "new" / "b"]
    with atomic_files(*paths) as handles:
        for handle in handles:
            handle.write("1")
    assert [path.read_text() for path in paths] == ["1", "1"]
    with pytest.raises(UserError, match="cannot write .*a, .*b: full"), atomic_files(*paths) as handles:
        handles[0].write("2")
        raise OSError("full")
    paths.append(tmp_path / "folder")
    paths[-1].mkdir()
    with pytest.raises(UserError, match="folder: Is a directory"), atomic_files(*paths) as handles:
        handles[0].write("3")
    assert [path.read_text() for path in paths[:2]] == ["1", "1"]
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "b", "folder", "new"]


def test_file_hash(tmp_path):
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").write_text("y")
    assert file_hash(tmp_path / "a") != file_hash(tmp_path / "b")
    with pytest.raises(UserError, match="c: no such file"):
        file_hash(tmp_path / "c")


def test_a_lock_is_waited_for_and_outlives_its_holder(tmp_path, capfd):
    """A child that inherited the lock goes on holding it when the process that took it is gone."""
    child = f"import time; time.sleep(1); open({str(tmp_path / 'done')!r}, 'w')"
    holder = (
        "import os, subprocess, sys; from graphwalker.files import locked\n"
        f"with locked({str(tmp_path / 'lock')!r}, 'busy') as lock:\n"
        f"    subprocess.Popen([sys.executable, '-c', {child!r}], pass_fds=[lock]); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", holder]).returncode == 9
    with locked(tmp_path / "lock", "busy: waiting"):
        assert (tmp_path / "done").exists()
    assert capfd.readouterr().out == "busy: waiting\n"
