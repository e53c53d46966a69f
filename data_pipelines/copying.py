"""Copying practice for a model made from nothing: one-hop walks among names that exist nowhere.

A pretrained model copies a name from its context; a tiny model has to learn it, and learns it sooner
from short episodes in which every name is new than from walks whose names recur. Names are put together
from fragments of the graph's own names, so that their letters and lengths are right, and relations are
asked for by their ids.
"""

import random
from collections.abc import Iterator, Sequence

from graphwalker.protocol.render import format_answer, format_query, format_triple, render_turn
from graphwalker.types import Entity, Question, Trajectory, Turn


def copying_episodes(
    names: Sequence[str], relations: Sequence[str], count: int, *, seed: int = 0
) -> Iterator[Trajectory]:
    """Yield ``count`` trajectories in the protocol of the real ones, observations included."""
    rng = random.Random(seed)
    fragments = [name.split(" ") for name in names]
    for number in range(count):
        yield _episode(rng, fragments, relations, number)


def _episode(rng: random.Random, fragments: Sequence[list[str]], relations: Sequence[str], number: int) -> Trajectory:
    topic, *others = (_name(rng, fragments) for _ in range(6))
    shown = rng.sample(relations, min(len(relations), rng.randint(2, 6)))
    asked = rng.choice(shown)
    tails = others[: rng.choice((1, 1, 1, 2, 3))]
    turns = (
        _query(f"Start at {topic}.", format_query("get_relations", topic), "\n".join(shown)),
        _query(
            f"Next: {asked}.",
            format_query("get_triples", topic, [asked]),
            "\n".join(format_triple(topic, asked, tail) for tail in tails),
        ),
        _answer(f"It is {tails[0]}.", tails),
    )
    answers = tuple(Entity(tail) for tail in tails)
    question = Question(f"copy-{number}", f"{asked} of {topic}?", (Entity(topic),), answers, "copying", "train")
    return Trajectory(question, turns, tuple(tails), "answered")


def _name(rng: random.Random, fragments: Sequence[list[str]]) -> str:
    """One to three words from different names, each with its end exchanged for another word's."""
    words = []
    for _ in range(rng.choice((1, 1, 2, 2, 3))):
        head, tail = rng.choice(rng.choice(fragments)), rng.choice(rng.choice(fragments))
        cut = rng.randint(1, max(1, len(head) - 1))
        words.append(head[:cut] + tail[len(tail) // 2 :].lower())
    return " ".join(words)


def _query(thought: str, action: str, observation: str) -> Turn:
    return Turn(render_turn(thought, "query", action), thought, "query", action, observation)


def _answer(thought: str, names: Sequence[str]) -> Turn:
    action = format_answer(names)
    return Turn(render_turn(thought, "answer", action), thought, "answer", action)
