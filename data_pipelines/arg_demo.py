"""ArG's training texts on the demo KG, made once."""

from collections.abc import Iterator
from pathlib import Path

from data_pipelines.arg_candidates import ArgSettings
from data_pipelines.arg_critic import RuleCritic
from data_pipelines.arg_paths import PathSearch
from data_pipelines.arg_texts import ArgMaker, arg_records
from data_pipelines.importers.counts import Counts
from data_pipelines.made_once import made_once
from graphwalker.files import file_hash, read_jsonl
from graphwalker.kg.hops import Hops
from graphwalker.kg.meta import read_meta
from graphwalker.kg.open import open_kg
from graphwalker.protocol.reflection_data import ReflectionRecord
from graphwalker.tools.questions import read_questions
from graphwalker.tools.retriever import BM25Retriever
from graphwalker.types import Question, Trajectory

SYNTH = 4_000  # questions of GraphSynth beside those of the training set; no test has them
PATHS = 2  # of a question
RECIPE = 2  # raised when the same settings give other texts than before


def prepare_arg_demo(data: str | Path, kg: str | Path, *, synth: int = SYNTH, progress: bool = True) -> None:
    """Make `arg.jsonl` with its counts in the folder `data`, whose questions stand on the graph `kg`.

    What is there from the same settings, questions and graph is left as it is. A minute or so.
    """
    from tqdm import tqdm

    data = Path(data)
    files = [data / "train.jsonl", data / "graphsynth.jsonl"]
    settings = {"recipe": RECIPE, "synth": synth, "paths": PATHS, "kg": read_meta(kg)}
    settings["questions"] = [file_hash(file) for file in files]

    def make(counts: Counts) -> Iterator[ReflectionRecord]:
        search = PathSearch(Hops(open_kg(kg)))
        maker = ArgMaker(search, BM25Retriever(), RuleCritic(search), ArgSettings(k_paths=PATHS))
        bar = tqdm(_questions(files[0], files[1], synth), desc="arg", unit=" questions", disable=not progress)
        return arg_records(bar, maker, counts)

    made_once(data / "arg.jsonl", settings, make)


def _questions(train: Path, trajectories: Path, synth: int) -> list[Question]:
    """Those of the training set, and of GraphSynth; each once."""
    made = (trajectory.question for trajectory in read_jsonl(trajectories, Trajectory))
    both = [*read_questions(train), *(question for _, question in zip(range(synth), made, strict=False))]
    return list({question.id: question for question in both}.values())
