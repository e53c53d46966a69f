"""A question set cut in two by question."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_pipelines.question_split import cut
from graphwalker.errors import UserError
from graphwalker.types import Question


def make(sizes, repeat=1):
    return [
        Question(f"q{hops}-{i}", f"What is {hops}-{i // repeat}?", hops=hops)
        for hops, size in sizes.items()
        for i in range(size)
    ]


def by_hops(questions):
    return Counter(question.hops for question in questions)


def test_each_length_is_cut_in_the_share_asked_for():
    train, test = cut(make({1: 100, 2: 50, None: 20}), share=0.1)
    assert by_hops(test) == {1: 10, 2: 5, None: 2} and by_hops(train) == {1: 90, 2: 45, None: 18}


def test_as_many_of_each_length_and_in_mixed_order():
    train, test = cut(make({1: 100, 2: 50, 3: 30}), per_hop=20)
    assert by_hops(test) == {1: 20, 2: 20, 3: 20} and len(train) == 120
    assert by_hops(test[:15]) == {1: 5, 2: 5, 3: 5} and by_hops(train[:15]) == {1: 5, 2: 5, 3: 5}


@given(st.integers(1, 4), st.integers(8, 30), st.integers(0, 5), st.randoms())
def test_no_question_is_lost_and_no_text_is_on_both_sides(repeat, size, seed, random):
    questions = make({1: size, 2: 2 * size}, repeat)
    train, test = cut(questions, share=0.5, seed=seed)
    assert sorted([*train, *test], key=lambda q: q.id) == sorted(questions, key=lambda q: q.id)
    assert {q.text for q in train}.isdisjoint(q.text for q in test)
    random.shuffle(questions)
    assert cut(questions, share=0.5, seed=seed) == (train, test)


def test_texts_that_differ_in_case_and_spaces_are_one():
    questions = [Question(f"q{i}", text, hops=1) for i, text in enumerate(["Who is it?", "who  is IT?", "Where?"])]
    train, test = cut(questions, share=0.4)
    assert {len(train), len(test)} == {1, 2}


def test_another_seed_cuts_otherwise():
    questions = make({1: 100})
    assert cut(questions, seed=1)[1] != cut(questions, seed=2)[1]


def test_too_few_questions_are_an_error():
    with pytest.raises(UserError, match="there are 5 questions of 2 hops: cannot put 5 aside"):
        cut(make({1: 50, 2: 5}), per_hop=5)
    with pytest.raises(UserError, match="1 questions: too few to cut in two"):
        cut(make({1: 1}))
    with pytest.raises(UserError, match="0 questions"):
        cut([])
