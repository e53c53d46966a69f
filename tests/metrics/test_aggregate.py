"""Scores of a run and of two runs against each other."""

import json
import math
import random
from dataclasses import replace
from itertools import combinations

import pytest

from graphwalker.metrics.aggregate import METRICS_VERSION, paired_bootstrap, pass_at_k, score_run
from graphwalker.types import Entity, Question, Trajectory, Turn


def run(right, samples=1, questions=40, ending="answered"):
    """A run whose episode (question i, sample s) is right where ``right(i, s)`` says so."""
    made = []
    for i in range(questions):
        question = Question(f"q{i}", "?", answers=(Entity("gold"),), structure=("1-hop", "2i")[i % 2], hops=i % 2 + 1)
        for s in range(samples):
            given = ("gold",) if right(i, s) else ("other",)
            made.append(Trajectory(question, (Turn("", kind="answer"),), given, ending, s))
    return made


def value(metrics, name, group="overall"):
    return metrics[group]["metrics"][name]


def test_means_counts_and_groups():
    metrics = score_run(run(lambda i, s: i % 4 == 0, samples=2))
    assert metrics["metrics_version"] == METRICS_VERSION and metrics["schema"] == 1
    assert value(metrics, "em")["value"] == 0.25 and value(metrics, "em")["episodes"] == 80
    assert metrics["overall"]["questions"] == 40 and metrics["overall"]["episodes"] == 80
    assert {k: v["metrics"]["em"]["value"] for k, v in metrics["by_structure"].items()} == {"1-hop": 0.5, "2i": 0.0}
    assert {k: v["questions"] for k, v in metrics["by_hops"].items()} == {"1": 20, "2": 20}


def test_the_same_run_and_seed_give_the_same_json_and_another_seed_other_intervals():
    episodes = run(lambda i, s: i % 3 == 0, samples=3)
    first = score_run(episodes, seed=1)
    assert json.dumps(first) == json.dumps(score_run(iter(episodes), seed=1))
    other = score_run(episodes, seed=2)
    assert value(other, "em")["value"] == value(first, "em")["value"]
    assert value(other, "em") != value(first, "em")


def test_the_order_of_episodes_does_not_change_a_value():
    episodes = run(lambda i, s: i % 3 == 0, samples=2)
    shuffled = random.Random(0).sample(episodes, len(episodes))
    a, b = score_run(episodes), score_run(shuffled)
    assert {k: v["value"] for k, v in a["overall"]["metrics"].items()} == {
        k: v["value"] for k, v in b["overall"]["metrics"].items()
    }


def test_a_dependent_sample_adds_no_certainty():
    """Eight equal samples of each question say no more than one does; the interval must not shrink."""
    one = value(score_run(run(lambda i, s: i % 2 == 0)), "em")
    eight = value(score_run(run(lambda i, s: i % 2 == 0, samples=8)), "em")
    assert (one["low"], one["high"]) == (eight["low"], eight["high"])


def test_intervals_have_about_the_normal_width():
    found = value(score_run(run(lambda i, s: i % 4 < 2, questions=400)), "em")
    half = 1.96 * math.sqrt(0.25 / 400)
    assert found["high"] - found["low"] == pytest.approx(2 * half, rel=0.15)
    assert found["low"] < 0.5 < found["high"]


def test_outages_are_counted_and_take_no_part():
    episodes = run(lambda i, s: True, questions=4) + run(lambda i, s: False, questions=4, ending="outage")
    kinds = iter(["timeout", "refused", "timeout", "timeout"])
    episodes = [replace(e, extra={"outage": next(kinds)}) if e.ending == "outage" else e for e in episodes]
    metrics = score_run(episodes)
    assert metrics["left_out"] == {"outage": 4, "no_gold": 0} and metrics["endings"]["outage"] == 4
    assert metrics["outages"] == {"refused": 1, "timeout": 3}
    assert value(metrics, "em")["value"] == 1.0 and metrics["overall"]["episodes"] == 4


def test_nothing_to_score_gives_none_not_zero():
    for episodes in ([], run(lambda i, s: False, ending="outage")):
        metrics = score_run(episodes)
        assert value(metrics, "em") == {"value": None, "low": None, "high": None, "episodes": 0}
        assert json.loads(json.dumps(metrics, allow_nan=False)) == metrics


def test_recovery_shows_both_denominators():
    def turns(failed):
        return (Turn("", kind="query", status="unknown_entity" if failed else "ok"), Turn("", kind="answer"))

    question = [Question(f"q{i}", "?", answers=(Entity("g"),)) for i in range(10)]
    episodes = [Trajectory(q, turns(i < 4), ("g",) if i % 2 else ("x",), "answered") for i, q in enumerate(question)]
    metrics = score_run(episodes)
    assert value(metrics, "recovery_rate")["value"] == 0.5 and value(metrics, "recovery_rate")["episodes"] == 4
    assert value(metrics, "recovered_share")["value"] == 0.2 and value(metrics, "recovered_share")["episodes"] == 10
    assert metrics["overall"]["errors"]["unknown_entity"] == {
        "turns": 4,
        "share": {"value": 0.4, "low": pytest.approx(0.1, abs=0.11), "high": pytest.approx(0.7, abs=0.11)},
    }


@pytest.mark.parametrize(("n", "c", "k"), [(5, 2, 3), (8, 3, 4), (6, 0, 2), (6, 6, 6), (4, 1, 4)])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_sample(n, c, k):
    subsets = list(combinations([i < c for i in range(n)], k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


@pytest.mark.parametrize(("n", "c", "k"), [(2, 3, 1), (2, 1, 3), (2, 1, 0), (2, -1, 1)])
def test_pass_at_k_refuses_what_is_not_defined(n, c, k):
    with pytest.raises(ValueError, match="not defined"):
        pass_at_k(n, c, k)


def test_the_pass_table_goes_up_to_the_samples_there_are():
    episodes = run(lambda i, s: s == 0, samples=6) + run(lambda i, s: True, questions=10)[:1]
    table = score_run(episodes)["overall"]["pass_at_k"]["em"]
    assert list(table) == ["1", "2", "4", "7"]  # one question has a seventh sample
    assert table["4"]["value"] == pytest.approx((39 * 4 / 6 + pass_at_k(7, 2, 4)) / 40, abs=1e-6)
    assert table["4"]["questions"] == 40 and table["7"]["questions"] == 1


def test_a_paired_gain_is_told_from_noise():
    before = run(lambda i, s: (i + s) % 4 == 0, samples=8, questions=200)
    after = run(lambda i, s: (i + s) % 4 <= 1, samples=8, questions=200)
    gain = paired_bootstrap(before, after, "em_set")
    assert gain["difference"] == 0.25 and gain["excludes_zero"] and gain["questions"] == 200
    assert (gain["before"], gain["after"], gain["unpaired"]) == (0.25, 0.5, 0)
    coin = random.Random(0)
    same = [run(lambda i, s: coin.random() < 0.5, questions=200) for _ in range(2)]
    assert not paired_bootstrap(*same)["excludes_zero"]


def test_pairing_by_question_beats_unpaired_noise():
    """Half the questions are never solved and the rest gain a little: each question is its own control."""
    before = run(lambda i, s: i % 2 == 0 and s < 6, samples=8, questions=200)
    after = run(lambda i, s: i % 2 == 0 and s < 7, samples=8, questions=200)
    gain = paired_bootstrap(before, after)
    assert gain["low"] > 0.04 and gain["high"] < 0.09


def test_pairing_leaves_out_what_only_one_run_has():
    gain = paired_bootstrap(run(lambda i, s: False, questions=5), run(lambda i, s: True, questions=9))
    assert (gain["questions"], gain["unpaired"], gain["difference"]) == (5, 4, 1.0)
    nothing = paired_bootstrap([], run(lambda i, s: True))
    assert nothing["difference"] is None and not nothing["excludes_zero"] and nothing["unpaired"] == 40
