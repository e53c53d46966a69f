"""From a sampled turn to a node of a tree: a step in a copy of the parent's episode, and what is seen of its answer."""

import time
from dataclasses import dataclass, replace

from graphwalker.inference.chat_tokens import ChatTokens
from graphwalker.inference.engine import Completion
from graphwalker.inference.turn_text import fit
from graphwalker.search.node import Episode, Node


@dataclass(frozen=True, slots=True)
class Stepped:
    """An episode after a step, or the exception that it raised, and how long it took."""

    episode: Episode | None
    observation: str
    over: bool
    error: Exception | None
    seconds: float


def step(parent: Episode, text: str, cut: bool) -> Stepped:
    """Take a turn in an episode of its own; ``cut`` says that the turn was cut at its token cap. Raises nothing."""
    began = time.perf_counter()
    try:
        episode = parent.fork()
        observation, _, terminated, truncated, _ = episode.step(text, truncated_turn=cut)
    except Exception as error:  # ends the question that it happened to
        return Stepped(None, "", True, error, time.perf_counter() - began)
    return Stepped(episode, observation, terminated or truncated, None, time.perf_counter() - began)


def make_node(parent: Node, number: int, done: Completion, stepped: Stepped, chat: ChatTokens, room: int) -> Node:
    """The state that a turn led to; of the observation what fits into ``room`` tokens.

    Where nothing does, the state is terminal by its length.
    """
    assert stepped.episode is not None
    trajectory = stepped.episode.trajectory()
    turn = trajectory.turns[-1]
    node = Node(stepped.episode, parent, turn, list(done.ids), list(done.logprobs))
    node.number, node.depth = number, parent.depth + 1
    if stepped.over:
        node.ending, node.answer = trajectory.ending, trajectory.answer
        return node
    seen, ids = fit(stepped.observation, chat, room, stopped=done.stopped)
    node.ids += ids
    node.turn = replace(turn, observation=seen)
    if not ids:
        node.ending, node.limit = "budget", "length"
    return node
