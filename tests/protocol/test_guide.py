"""The expression that guides decoding accepts well-formed turns, and nothing that the parser cannot read."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwalker.protocol.guide import turn_regex
from graphwalker.protocol.parse import Query, parse_answer, parse_query, parse_turn
from graphwalker.protocol.render import format_answer, format_query, render_turn

TURN = re.compile(turn_regex())
HARD = ['"', "'", "\\", ",", ", ", "[", "]", '", "', "<", "</", "<think>", "</think>", "</kg-query>", "</answer>",
        "<kg-query>", "<t", "<|im_end|>", "<answer", "\n", "null", "5", "(", ")", " ", "\t", "\u2028", "東京",
        "\\u0041"]  # fmt: skip
names = st.lists(st.one_of(st.sampled_from(HARD), st.characters(codec="utf-8")), min_size=1, max_size=8).map("".join)


GOOD = [
    "<think></think><answer>[]</answer>",
    '<think>1 < 2, x <3 and <b>so</b></think>\n<answer>["The "Big" One", "X"", ""Y" Z"]</answer>',
    '<think>a</think><kg-query>get_triples("Dwayne "The Rock" Johnson", ["film.actor.film", "it\'s"])</kg-query>',
    '<think>a</think><kg-query>get_relations("AC\\\\DC \\" (1 < 2)")</kg-query>',
]


def _action(text: str):
    """What the parser makes of a turn's action; None where it finds a problem."""
    turn = parse_turn(text)
    if turn.problem or turn.extra_queries:
        return None
    action = parse_query(turn.action) if turn.kind == "query" else parse_answer(turn.action)
    return action if isinstance(action, Query | list) else None


@settings(max_examples=80)
@given(st.data())
def test_the_parser_reads_whatever_is_accepted(data):
    """Turns with hard parts put in anywhere, or with parts left out: those that are still accepted are read."""
    text = data.draw(st.sampled_from(GOOD))
    for _ in range(data.draw(st.integers(1, 4))):
        start, cut = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 3))
        text = text[:start] + data.draw(st.sampled_from(["", *HARD])) + text[start + cut :]
        if TURN.fullmatch(text):
            assert _action(text) is not None
            assert parse_turn(text).thought == text[len("<think>") : text.index("</think>")].strip()


@settings(max_examples=60)
@given(names, names, st.lists(names, min_size=1, max_size=3), st.lists(names, max_size=3))
def test_what_is_rendered_is_accepted(thought, entity, relations, answers):
    assert TURN.fullmatch(render_turn(thought, "query", format_query("get_relations", entity)))
    plain = [name.replace("[", "(") for name in relations if not _bare_quote(name)] or ["r"]
    assert TURN.fullmatch(render_turn(thought, "query", format_query("get_triples", entity, plain)))
    shown = [name for name in answers if not _bare_quote(name)]
    assert TURN.fullmatch(render_turn(thought, "answer", format_answer(shown)))


def _bare_quote(name: str) -> bool:
    """Whether a raw quote stands before a comma or a bracket: the guide wants it escaped."""
    return re.search(r'"[ \t]*[,\]]', name) is not None


@settings(max_examples=40)
@given(
    st.lists(st.one_of(st.sampled_from(HARD), st.sampled_from(['"a"', '"a", "b"', "get_relations(", '["'])), max_size=9)
)
def test_lists_and_calls_made_of_hard_parts(parts):
    """Whatever stands between the tags: accepted only if the parser reads it."""
    body = "".join(parts)
    for text in (
        f"<think>x</think><answer>{body}</answer>",
        f"<think>x</think><answer>[{body}]</answer>",
        f"<think>x</think><kg-query>{body}</kg-query>",
        f'<think>x</think><kg-query>get_triples("{body}"])</kg-query>',
        f'<think>x</think><kg-query>get_triples("E", ["{body}"])</kg-query>',
        f"<think>{body}</think><answer>[]</answer>",
    ):
        assert _action(text) is not None or not TURN.fullmatch(text)


BAD = [
    "",
    "<think>a</think>",
    '<answer>["a"]</answer>',
    '<think>a</think><answer>["a", null, "b"]</answer>',
    '<think>a</think><answer>["a"]</answer> more',
    '<think>a<|im_end|></think><answer>["a"]</answer>',
    '<think>a</think><answer>["a"</answer>',
    '<think>a</think><think>b</think><answer>["a"]</answer>',
    "<think>a</think><kg-query>get_relations()</kg-query>",
    '<think>a</think><kg-query>get_relations("")</kg-query>',
    '<think>a</think><kg-query>get_triples("a", [])</kg-query>',
    '<think>a</think><kg-query>get_triples("a")</kg-query>',
    '<think>a</think><kg-query>get_relations("a")</kg-query><kg-query>get_relations("b")</kg-query>',
]


@pytest.mark.parametrize("text", GOOD)
def test_well_formed(text):
    assert TURN.fullmatch(text) and _action(text) is not None


@pytest.mark.parametrize("text", BAD)
def test_not_well_formed(text):
    assert not TURN.fullmatch(text)
