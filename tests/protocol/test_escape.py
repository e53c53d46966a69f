"""Names go out and come back the same, and none of them can hold a tag or a line break on the way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwalker.protocol.escape import escape_name, escape_tags, sound, unescape_name

TAGS = ["<think>", "</think>", "<kg-query>", "</kg-query>", "<information>", "</information>", "<answer>", "</answer>"]
CONTROL = ["<|im_start|>", "<|im_end|>", "<|eot_id|>", "<s>", "</s>", "<tool_call>"]
PIECES = st.sampled_from(
    [*TAGS, *CONTROL, "\\", "\n", "\r", "\u2028", '"', "'", ", ", "[", "]", "(", ")", "u003c", "é"]
)
NAMES = st.lists(PIECES | st.text(max_size=4), max_size=8).map("".join)


@given(NAMES)
def test_escape_is_inverted(name):
    assert unescape_name(escape_name(name)) == name


@given(NAMES)
def test_escaped_name_is_one_line_without_tags(name):
    text = escape_name(name)
    assert len(text.splitlines()) <= 1
    assert not any(tag in text for tag in [*TAGS, *CONTROL])


@pytest.mark.parametrize(
    "name", ["Busch Stadium", 'Dwayne "The Rock" Johnson', "a < b", "<b>bold</b>", "O'Hara, [x]", "東京"]
)
def test_other_names_print_raw(name):
    assert escape_name(name) == name


@pytest.mark.parametrize("tag", [*TAGS, *CONTROL])
def test_tags_do_not_survive_in_any_case(tag):
    assert tag not in escape_name(tag)
    assert tag.upper() not in escape_tags(tag.upper())


def test_text_of_several_lines_keeps_its_lines_and_backslashes():
    assert escape_tags("a\\b\n<answer>") == "a\\b\n\\u003canswer>"


def test_surrogates_are_made_writable():
    assert sound("\ud83d\ude00") == "😀"
    assert unescape_name("\\ud83d\\ude00") == "😀"
    for text in ("\ud83d", "x\udc00y", "\\ud83d"):
        unescape_name(text).encode("utf-8")
        escape_name(text).encode("utf-8")
