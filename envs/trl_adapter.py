"""The episode as TRL's `environment_factory` wants it: every public method but `reset` becomes a tool of the model."""

import json
from collections.abc import Callable
from typing import Any

from envs.kg_env import KGEnv
from graphwalker.types import Question


class KGQueryEnvironment:
    """One rollout's environment with exactly one tool, `kg_query`.

    `episode` is the `KGEnv` behind it. A loop that sees whole turns steps the episode itself; TRL's own loop hands
    over only the text between the query tags.
    """

    def __init__(self, make_env: Callable[[], KGEnv]):
        self.episode = make_env()

    def reset(self, **row: Any) -> None:
        """Begin an episode on a dataset row, whose `question` column holds a `Question` as JSON text.

        Returns nothing: the row's prompt already holds the user's message.
        """
        self.episode.reset(options={"question": Question.from_json(json.loads(row["question"]))})

    def kg_query(self, query: str) -> str:
        """
        Ask the knowledge graph.

        Args:
            query: Either get_relations("entity") or get_triples("entity", ["relation", ...]).

        Returns:
            The relations or the triples, one a line, or an error that says what to write instead.
        """
        if self.episode.over:
            return "Error: the episode is over."
        return self.episode.step(f"<kg-query>{query}</kg-query>")[0]


def adapter_factory(make_env: Callable[[], KGEnv]) -> Callable[[], KGQueryEnvironment]:
    """What to pass as ``GRPOTrainer(environment_factory=...)``."""
    return lambda: KGQueryEnvironment(make_env)
