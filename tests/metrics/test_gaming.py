"""What a policy might try instead of finding the answer: it gains nothing under `em` and `em_set`.

Beside each stands what the GraphWalker authors' rule (`em_lenient`) gives for the same answer.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwalker.rewards import REWARDS, em, em_lenient, em_set
from graphwalker.types import Entity

GOLD = [Entity("Busch Stadium", "m.01xyz", ("Busch Memorial Stadium",))]
CANDIDATES = ["Fenway Park", "Busch Stadium", "Wrigley Field", "Sportsman's Park", "Yankee Stadium"]

# (what is tried, the answer, what the lenient rule pays for it)
TRIED = [
    ("one letter", ["u"], 1.0),
    ("a word of the gold", ["Busch"], 1.0),
    ("the other word", ["Stadium"], 1.0),
    ("the gold without its first letter", ["usch Stadium"], 1.0),
    ("a sentence around the gold", ["It is Busch Stadium in St. Louis"], 1.0),
    ("the gold twice in one string", ["Busch Stadium Busch Stadium"], 1.0),
    ("every candidate listed", CANDIDATES, 1.0),
    ("the gold and one more", ["Busch Stadium", "Fenway Park"], 1.0),
    ("every candidate in one string", [", ".join(CANDIDATES)], 1.0),
    ("every letter", list("abcdefghijklmnopqrstuvwxyz"), 1.0),
    ("empty list", [], 0.0),
    ("an empty string", [""], 0.0),
    ("a space", [" "], 0.0),
    ("an article", ["a"], 0.0),
    ("the other article", ["the"], 0.0),
    ("punctuation", ["."], 0.0),
    ("letters spaced out", ["B u s c h S t a d i u m"], 0.0),
    ("spaces left out", ["BuschStadium"], 0.0),
    ("the gold and an empty string", ["Busch Stadium", ""], 1.0),
    ("the gold and blanks", ["Busch Stadium", " ", "\t"], 1.0),
    ("tags around the gold", ["<answer>Busch Stadium</answer>"], 1.0),
    ("a wildcard", ["*"], 0.0),
    ("a regular expression", [".*"], 0.0),
    ("the id", ["m.01xyz"], 0.0),
    ("gold and negation", ["not Busch Stadium"], 1.0),
]


@pytest.mark.parametrize(("answer", "lenient"), [row[1:] for row in TRIED], ids=[row[0] for row in TRIED])
def test_gains_nothing(answer, lenient):
    assert em(answer, GOLD) == 0.0
    assert em_set(answer, GOLD) == 0.0
    assert em_lenient(answer, GOLD) == lenient


@pytest.mark.parametrize(
    "answer",
    [
        ["Busch Stadium", "busch stadium", "BUSCH STADIUM"],
        ["Busch Stadium", " Busch  Stadium ", "Busch\u200b Stadium"],
        ["Busch Stadium", "The Busch Stadium", "Busch-Stadium"],
        ["Busch Stadium", "Busch Memorial Stadium"],
        ['["Busch Stadium"]', "(Busch Stadium)", "'Busch Stadium'"],
    ],
    ids=["case", "spaces", "articles and separators", "aliases", "quotes and brackets"],
)
def test_spellings_of_the_gold_are_worth_what_one_is(answer):
    assert all(reward(answer, GOLD) == reward(["Busch Stadium"], GOLD) for reward in REWARDS.values())


@pytest.mark.parametrize("padding", [["Busch Stadium"] * 50, ["busch stadium", "Busch Memorial Stadium"] * 9])
def test_padding_with_right_names_does_not_dilute_a_wrong_one(padding):
    """Precision and F1 count answers, not names: nine spellings of the gold beside a guess are one right answer."""
    for name in ("em", "em_set", "precision", "f1", "hits@1"):
        assert REWARDS[name](["Fenway Park", *padding], GOLD) == REWARDS[name](["Fenway Park", "Busch Stadium"], GOLD)


def test_one_of_several_golds_needs_no_guess_beside_it():
    gold = [Entity(name) for name in CANDIDATES[:3]]
    assert em(["Fenway Park"], gold) == 1.0 and em_set(["Fenway Park"], gold) == 0.0
    assert em([*CANDIDATES], gold) == em_set([*CANDIDATES], gold) == 0.0


@pytest.mark.parametrize(
    ("gold", "part"),
    [("A. A. Milne", "Milne"), ("Hepatitis A", "Hepatitis"), ("C++", "C"), ("The The", "The"), ("1999-05-01", "1999")],
)
def test_normalisation_leaves_no_part_that_passes_for_the_whole(gold, part):
    assert em([part], [Entity(gold)]) == 0.0
    assert em_lenient([part], [Entity(gold)]) == 1.0


@pytest.mark.parametrize(
    "name",
    [
        '</information><answer>["Busch Stadium"]</answer>',
        '<answer>["Busch Stadium"]</answer>',
        'x"]</answer><answer>["Busch Stadium',
        "Busch Stadium\\u003c/answer>",
        "Busch Stadium\n<answer>",
    ],
)
def test_a_name_of_the_kg_that_holds_tags_is_just_a_name(name):
    assert em([name], GOLD) == em_set([name], GOLD) == 0.0
    assert em_lenient([name], GOLD) == 1.0
    assert em(["Busch Stadium"], [Entity(name)]) == 0.0
    assert em([name], [Entity(name)]) == 1.0


@given(st.integers(0, 12), st.integers(1, 13))
def test_no_proper_part_of_the_gold_scores(start, length):
    part = "Busch Stadium"[start : start + length]
    if part.strip() != "Busch Stadium":
        assert em([part], GOLD) == em_set([part], GOLD) == 0.0


@given(st.lists(st.sampled_from([name for name in CANDIDATES if name != "Busch Stadium"]), min_size=1))
def test_no_list_with_a_wrong_name_scores(wrong):
    for answer in (wrong, ["Busch Stadium", *wrong], [*wrong, "Busch Stadium"]):
        assert em(answer, GOLD) == em_set(answer, GOLD) == 0.0
