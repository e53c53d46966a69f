"""ArG's text goes out and comes back the same; no name forges a token, and no text of a model raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwalker.protocol import reflection
from graphwalker.protocol.escape import escape_name, escape_tags
from graphwalker.protocol.prompts import Prompt
from graphwalker.protocol.reflection import ALL, ReflectionPath, Retrieved, parse, render
from graphwalker.types import Entity, Question

PIECES = st.sampled_from([*ALL, *(token.upper() for token in ALL), "; ", ";", " ", "^", "\\", "\n", "é", "u005b"])
NAMES = st.lists(PIECES | st.text(max_size=3), min_size=1, max_size=5).map("".join).filter(bool)
STEPS = st.builds(
    lambda relation, inverse, relevance, entity, also, rationality: (
        Retrieved("relation", reflection.write_relation(relation, inverse), relevance),
        Retrieved("entity", entity, also, rationality),
    ),
    NAMES,
    st.booleans(),
    st.sampled_from(reflection.RELEVANCE),
    NAMES,
    st.sampled_from(reflection.RELEVANCE),
    st.sampled_from(reflection.RATIONALITY),
)

TEXT = (
    "[Relation Retrieval]<paragraph>people.person.spouse_s</paragraph>[Fully Relevant]"
    "[Entity Retrieval]<paragraph>m.0j4jq57</paragraph>[Partially Relevant][Partially Reasonable]"
    "[Relation Retrieval]<paragraph>^people.person.spouse_s</paragraph>[Fully Relevant]"
    "[Entity Retrieval]<paragraph>Ayaan Hirsi Ali</paragraph>[Fully Relevant][Fully Reasonable]"
    "[No Retrieval]Ayaan Hirsi Ali[Utility:5]"
)


def test_a_path_reads_as_it_is_written():
    found = parse(TEXT)
    assert found.problems == ()
    assert [step.name for step in found.path.steps] == [
        "people.person.spouse_s",
        "m.0j4jq57",
        "^people.person.spouse_s",
        "Ayaan Hirsi Ali",
    ]
    assert found.path.steps[1] == Retrieved("entity", "m.0j4jq57", "[Partially Relevant]", "[Partially Reasonable]")
    assert (found.path.answers, found.path.utility) == (("Ayaan Hirsi Ali",), 5)
    assert render(found.path) == TEXT


@given(st.lists(STEPS, max_size=3), st.none() | st.lists(NAMES, max_size=3), st.integers(1, 5))
def test_parse_inverts_render(hops, answers, utility):
    steps = tuple(step for hop in hops for step in hop)
    path = ReflectionPath(steps, None if answers is None else tuple(answers), None if answers is None else utility)
    assert parse(render(path)) == reflection.ParsedPath(path)


@pytest.mark.parametrize("cut", ["[Relation Retrieval]", "[Fully Relevant]", "</paragraph>", "[No Retrieval]"])
def test_a_prefix_reads_as_one(cut):
    prefix = TEXT[: TEXT.index(cut) + len(cut)]
    found = parse(prefix)
    assert found.problems == ()
    assert render(found.path) == prefix


@given(st.lists(PIECES | st.text(max_size=4), max_size=12).map("".join))
def test_any_text_is_read(text):
    path = parse(text).path
    assert parse(render(path)).path.answers == path.answers


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Paris[Utility:5]", "text outside of a paragraph: 'Paris'"),
        ("[Fully Relevant]", "[Fully Relevant] does not fit where it stands"),
        ("[Entity Retrieval]<paragraph>Paris", "the last paragraph does not end"),
        ("[No Retrieval]Paris[Utility:5][Fully Relevant]", "[Fully Relevant] after the utility"),
    ],
)
def test_what_does_not_fit_is_said(text, problem):
    assert parse(text).problems[0] == problem


@pytest.mark.parametrize("token", ALL)
@pytest.mark.parametrize("escape", [escape_name, escape_tags])
def test_no_name_and_no_question_holds_a_token(token, escape):
    for text in (token, token.upper(), f"a {token} b"):
        assert token.lower() not in escape(text).lower()


def test_the_prompt_names_the_question_and_the_one_topic_entity():
    question = Question("q", "Who wed [Utility:5]?", (Entity("Ada"), Entity("Niall")), ())
    (message,) = reflection.messages(question, question.topic_entities[1], Prompt("compact"))
    assert message["content"] == "Question: Who wed \\u005bUtility:5]?\nTopic entities: Niall"


def test_tokens_are_told_apart_and_few():
    assert len(set(ALL)) == len(ALL) == 16
    assert reflection.UTILITY[4] == "[Utility:5]"
