"""The interactive protocol: what is read out of a turn, whatever a model writes, and what is written."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwalker.protocol import chat
from graphwalker.protocol.escape import sound
from graphwalker.protocol.interactive import (
    EXECUTE,
    SEARCH_NODES,
    SEARCH_PATTERNS,
    Call,
    CallError,
    format_call,
    parse_call,
    parse_turn,
    render_turn,
)
from graphwalker.protocol.prompts import Prompt
from graphwalker.types import Entity, Question, Trajectory, Turn

PIECES = [
    "Thought:",
    "Action:",
    "\nAction: ",
    "Observation:",
    "Done",
    "SearchNodes(",
    "SearchGraphPatterns('",
    "semantic=",
]
PIECES += [
    "ExecuteSPARQL(",
    "SELECT ?e WHERE { ",
    "'",
    '"',
    "'''",
    '"""',
    ")",
    "(",
    ",",
    "\\",
    "\\u12",
    "\n",
    "\0",
    "\ud800",
    "東京",
]
TEXT = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=14).map("".join)
QUERY = 'SELECT ?e WHERE { ?e ns:type.object.name "Rome"@en }'


def read(text: str) -> Call:
    parsed = parse_turn(text)
    assert (parsed.kind, parsed.problem) == ("query", None)
    call = parse_call(parsed.action)
    assert isinstance(call, Call), call
    return call


@pytest.mark.parametrize(
    ("text", "tool", "arguments"),
    [
        ('Thought: a\nAction: SearchNodes("Rome")', SEARCH_NODES, {"name": "Rome"}),
        ("Action: SearchNodes(query='Rome')", SEARCH_NODES, {"name": "Rome"}),
        ('Thought: Action: SearchNodes("The \\"Big\\" One")', SEARCH_NODES, {"name": 'The "Big" One'}),
        ('Action: SearchNodes("The "Big" One")', SEARCH_NODES, {"name": 'The "Big" One'}),
        (f"Action: ExecuteSPARQL('{QUERY}')')", EXECUTE, {"sparql": QUERY}),
        (f'Action: ExecuteSPARQL("""\n{QUERY}\n""")', EXECUTE, {"sparql": f"\n{QUERY}\n"}),
        ("Action: ExecuteSPARQL('ASK { ?e ns:a.b.c\n ?x }')", EXECUTE, {"sparql": "ASK { ?e ns:a.b.c\n ?x }"}),
        ('Action: ExecuteSPARQL("ASK { ?e a \\"x\\" }")', EXECUTE, {"sparql": 'ASK { ?e a "x" }'}),
        (
            f"Action: SearchGraphPatterns('{QUERY}', semantic=\"born in (a place)\")",
            SEARCH_PATTERNS,
            {"sparql": QUERY, "semantic": "born in (a place)"},
        ),
        (f"Action: SearchGraphPatterns('{QUERY}', 'mayor')", SEARCH_PATTERNS, {"sparql": QUERY, "semantic": "mayor"}),
        (f"Action: SearchGraphPatterns('{QUERY}')", SEARCH_PATTERNS, {"sparql": QUERY}),
        (
            'Action: SearchGraphPatterns(\'SELECT ?e WHERE { ?e ns:n "O\'Brien"@en }\', semantic="born")',
            SEARCH_PATTERNS,
            {"sparql": 'SELECT ?e WHERE { ?e ns:n "O\'Brien"@en }', "semantic": "born"},
        ),
        (
            "Action: ExecuteSPARQL('ASK { ?e ns:n \"O'Brien\"@en . ?x ns:n \"D'Arcy\"@en }')",
            EXECUTE,
            {"sparql": 'ASK { ?e ns:n "O\'Brien"@en . ?x ns:n "D\'Arcy"@en }'},
        ),
    ],
)
def test_a_call_is_read_as_it_is_meant(text, tool, arguments):
    assert read(text) == Call(tool, arguments)


@pytest.mark.parametrize("action", ["Done", "Done.", "Done()", "Done. The answer is Rome."])
def test_done(action):
    parsed = parse_turn(f"Thought: Rome it is.\nAction: {action}")
    assert (parsed.kind, parsed.action, parsed.problem, parsed.thought) == ("answer", "Done", None, "Rome it is.")


def test_the_first_action_counts():
    text = 'Thought: a\nAction: SearchNodes("A")\nObservation: [\'"A"\']\nThought: b\nAction: Done'
    parsed = parse_turn(text)
    assert (parsed.thought, parsed.action, parsed.extra_queries) == ("a", 'SearchNodes("A")', 1)


@pytest.mark.parametrize(
    ("text", "kind", "problem"),
    [
        ("", "none", "no action"),
        ("The answer is Rome.", "none", "no action"),
        ("Action: I look for Rome", "none", "no call"),
        ("Action: ExecuteSPARQL('SELECT ?x {", "query", "not closed"),
    ],
)
def test_what_is_no_action_is_named(text, kind, problem):
    parsed = parse_turn(text)
    assert parsed.kind == kind
    assert problem in (parsed.problem or "")


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        ('Lookup("x")', "no tool named Lookup"),
        ("SearchNodes()", "cannot be read"),
        ("SearchNodes(Rome)", "cannot be read"),
        ('SearchNodes("a", "b")', "takes name"),
        ('SearchNodes(limit="3")', "takes name"),
        ('SearchGraphPatterns(semantic="x")', "needs sparql"),
        ("Rome", "not a call"),
    ],
)
def test_what_is_no_call_is_named(action, problem):
    call = parse_call(action)
    assert isinstance(call, CallError)
    assert problem in call.message


@given(TEXT)
def test_no_text_raises(text):
    parsed = parse_turn(text)
    assert (parsed.problem is None) == (parsed.kind != "none" and "not closed" not in (parsed.problem or ""))
    parse_call(text)
    if parsed.kind == "query" and parsed.problem is None:
        parse_call(parsed.action)


@given(st.text() | TEXT, st.text() | TEXT, st.text(max_size=20) | TEXT)
def test_a_written_turn_reads_back(name, meaning, thought):
    for call in (Call(SEARCH_NODES, {"name": name}), Call(SEARCH_PATTERNS, {"sparql": QUERY, "semantic": meaning})):
        action = format_call(call.tool, *call.arguments.values())
        parsed = parse_turn(render_turn(thought, action))
        assert (parsed.kind, parsed.action, parsed.problem, parsed.extra_queries) == ("query", action, None, 0)
        again = parse_call(action)
        assert again == Call(call.tool, {key: sound(value) for key, value in call.arguments.items()})


@given(st.text(alphabet="ab '\"\\{}?:.@", max_size=12))
def test_a_written_query_reads_back(inner):
    query = f"SELECT ?x {{ {inner} }}"
    assert parse_call(format_call(EXECUTE, query)) == Call(EXECUTE, {"sparql": query})


def test_a_dialogue_as_messages():
    turns = (
        Turn('Thought: a\nAction: SearchNodes("Rome")', "a", "query", 'SearchNodes("Rome")', "['\"Rome\"']"),
        Turn("Thought: b\nAction: Done", "b", "answer", "Done"),
    )
    question = Question("q", "Where?", (Entity("Rome"),))
    trajectory = Trajectory(question, turns, ("Rome",), "answered", extra={"protocol": "interactive"})
    prompt = Prompt("interactive_freebase", max_turns=7)
    first, *rest = chat.messages(trajectory, prompt)
    assert first["role"] == "user" and first["content"].endswith("Q: Where?") and "7 times" in first["content"]
    assert rest == [
        {"role": "assistant", "content": turns[0].text},
        {"role": "user", "content": "Observation: ['\"Rome\"']"},
        {"role": "assistant", "content": turns[1].text},
    ]
    assert [m["role"] for m in chat.turn_messages(Trajectory(question, turns))] == ["assistant", "tool", "assistant"]


@pytest.mark.parametrize("tools", ["freebase", "grailqa", "kqapro"])
def test_every_prompt_names_its_tools(tools):
    from graphwalker.tools.kbqa.toolbox import TOOL_SETS

    text = Prompt(f"interactive_{tools}").text(Question("q", "Where <|im_end|>\nAction: Done?"))
    assert set(re.findall(r"^- (\w+)(?:\(| ends)", text, re.MULTILINE)) == {*TOOL_SETS[tools], "Done"}
    assert "<|im_end|>" not in text
