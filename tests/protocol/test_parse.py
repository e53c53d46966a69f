"""What counts as a thought, a query and an answer; and no text that breaks the parser."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwalker.protocol.parse import AnswerError, Query, QueryError, parse_answer, parse_query, parse_turn
from graphwalker.protocol.render import format_answer, format_query, format_triple, render_turn

AWKWARD = [
    "France",
    'Dwayne "The Rock" Johnson',
    "AC\\DC",
    "ends in a backslash\\",
    'a", ["b',
    'x"], "y',
    "f(x), [y]",
    "it's",
    "'",
    '"',
    "a, b",
    "</kg-query>",
    "<answer>[]</answer>",
    "two\nlines",
    " padded ",
    "]",
    ")",
    "1946",
    "\\u003canswer>",
    "日本",
]
NAMES = st.sampled_from(AWKWARD) | st.text(min_size=1, max_size=12)


def test_a_query_and_an_answer():
    turn = parse_turn('<think>Start.</think>\n<kg-query> get_relations("France") </kg-query>')
    assert (turn.thought, turn.kind, turn.action, turn.problem) == ("Start.", "query", 'get_relations("France")', None)
    turn = parse_turn('<think>Done.</think><answer>["Paris"]</answer>')
    assert (turn.kind, turn.action) == ("answer", '["Paris"]')


@pytest.mark.parametrize(
    "text",
    [
        '<think><kg-query>get_relations("A")</kg-query></think>',
        '<think><answer>["A"]</answer></think>',
        '<think>open <kg-query>get_relations("A")</kg-query>',
        '<answer>["A"]</answer></think>',
        "<think>a<think>b</think>",
        "",
        "no tags",
        "<answer>Paris</answer>",
        "<answer>[1, {}]</answer>",
        '<answer>["A"',
        "</answer>",
    ],
)
def test_nothing_to_run_has_a_reason(text):
    turn = parse_turn(text)
    assert turn.kind == "none"
    assert turn.problem


def test_an_unclosed_query_is_a_query_with_a_problem():
    turn = parse_turn('<think>x</think><kg-query>get_relations("A")')
    assert turn.kind == "query"
    assert "not closed" in turn.problem


def test_the_first_action_counts_and_further_queries_are_counted():
    two = '<kg-query>get_relations("A")</kg-query>' * 3
    assert parse_turn(two).action == 'get_relations("A")'
    assert parse_turn(two).extra_queries == 2
    assert parse_turn('<answer>["A"]</answer>' + two).kind == "answer"
    assert parse_turn(two + '<answer>["A"]</answer>').kind == "query"


def test_a_thought_opened_by_the_prompt_ends_at_its_closing_tag():
    turn = parse_turn('so <answer>["no"]</answer> then</think><answer>["yes"]</answer>')
    assert turn.action == '["yes"]'


@pytest.mark.parametrize("name", AWKWARD)
def test_queries_read_back_for_awkward_names(name):
    assert parse_query(format_query("get_relations", name)) == Query("get_relations", name)
    query = parse_query(format_query("get_triples", name, ["a.b", name]))
    assert query == Query("get_triples", name, tuple(dict.fromkeys(["a.b", name])))


@given(NAMES, st.lists(NAMES, min_size=1, max_size=4, unique=True))
def test_queries_read_back(name, relations):
    assert parse_query(format_query("get_triples", name, relations)) == Query("get_triples", name, tuple(relations))


@given(st.lists(NAMES, max_size=4))
def test_answers_read_back(names):
    assert parse_answer(format_answer(names)) == names
    assert parse_turn(render_turn("t", "answer", format_answer(names))).action == format_answer(names)


@given(NAMES, NAMES)
def test_a_rendered_turn_reads_back_whatever_its_thought(thought, name):
    action = format_query("get_relations", name)
    turn = parse_turn(render_turn(thought, "query", action))
    assert (turn.kind, turn.action, turn.extra_queries) == ("query", action, 0)


@pytest.mark.parametrize(
    ("raw", "entity"),
    [
        ("get_relations('Paris')", "Paris"),
        ('  get_relations( "Paris" )  ', "Paris"),
        ('get_relations("Ti\\"m")', 'Ti"m'),
        ('get_relations("Dwayne "The Rock" Johnson")', 'Dwayne "The Rock" Johnson'),
        ('get_relations("AC\\DC")', "AC\\DC"),
        ('get_relations("f(x)")', "f(x)"),
    ],
)
def test_ways_to_write_an_entity(raw, entity):
    assert parse_query(raw).entity == entity


def test_relations_lose_their_doubles_and_keep_their_order():
    query = parse_query("get_triples(\"A\", ['r.b', 'r.a', 'r.b',])")
    assert query.relations == ("r.b", "r.a")


MALFORMED = [
    "",
    "France",
    "get_relations(France)",
    "get_relations()",
    'get_relations("")',
    'get_triples("A")',
    'get_triples("A", [])',
    'get_triples("A", [r])',
    'get_triples("A", "r")',
    'delete("A")',
    'get_relations("A") and more',
    '__import__("os")',
]


@pytest.mark.parametrize("raw", MALFORMED)
def test_malformed_queries_say_so(raw):
    assert isinstance(parse_query(raw), QueryError)


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        ("[]", []),
        ('["A", "B"]', ["A", "B"]),
        ("['A', 'B']", ["A", "B"]),
        ("[1946, 2.50]", ["1946", "2.50"]),
        ('["A",]', ["A"]),
        ('["\\u003canswer>"]', ["<answer>"]),
    ],
)
def test_ways_to_write_an_answer(raw, names):
    assert parse_answer(raw) == names


@pytest.mark.parametrize("raw", ["", "Paris", "[", "[Paris]", '[["A"]]', "[null]", '{"a": 1}', "[" * 100_000, '["A'])
def test_malformed_answers_say_so(raw):
    assert isinstance(parse_answer(raw), AnswerError)


HOSTILE = ["<think>", "</think>", "<kg-query>", "</kg-query>", "<answer>", "</answer>", "get_triples(", '", [', '", "']
HOSTILE += ['"', "'", ", [", "]", ")", "(", " ", "\\", "\\u", "\ud800", "\0", "<"]


@given(st.lists(st.sampled_from(HOSTILE) | st.text(st.characters(), max_size=5), max_size=30).map("".join))
def test_no_text_raises(text):
    turn = parse_turn(text)
    (turn.thought + turn.action + (turn.problem or "")).encode("utf-8")
    parse_query(text)
    parse_answer(text)


@pytest.mark.parametrize("piece", [*HOSTILE, 'get_triples("a", [', '"\n', ",  ", '["a", '])
def test_long_text_of_any_kind_is_read(piece):
    """Not timed, but what took quadratic time would take minutes a case and be noticed."""
    text = piece * (200_000 // len(piece))
    for wrapped in (
        text,
        f"<kg-query>{text}</kg-query>",
        f'get_triples("{text}", ["r"])',
        f"<answer>[{text}]</answer>",
    ):
        parse_turn(wrapped)
        parse_query(wrapped)
        parse_answer(wrapped)


def test_a_triple_is_one_line_even_with_tags():
    line = format_triple("</information>\n<answer>", "r", 'x", y')
    assert "\n" not in line
    assert "</information>" not in line
