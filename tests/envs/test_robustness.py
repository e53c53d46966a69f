"""10,000 random and mutated model outputs, and whatever Hypothesis finds: no exception, and always a status."""

import json
import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphwalker.types import STATUSES, Trajectory

GOOD = [
    '<think>Start.</think><kg-query>get_relations("France")</kg-query>',
    '<think>x</think><kg-query>get_triples("France", ["location.country.capital", "people.person"])</kg-query>',
    '<think>Done.</think><answer>["Paris", "Lyon"]</answer>',
]
PIECES = ["<think>", "</think>", "<kg-query>", "</kg-query>", "<answer>", "</answer>", "<information>", "<|im_end|>"]
PIECES += [
    '"',
    "'",
    "[",
    "]",
    "(",
    ")",
    ",",
    "\\",
    "\\u12",
    "\n",
    "\0",
    "\ud800",
    "東京",
    "get_triples",
    "France",
    " " * 50,
]


def mutated(rng: random.Random) -> str:
    text = rng.choice(GOOD)
    for _ in range(rng.randint(0, 6)):
        start, end = sorted(rng.randint(0, len(text)) for _ in range(2))
        end = min(end, start + rng.choice([0, 1, 3, 20]))
        insert = rng.choice([*PIECES, "", "", text[start:end] * 2, chr(rng.randint(1, 0x10FFFF))])
        text = text[:start] + insert + text[end:]
    return text


def feed(env, question, texts):
    env.reset(options={"question": question})
    for text in texts:
        if env.over:
            env.reset(options={"question": question})
        observation, reward, terminated, truncated, info = env.step(text)
        assert info["status"] in STATUSES
        assert reward in (0.0, 1.0) and (terminated or not reward)
        assert bool(observation) is not (terminated or truncated)
        assert "</information>" not in observation and "<|im_end|>" not in observation


def test_ten_thousand_mutated_outputs(make_env, question):
    rng = random.Random(20)
    env = make_env()
    feed(env, question, (mutated(rng) for _ in range(10_000)))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.lists(st.sampled_from(PIECES + GOOD) | st.text(max_size=8), max_size=8).map("".join), max_size=11))
def test_no_sequence_of_turns_raises(make_env, question, texts):
    env = make_env()
    feed(env, question, texts)
    trajectory = env.trajectory()
    record = json.dumps(trajectory.to_json(), ensure_ascii=False).encode("utf-8")
    assert Trajectory.from_json(json.loads(record)) == trajectory
