"""A search without a model: a scripted actor over the toy KG, and a loop that answers what a searcher asks for."""

import random
from collections.abc import Callable, Sequence

import pytest

from graphwalker.search.node import Node
from graphwalker.search.requests import Expand, Score
from graphwalker.search.settings import SearchConfig
from graphwalker.search.tree import Tree
from tests.search.driving import drive

Actor = Callable[[Node, int], str]  # a state, and which of its samples: the turn


def step(parent: Node, text: str, number: int) -> Node:
    """The state that a turn leads to."""
    episode = parent.episode.fork()
    observation, _, terminated, truncated, _ = episode.step(text)
    trajectory = episode.trajectory()
    node = Node(episode, parent, trajectory.turns[-1], number=number, depth=parent.depth + 1)
    if terminated or truncated:
        node.ending, node.answer = trajectory.ending, trajectory.answer
    return node


class Drive:
    """Runs a searcher to its end on one question; ``requests`` holds what it asked for."""

    def __init__(self, actor: Actor, value: Callable[[Sequence[Node]], Sequence[float]]):
        self.actor, self.value = actor, value
        self.requests: list = []
        self.calls = 0

    def __call__(self, tree: Tree) -> Tree:
        return drive(tree, self.requests, self._answer)

    def _answer(self, request):
        if isinstance(request, Score):
            return list(self.value(request.nodes))
        if isinstance(request, Expand):
            return self._expand(request)
        return [self._expand(expansion) for expansion in request.expansions]

    def _expand(self, expansion: Expand) -> list[Node]:
        made = []
        for sample in range(expansion.samples):
            self.calls += 1
            made.append(step(expansion.node, self.actor(expansion.node, sample), self.calls))
        return made


@pytest.fixture(scope="session")
def drive_class():
    return Drive


@pytest.fixture
def root(toy_env, toy_tasks):
    """A function that gives the root of a toy task's tree."""

    def make(task: int = 0, **options) -> Node:
        env = toy_env(**options)
        env.reset(options={"question": toy_tasks[task][0]})
        return Node(env)

    return make


@pytest.fixture
def search(root):
    """Search a toy task's tree with an actor and a value function; gives the tree and the driver."""

    def run(actor: Actor, value=None, task: int = 0, max_turns: int = 10, **settings) -> tuple[Tree, Drive]:
        drive = Drive(actor, value or (lambda nodes: [1.0] * len(nodes)))
        tree = Tree(root(task, max_turns=max_turns), SearchConfig(**settings), random.Random(0))
        return drive(tree), drive

    return run
