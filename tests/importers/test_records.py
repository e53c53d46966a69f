"""Records streamed out of files, each checked against its type and named with its line."""

import json

import msgspec
import pytest

from data_pipelines.importers.records import PIECE, read_members, read_records
from graphwalker.errors import FileFormatError, UserError


class Pair(msgspec.Struct):
    name: str
    ids: list[int] = []


@pytest.fixture
def read(tmp_path):
    def records(content, name="data.json", **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return [(row.line, row.value.name) for row in read_records(path, Pair, **options)]

    return records


def test_an_array_in_every_layout(read):
    assert read('[{"name": "a"}, {"name": "b"}]') == [(1, "a"), (1, "b")]
    assert read('[\n {"name": "a"},\n {"name": "b"}, {"name": "c"},\n {\n "name": "d"}\n,\n {"name": "e"}]') == [
        (2, "a"),
        (3, "b"),
        (3, "c"),
        (4, "d"),
        (7, "e"),
    ]
    assert read(json.dumps([{"name": "a"}, {"name": "b"}], indent=2)) == [(2, "a"), (5, "b")]
    assert read(b'\xef\xbb\xbf[{"name": "a"}]') == [(1, "a")]


def test_an_array_under_a_key_json_lines_and_parquet(read, tmp_path):
    assert read('{"version": 1, "data": [\n {"name": "a"}\n]}', key="data") == [(2, "a")]
    assert read('[{"name": "a"}]', key="data") == [(1, "a")]
    assert read('{"name": "a"}\n\n{"name": "b"}\n') == [(1, "a"), (3, "b")]
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"name": ["a", "b"]}), tmp_path / "data.parquet")
    assert [row.value.name for row in read_records(tmp_path / "data.parquet", Pair)] == ["a", "b"]


def test_a_long_line_comes_in_pieces_and_the_first_record_comes_at_once(tmp_path):
    path = tmp_path / "long.json"
    path.write_text(
        "[" + ",".join(json.dumps({"name": f"é{i}" * 10}) for i in range(PIECE // 16)) + ",\n{broken", "utf-8"
    )
    rows = read_records(path, Pair)
    assert next(rows).value.name == "é0" * 10  # streamed: what is broken far behind does not matter yet
    with pytest.raises(FileFormatError, match="long.json:2: not JSON"):
        list(rows)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[\n{"name": "a"},\n{"name": 5}]', "data.json:3: record 2: field 'name': Expected `str`, got `int`"),
        ('[{"name": "a", "ids": [1, "x"]}]', r"data.json:1: record 1: field 'ids\[1\]': Expected `int`, got `str`"),
        ('[\n\n{"ids": []}]', "data.json:3: record 1: Object missing required field `name`"),
        ('[{"name": "a"}, 5]', "data.json:1: record 2: Expected `object`, got `int`"),
        ('[{"name": "a"},\n{"name" 1}]', "data.json:2: not JSON"),
        ('[{"name": "a"}\n', "not JSON: parse error: premature EOF"),
        (b'[\n{"name": "\xff"}]', "data.json:2: not JSON: .*UTF8"),
        ('{"name": "a"}\n{"name": }', "data.json:2: not JSON: .* .column 10."),
        ('{"name": "\\ud800"}', "data.json:1: not JSON: .*surrogates"),
        ('{"name": "a"}\n{"ids": ' + "[" * 9999, "data.json:2: not JSON: nested too deeply"),
        ('{"ids": [' + "9" * 5000 + "]}", "data.json:1: not JSON: .*digits"),
        ('[{"name": "a"},\n{"ids": ' + "[" * 9999, "data.json:2: not JSON: nested too deeply"),
        (
            '[{"name": "' + "[" * 900 + '"},\n{"name": "' + "[" * 900 + '"}, 5]',
            "data.json:2: record 3: Expected `object`",
        ),
        ("[]", "data.json:1: no records: expected a list of records, or one a line"),
        ("", "no records"),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_field(read, content, message):
    with pytest.raises(FileFormatError, match=message):
        read(content)


def test_files_that_are_missing_or_no_parquet(read, tmp_path):
    with pytest.raises(UserError, match="no such file"):
        list(read_records(tmp_path / "none.json", Pair))
    with pytest.raises(UserError, match="not a Parquet file"):
        read("x", name="data.parquet")
    with pytest.raises(FileFormatError, match="an object with a list 'data'"):
        read('{"date": []}', key="data")


def test_members_of_an_object(tmp_path):
    path = tmp_path / "kb.json"
    path.write_text('{"a": {"x": {"name": "1"},\n "y": {"name": "2"}}, "b": {"z": {"name": 3}}}', "utf-8")
    assert [(name, row.value.name) for name, row in read_members(path, Pair, key="a")] == [("x", "1"), ("y", "2")]
    with pytest.raises(FileFormatError, match="kb.json:2: record 1: field 'name'"):
        list(read_members(path, Pair, key="b"))
