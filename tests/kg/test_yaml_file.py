"""Settings in YAML: what is wrong with a file is one line with the file and, where it can be told, the line."""

import pytest

from graphwalker.errors import UserError
from graphwalker.yaml_file import read_yaml


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a: 1\nb: \xff\n", "s.yaml: not UTF-8"),
        (b"a: 1\nb: \x01\n", "s.yaml:2: not YAML: character U+0001"),
        (b"a: 1\nb: 2024-13-45\n", "s.yaml:2: not YAML: '2024-13-45' is no timestamp"),
        (b"a: !!int x\n", "s.yaml:1: not YAML: 'x' is no int"),
        (b"a: !!bool maybe\n", "s.yaml:1: not YAML: 'maybe' is no bool"),
        (b"a: !!timestamp x\n", "s.yaml:1: not YAML"),
        (b"a: !!python/object:os.system x\n", "s.yaml:1: not YAML"),
        (b"? [a]\n: b\n", "s.yaml:1: not YAML"),
        (b'a: 1\nb: "\\UFFFFFFFF"\n', "s.yaml: not YAML"),
        (b"a: 1\nb: 2\n'a': 3\n", "s.yaml:3: not YAML: the key 'a' stands here a second time (first in line 1)"),
        (b"a: {b: 1, b: 1}\n", "s.yaml:1: not YAML: the key 'b' stands here a second time (first in line 1)"),
        (b"a:\n- b: 1\n  c: 2\n  b: 3\n", "s.yaml:4: not YAML: the key 'b' stands here a second time"),
        (b"a: [x\nb: ]]\n", "s.yaml:2: not YAML"),
        (b"a: 1\n---\nb: 2\n", "s.yaml:2: not YAML"),
        (b"a: " + b"[" * 5000, "s.yaml: nested too deep"),
        (b"", "s.yaml: expected a mapping"),
        (b"- a\n", "s.yaml: expected a mapping (`key: value`), got ['a']"),
        (None, "s.yaml: no such file"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_broken_file_is_named(tmp_path, content, said):
    path = tmp_path / "s.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_yaml(path)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_merge_may_be_overridden(tmp_path):
    (tmp_path / "s.yaml").write_text("a: &x {k: 1, m: 1}\nb: {<<: *x, k: 2}\nc: {1: a, '1': b}\n")
    read = read_yaml(tmp_path / "s.yaml")
    assert read["b"] == {"k": 2, "m": 1} and read["c"] == {1: "a", "1": "b"}
