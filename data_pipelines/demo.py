"""Everything the demo trains and is tested on, in one folder: made once, reused afterwards."""

from pathlib import Path

from data_pipelines.copying import copying_episodes
from data_pipelines.dataset import prepare_demo_data
from graphwalker.files import read_jsonl, write_jsonl
from graphwalker.types import Trajectory

COPYING_EPISODES = 4_000


def prepare_demo(out: str | Path, *, seed: int = 0, progress: bool = True) -> None:
    """Make the demo KG, its trajectories and questions, and the copying practice in ``out``; about a minute.

    What stands there from the same settings is left as it is. Raises ``UserError`` when it cannot be written.
    """
    out = Path(out)
    prepare_demo_data(out, seed=seed, progress=progress)
    copying, synth = out / "copying.jsonl", out / "graphsynth.jsonl"
    if copying.is_file() and copying.stat().st_mtime >= synth.stat().st_mtime:
        return
    questions = [t.question for t in read_jsonl(synth, Trajectory)]
    names = sorted({entity.name for q in questions for entity in q.topic_entities})
    relations = sorted({relation.lstrip("^") for q in questions for path in q.paths for relation in path})
    write_jsonl(copying, copying_episodes(names, relations, COPYING_EPISODES, seed=seed))
