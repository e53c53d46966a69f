"""Spellings of one thing meet in one form; different things, and parts of a thing, never do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwalker.metrics.normalise import forms, normalise
from graphwalker.protocol.escape import escape_name

SAME = [
    ("Busch Stadium", "  busch\u00a0 STADIUM "),
    ("Straße", "STRASSE"),
    ("Pokémon", "Poke\u0301mon"),
    ("ﬁn de siècle", "Fin de siècle"),
    ("The Beatles", "beatles"),
    ("An Hour", "hour"),
    ("A Few Good Men", "few good men"),
    ("Jean-Luc Godard", "Jean Luc Godard"),
    ("Guinea–Bissau", "Guinea-Bissau"),
    ("St. Louis", "St Louis"),
    ("U.S.", "US"),
    ("Sportsman's Park", "Sportsman’s Park"),
    ("Yahoo!", "yahoo"),
    ("Busch\u200b Stadium", "Busch Stadium"),
    ("1,000", "1000"),
    ("H₂O", "H2O"),
    ("x²", "x2"),
    ("１２", "12"),
    ("1000.0", "1e3"),
    ("-5", "\u22125"),
    ("0.10", "0.1"),
    ("1999-05-01", "May 1, 1999"),
    ("1999-05-01", "1st of May 1999"),
    ("1999-05-01T00:00:00Z", "1999-05-01"),
    ("1958-08:00", "1958"),
    ("1999-05", "May 1999"),
]

DIFFERENT = [
    ("C", "C++"),
    ("C", "C#"),
    ("A", "A-"),
    ("O+", "O-"),
    ("Hepatitis A", "Hepatitis"),
    ("A. A. Milne", "Milne"),
    ("An Giang", "Giang"),  # a province; "an" is no article before a consonant
    ("The The", "The"),
    ("The 1975", "1975"),
    ("007", "7"),
    ("10²", "102"),
    ("CO₂", "CO"),
    ("1①", "11"),
    ("2₁", "21"),
    ("New Ark", "Newark"),
    ("-5", "5"),
    ("-5 °C", "5 °C"),
    ("5%", "5"),
    ("$5", "5"),
    ("3.5 mm", "35 mm"),
    ("1939-1945", "1939"),
    ("1999-05-01", "1999"),
    ("1999-05-01", "1999-05"),
    ("1999-05-01T10:20", "1999-05-01"),
    ("São Paulo", "Sao Paulo"),  # an alias may say so; the form does not
    ("!!!", "..."),
    ("100000000000000000000000000000001", "100000000000000000000000000000000"),
    ("<answer>Paris</answer>", "Paris"),
]


@pytest.mark.parametrize(("left", "right"), SAME)
def test_spellings_of_one_thing_are_equal(left, right):
    assert normalise(left) == normalise(right) != ""


@pytest.mark.parametrize(("left", "right"), DIFFERENT)
def test_different_things_stay_apart(left, right):
    assert normalise(left) != normalise(right)


@given(st.text(max_size=60))
def test_only_blank_names_are_empty(name):
    visible = any(c.isalnum() or c in "!?.,-<>\\" for c in name)
    assert normalise(name) != "" or not visible


@given(st.text(max_size=60))
def test_a_form_ignores_case_and_spaces_around(name):
    assert normalise(f"  {name}\n") == normalise(name)
    assert normalise(name.casefold()) == normalise(name)


@given(st.text(max_size=60))
def test_a_name_is_found_again_as_it_prints(name):
    assert normalise(name.replace("\\", "")) == "" or normalise(name) in forms(escape_name(name)) | {""}


@pytest.mark.parametrize("piece", ["x", "- ", "a.", "1,111", "the ", "may ", "\\u003c", "\ud800", "\u0301\u0323"])
def test_a_long_name_is_read(piece):
    """Not timed, but what took quadratic time would take minutes and be noticed."""
    for length in (2_000, 1_000_000):
        forms(piece * (length // len(piece)))


def test_a_text_longer_than_any_name_keeps_its_raw_form():
    assert normalise("A" * 2_000) == "a" * 2_000
    assert normalise(" " + "A" * 2_001) == "A" * 2_001
