"""Scores of one episode."""

import math

import pytest

from graphwalker.metrics.trajectory import (
    METRICS,
    grounded,
    recovered_from_error,
    reflects,
    score_trajectory,
    seen_in,
    triples_in,
)
from graphwalker.types import Entity, Question, Trajectory, Turn

CAPITAL = "location.country.capital"
QUESTION = Question(
    "q1", "What is the capital of France?", (Entity("France"),), (Entity("Paris"),), structure="1-hop", hops=1
)


def query(action, observation, status="ok", thought="Look."):
    return Turn(action, thought, "query", action, observation, status)


def answer(*names):
    return Turn("", "Done.", "answer", str(list(names)))


RELATIONS = query('get_relations("France")', f"{CAPITAL}\nlocation.location.contains")
TRIPLES = query(f'get_triples("France", ["{CAPITAL}"])', f"[France, {CAPITAL}, Paris]")
MISSPELT = query('get_relations("Frnace")', "Error: there is no entity Frnace.", "unknown_entity")


def episode(*turns, given=None, ending="answered", question=QUESTION):
    return Trajectory(question, turns, given, ending)


def test_a_clean_episode():
    score = score_trajectory(episode(RELATIONS, TRIPLES, answer("Paris"), given=("Paris",)))
    assert list(score.values) == list(METRICS)
    assert score.values["em"] == score.values["retrieval_rate"] == score.values["grounding_rate"] == 1.0
    assert (score.values["turns"], score.values["tool_calls"], score.values["repeated_queries"]) == (3, 2, 0)
    assert score.values["failed_query_rate"] == 0.0 and math.isnan(score.values["recovery_rate"])
    assert score.left_out == "" and score.statuses == {"ok": 3}


def test_recovery_needs_a_failed_query_and_a_right_answer():
    right = episode(MISSPELT, RELATIONS, TRIPLES, answer("Paris"), given=("Paris",))
    wrong = episode(MISSPELT, RELATIONS, TRIPLES, answer("Lyon"), given=("Lyon",))
    clean = episode(RELATIONS, TRIPLES, answer("Paris"), given=("Paris",))
    assert [recovered_from_error(t) for t in (right, wrong, clean)] == [True, False, False]
    assert score_trajectory(right).values["recovery_rate"] == 1.0
    assert score_trajectory(wrong).values["recovery_rate"] == 0.0
    assert score_trajectory(wrong).values["recovered_share"] == score_trajectory(clean).values["recovered_share"] == 0.0


@pytest.mark.parametrize("status", ["empty", "bad_query", "unknown_entity", "unknown_relation", "refused"])
def test_failed_queries(status):
    assert score_trajectory(episode(query("q", "", status))).values["failed_query_rate"] == 1.0


@pytest.mark.parametrize("status", ["ok", "kg_timeout", "kg_error", "no_action", "truncated"])
def test_what_is_no_failed_query_of_the_agent(status):
    assert score_trajectory(episode(query("q", "", status))).values["failed_query_rate"] == 0.0


def test_a_right_answer_from_memory_is_not_grounded():
    guess = episode(answer("Paris"), given=("Paris",))
    assert score_trajectory(guess).values["em"] == 1.0
    assert score_trajectory(guess).values["grounding_rate"] == 0.0 and not grounded(guess)
    assert not grounded(episode(TRIPLES, answer(), given=()))
    assert math.isnan(score_trajectory(episode(TRIPLES, ending="budget")).values["grounding_rate"])


def test_names_in_relation_lists_errors_and_thoughts_are_not_seen():
    said = [
        query('get_relations("France")', "[Paris]\nParis"),
        query("get_relations(", "Error: [France, r, Paris] is no query.", "bad_query"),
        query("x", f"[France, {CAPITAL}, Paris]", "refused"),
        Turn(
            "Paris", "The answer is [France, capital, Paris].", "none", "", f"[France, {CAPITAL}, Paris]", "no_action"
        ),
    ]
    assert score_trajectory(episode(*said)).values["retrieval_rate"] == 0.0


def test_aliases_and_escaped_names_are_seen():
    question = Question("q", "?", answers=(Entity("x", aliases=("</information>",)),))
    turn = query(f'get_triples("F", ["{CAPITAL}"])', f"[F, {CAPITAL}, \\u003c/information>]")
    assert score_trajectory(episode(turn, question=question)).values["retrieval_rate"] == 1.0


def test_seen_in_wants_the_whole_head_or_tail():
    observation = f"[Paris, Texas, location.location.containedby, Texas]\n... 2 more triples of {CAPITAL}"
    assert seen_in(observation, ["Paris, Texas"]) and seen_in(observation, ["nowhere", "texas"])
    assert not seen_in(observation, ["Paris"]) and not seen_in(observation, [CAPITAL]) and not seen_in(observation, [])


@pytest.mark.parametrize(
    ("line", "relations", "triple"),
    [
        ("[a, b, c]", (), ("a", "b", "c")),
        (
            "[Crosby, Stills, Nash, music.group.member, Neil]",
            (),
            ("Crosby, Stills, Nash", "music.group.member", "Neil"),
        ),
        (
            "[Earth, Wind, starred_actors, Fire, Inc]",
            ("starred_actors",),
            ("Earth, Wind", "starred_actors", "Fire, Inc"),
        ),
        ("[A.B, C.D, directed_by, E]", ("directed_by",), ("A.B, C.D", "directed_by", "E")),
        ("[[x], r, y]]", (), ("[x]", "r", "y]")),
        ("[no triple]", (), None),
        ("[two, parts]", (), None),
        ("[]", (), None),
        ("... 3 more triples", (), None),
    ],
)
def test_triples_in(line, relations, triple):
    assert triples_in(line, relations) == ([triple] if triple else [])


def test_repeated_queries_are_counted():
    assert score_trajectory(episode(RELATIONS, RELATIONS, TRIPLES, RELATIONS)).values["repeated_queries"] == 2


def test_outages_and_questions_without_gold_are_left_out():
    assert score_trajectory(episode(RELATIONS, ending="outage")).left_out == "outage"
    unanswerable = Question("q", "?")
    assert score_trajectory(episode(answer("x"), given=("x",), question=unanswerable)).left_out == "no_gold"
    assert score_trajectory(episode(RELATIONS, ending="error")).left_out == ""


@pytest.mark.parametrize(
    ("thought", "reflection"),
    [
        ("That did not help; try another relation.", True),
        ("That relation doesn't give the answer.", True),
        ("Wrong entity. Go back to France.", True),
        ("No triples here: a dead end.", True),
        ("I need the capital instead.", True),
        ("France is in Europe. Next: its capital.", False),
        ("Answer: Paris.", False),
        ("Wrongbury is a town in Insteadland.", False),
        ("", False),
    ],
)
def test_reflects(thought, reflection):
    assert reflects(thought) is reflection
