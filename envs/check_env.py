"""An executable contract that every environment here passes."""

import json
import math
from typing import Any

from graphwalker.types import STATUSES, Question, Trajectory

GARBAGE = (
    "",
    "\0\ud800</think></kg-query>",
    "<think>never closed",
    "<kg-query>get_relations(</kg-query>",
    '<kg-query>get_triples("x", [</kg-query>',
    "<answer>",
    "<answer>{}</answer>",
    "</information><|im_end|><|im_start|>assistant\n",
    "<kg-query>" + "(" * 2000 + "</kg-query>",
    "Action: SearchNodes(",
    "Thought: x\nAction: ExecuteSPARQL('DROP ALL')\nObservation: []",
    'Thought: x\nAction: Unknown("' + "\\" * 2001 + '")',
    "[Entity Retrieval]<paragraph>",
    "[Relation Retrieval]<paragraph>[Relation Retrieval]</paragraph>[Unrelevant]",
)
_ANSWERS = {"tool": '<think>.</think><answer>["nobody at all"]</answer>', "user": "Thought: .\nAction: Done."}
_ANSWERS["inline"] = "[No Retrieval]nobody at all[Utility:1]"
"""A turn that ends an episode, by the role of the environment's observations."""


def check_env(env: Any, question: Question) -> None:
    """Raise `AssertionError` naming the clause that `env` breaks.

    The clauses: shapes and types of `reset` and `step`; at least one end of each kind (an answer terminates, running
    out of turns truncates, never both); calls outside an episode raise `RuntimeError`; no text of a model raises; two
    equal episodes are equal; `reset` leaves nothing behind; a fork goes on by itself; a trajectory survives JSON.
    """
    assert env.role in _ANSWERS, "role is that of the observations: 'tool', 'user' or 'inline'"
    answer = _ANSWERS[env.role]
    _check_reset(env, question)
    answered = _play(env, question, [answer])
    assert answered[-1][2] and not answered[-1][3], "an answer must terminate the episode, not truncate it"
    assert env.trajectory().ending == "answered", "a trajectory that answers has the ending 'answered'"
    _check_closed(env, answer)
    garbage = _play(env, question, list(GARBAGE) * 20)
    assert garbage[-1][3] and not garbage[-1][2], "running out of turns must truncate the episode, not terminate it"
    assert env.trajectory().answer is None, "an episode without an answer has None for one"
    _check_closed(env, answer)
    _check_trajectory(env.trajectory(), len(garbage))
    assert garbage == _play(env, question, list(GARBAGE) * 20), "two equal episodes must give equal steps"
    _check_fork(env, question, answer)


def _check_reset(env: Any, question: Question) -> None:
    first = env.reset(seed=0, options={"question": question})
    assert isinstance(first, tuple) and len(first) == 2, "reset returns (observation, info)"
    assert isinstance(first[0], str) and first[0], "reset's observation is the user's message"
    assert isinstance(first[1], dict), "reset's info is a dict"
    assert first == env.reset(seed=1, options={"question": question}), "the seed must not change the first observation"
    assert env.trajectory().turns == (), "reset must forget the episode before"


def _play(env: Any, question: Question, texts: list[str]) -> list[tuple]:
    env.reset(options={"question": question})
    steps = []
    for text in texts:
        steps.append(env.step(text))
        _check_step(steps[-1])
        if steps[-1][2] or steps[-1][3]:
            break
    return steps


def _check_step(step: Any) -> None:
    assert isinstance(step, tuple) and len(step) == 5, "step returns (observation, reward, terminated, truncated, info)"
    observation, reward, terminated, truncated, info = step
    assert isinstance(observation, str), "an observation is text"
    assert isinstance(reward, float) and math.isfinite(reward) and 0.0 <= reward <= 1.0, "a reward is a float in [0, 1]"
    assert isinstance(terminated, bool) and isinstance(truncated, bool), "terminated and truncated are bools"
    assert not (terminated and truncated), "an episode ends in one way"
    assert isinstance(info, dict) and info.get("status") in STATUSES, "info['status'] is one of types.STATUSES"
    over = terminated or truncated
    assert bool(observation) is not over, "every step but the last has an observation"
    assert not (reward and not terminated), "only an answer is rewarded"


def _check_fork(env: Any, question: Question, answer: str) -> None:
    env.reset(options={"question": question})
    first = env.fork()
    first.step(answer)
    assert env.trajectory().turns == (), "what happens in a fork must not change the episode that it came from"
    second = env.fork()
    assert second.step(answer) == env.step(answer), "a fork must go on as the episode that it came from"
    assert first.trajectory() == second.trajectory() == env.trajectory(), "a fork must stand where its origin does"


def _check_closed(env: Any, answer: str) -> None:
    try:
        env.step(answer)
    except RuntimeError:
        return
    raise AssertionError("step after the end must raise RuntimeError")


def _check_trajectory(trajectory: Trajectory, turns: int) -> None:
    assert isinstance(trajectory, Trajectory), "trajectory() gives a Trajectory"
    assert len(trajectory.turns) == turns, "a trajectory holds every turn"
    text = json.dumps(trajectory.to_json(), ensure_ascii=False)
    again = Trajectory.from_json(json.loads(text.encode("utf-8")))
    assert again == trajectory, "a trajectory must survive JSON"
