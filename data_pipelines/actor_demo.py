"""The demo KG with SPARQL and an actor's trajectories on it, made once."""

from collections.abc import Iterator
from pathlib import Path

from data_pipelines.actor import actor_trajectories
from data_pipelines.demo_kg import build_demo_kg
from data_pipelines.importers.counts import Counts
from data_pipelines.made_once import made_once
from envs.factory import EnvConfig, kbqa_env_factory
from graphwalker.files import read_jsonl
from graphwalker.types import Trajectory

QUESTIONS = 3_000  # of GraphSynth's, which no test has
RECIPE = 1  # raised when the same settings give other trajectories than before


def prepare_actor_demo(data: str | Path, env: EnvConfig, *, questions: int = QUESTIONS, progress: bool = True) -> None:
    """Make the KG that `env` names, if it stands in the folder `data`, and in it `actor.jsonl` with its counts.

    The questions are those of the first GraphSynth trajectories in `data`. What is there from the same settings is left
    as it is. Some minutes on two cores.
    """
    from tqdm import tqdm

    data = Path(data)
    if Path(env.kg).resolve().parent == data.resolve():
        build_demo_kg(env.kg, store="oxigraph", progress=progress)
    shown = {"names": env.names_shown, "patterns": env.patterns_shown, "rows": env.rows_shown}
    settings = {"recipe": RECIPE, "questions": questions, "max_turns": env.max_turns, **shown}

    def make(counts: Counts) -> Iterator[Trajectory]:
        trajectories = read_jsonl(data / "graphsynth.jsonl", Trajectory)
        asked = [trajectory.question for _, trajectory in zip(range(questions), trajectories, strict=False)]
        bar = tqdm(asked, desc="actor", unit=" questions", disable=not progress)
        return actor_trajectories(bar, kbqa_env_factory(env)(), counts=counts)

    made_once(data / "actor.jsonl", settings, make)
