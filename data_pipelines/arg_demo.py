"""ArG's training texts on the demo KG, made once."""

from pathlib import Path

from data_pipelines.arg_candidates import ArgSettings
from data_pipelines.arg_critic import RuleCritic
from data_pipelines.arg_paths import PathSearch
from data_pipelines.arg_texts import ArgMaker, arg_records
from data_pipelines.importers.counts import Counts
from graphwalker.files import atomic_files, dump_json, dump_jsonl, file_hash, parse_json, read_jsonl
from graphwalker.kg.hops import Hops
from graphwalker.kg.open import open_kg
from graphwalker.tools.questions import read_questions
from graphwalker.tools.retriever import BM25Retriever
from graphwalker.types import Question, Trajectory

SYNTH = 4_000  # questions of GraphSynth beside those of the training set; no test has them
PATHS = 2  # of a question
RECIPE = 1  # raised when the same settings give other texts than before


def prepare_arg_demo(data: str | Path, kg: str | Path, *, synth: int = SYNTH, progress: bool = True) -> None:
    """Make `arg.jsonl` with its counts in the folder `data`, whose questions stand on the graph `kg`.

    What is there from the same settings and questions is left as it is. A minute or so.
    """
    from tqdm import tqdm

    data = Path(data)
    files = [data / "train.jsonl", data / "graphsynth.jsonl"]
    settings = {"recipe": RECIPE, "synth": synth, "paths": PATHS, "questions": [file_hash(file) for file in files]}
    out, beside = data / "arg.jsonl", data / "arg.counts.json"
    try:
        if out.is_file() and parse_json(beside.read_bytes())["settings"] == settings:
            return
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not there, or not whole: made below
    search, counts = PathSearch(Hops(open_kg(kg))), Counts()
    maker = ArgMaker(search, BM25Retriever(), RuleCritic(search), ArgSettings(k_paths=PATHS))
    bar = tqdm(_questions(files[0], files[1], synth), desc="arg", unit=" questions", disable=not progress)
    with atomic_files(out, beside) as (handle, counted):
        dump_jsonl(handle, arg_records(bar, maker, counts))
        dump_json(counted, {"settings": settings, **counts.to_json()})


def _questions(train: Path, trajectories: Path, synth: int) -> list[Question]:
    """Those of the training set, and of GraphSynth; each once."""
    made = (trajectory.question for trajectory in read_jsonl(trajectories, Trajectory))
    both = [*read_questions(train), *(question for _, question in zip(range(synth), made, strict=False))]
    return list({question.id: question for question in both}.values())
