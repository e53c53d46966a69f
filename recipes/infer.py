"""Answer questions with a trained agent under a tree search (MCTS-KBQA, section 3; ArG, Algorithm 1).

Any checkpoint under any searcher: the agent's protocol says which turns it takes, the searcher which of them it goes on
from, the value how good a state is. Differs from the paper: the maximum depth, the beam's width and the budgets of the
baselines are ours (docs/search.md). A generator of ArG goes with arg_beam, arg_exhaustive or linear and the protocol
reflection (docs/arg-search.md).

On a CPU, in minutes:  python recipes/infer.py
On a GPU:              python recipes/infer.py --config CONFIG.yaml --backend vllm

Without a config it searches the demo KG with the tiny agent that recipes/sft.py trains. Written are trajectories.jsonl
(the predictions), trees/, metrics.json and costs.json. Interrupted, the same command goes on where it stopped.
"""

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from data_pipelines.dataset import prepare_demo_data
from envs.factory import EnvConfig, any_env_factory, prompt_of
from graphwalker.errors import UserError, at_least
from graphwalker.inference.chat_engine import load_chat_engine
from graphwalker.inference.embeddings import load_retriever
from graphwalker.inference.engine import Engine, Sampling
from graphwalker.inference.load import load_engine
from graphwalker.inference.load_labeller import labeller_of
from graphwalker.inference.partial import held, is_finished, write_settings
from graphwalker.inference.search_run import search_questions
from graphwalker.inference.values.configs import ValueConfig
from graphwalker.inference.values.make import make_value
from graphwalker.protocol import interactive, reflection
from graphwalker.report.stages import summary
from graphwalker.search.searchers import REFLECTIVE, VALUED, find_searcher
from graphwalker.search.settings import SearchConfig
from graphwalker.tools.questions import read_questions
from graphwalker.train import models, session
from graphwalker.types import Question

DEFAULT = Path(__file__).parent / "infer" / "tiny_demo_fast_mcts.yaml"
# what may differ between two halves of one run
ELSEWHERE = frozenset(
    {"out", "rows", "parked_rows", "url", "searches_at_a_time", "value_url", "value_rows", "value_cache"}
    | {"retriever_cache", "reply_cache"}
)


@dataclass
class InferConfig:
    """The agent, the questions, and how its turns are decoded."""

    model: str = field(default="runs/sft_tiny_demo", metadata={"help": "A model's folder, a hub id, or smollm2."})
    questions: str = field(default="data/demo/test_path.jsonl", metadata={"help": "JSONL of questions."})
    out: str = field(default="runs/infer", metadata={"help": "Folder to write."})
    demo_data: str | None = field(
        default=None, metadata={"help": "Folder in which the demo data is made first, if it is not there yet."}
    )
    max_questions: int | None = field(default=None, metadata={"help": "Use only the first so many."})
    turn_tokens: int = field(default=512, metadata={"help": "Tokens a turn may take."})
    episode_tokens: int = field(default=4096, metadata={"help": "Tokens a state may take, the prompt included."})
    rows: int = field(default=64, metadata={"help": "Turns decoded at a time."})
    parked_rows: int = field(
        default=64,
        metadata={
            "help": "transformers: states whose past is kept in memory until they are expanded, each as large as a row "
            "(0 where memory is short; their past is then read again)."
        },
    )
    searches_at_a_time: int | None = field(
        default=None, metadata={"help": "Searches that may be under way at a time (default: as many as rows)."}
    )
    backend: str = field(
        default="auto",
        metadata={
            "help": "What decodes: transformers, vllm, server, auto, or openai: the prompted `model` of an "
            "OpenAI-compatible server at `url` (docs/kbqa.md)."
        },
    )
    url: str | None = field(
        default=None, metadata={"help": "Where the backend server (docs/vllm.md) or openai (ending in /v1) answers."}
    )
    examples: str | None = field(
        default=None, metadata={"help": "openai: JSONL of worked trajectories of the same protocol."}
    )
    shots: int | None = field(
        default=None, metadata={"help": "openai: the first so many of them are shown to the model (default: all)."}
    )
    reply_cache: str = field(
        default="data/replies.sqlite", metadata={"help": "openai: file that keeps the replies from run to run."}
    )
    guided_turns: bool = field(default=False, metadata={"help": "Hold every turn to the protocol's form (vLLM)."})
    seed: int = field(default=0, metadata={"help": "Seed of sampling and of the bootstrap."})

    def __post_init__(self) -> None:
        at_least(
            self, max_questions=1, turn_tokens=1, episode_tokens=1, rows=1, parked_rows=0, searches_at_a_time=1, seed=0
        )
        at_least(self, shots=0)


READS = (InferConfig, EnvConfig, SearchConfig, ValueConfig)


def main() -> None:
    infer, env, search, value = session.parse(READS, DEFAULT)
    find_searcher(search.searcher)
    _check_protocol(search.searcher, env.protocol)
    if infer.guided_turns and env.protocol != "graphwalker":
        raise UserError(f"guided_turns: only for the protocol graphwalker, not for {env.protocol}")
    if infer.guided_turns and infer.backend == "openai":
        raise UserError("guided_turns: not with the backend openai")
    out = Path(infer.out)
    if infer.demo_data:
        prepare_demo_data(infer.demo_data)
    settings = _settings(infer, env, search, value)
    if is_finished(out, settings):
        print(f"{out} is finished; remove it to run it again")
    else:
        reflective = env.protocol == reflection.PROTOCOL
        retrieves = reflective or env.protocol == interactive.PROTOCOL
        retriever = load_retriever(env.retriever, env.retriever_model, env.retriever_cache) if retrieves else None
        make_env = any_env_factory(env, retriever)
        # the protocol interactive is not given the topic entities, and so need not know them
        toolbox = None if env.protocol == interactive.PROTOCOL else make_env().toolbox
        questions = read_questions(infer.questions, toolbox, infer.max_questions)
        print(f"{search.searcher} on {infer.questions} with {infer.model}; output in {out}", flush=True)
        engine = _engine(infer, env, questions)
        scores = make_value(*_value(search, value))
        labeller = labeller_of(engine) if reflective else None
        sampling = Sampling(search.search_temperature, max_new_tokens=infer.turn_tokens)
        with held(out):
            if not is_finished(out, settings):
                write_settings(out, settings)
                search_questions(
                    questions,
                    make_env,
                    engine,
                    scores,
                    search,
                    sampling,
                    out,
                    seed=infer.seed,
                    labeller=labeller,
                    at_a_time=infer.searches_at_a_time,
                    progress=search.searcher,
                )
    print(summary(out))
    print(f"Written to {out}; read the predictions with: graphwalker report {out}")


def _engine(infer: InferConfig, env: EnvConfig, questions: list[Question]) -> Engine:
    if infer.backend == "openai":
        return load_chat_engine(
            infer.model,
            infer.url,
            prompt_of(env),
            protocol=env.protocol,
            examples=infer.examples,
            shots=infer.shots,
            cache=infer.reply_cache,
            questions=questions,
            capacity=infer.rows,
            max_length=infer.episode_tokens,
        )
    return load_engine(
        models.prepare_model(infer.model),
        backend=infer.backend,
        capacity=infer.rows,
        parked=infer.parked_rows,
        max_length=infer.episode_tokens,
        url=infer.url,
        guided=infer.guided_turns,
    )


def _check_protocol(searcher: str, protocol: str) -> None:
    """ArG's searchers need its protocol, and its checkpoints can also decode alone."""
    able = {*REFLECTIVE, "linear"}
    if searcher in REFLECTIVE and protocol != reflection.PROTOCOL:
        raise UserError(f"searcher {searcher}: needs protocol: reflection, not {protocol}")
    if protocol == reflection.PROTOCOL and searcher not in able:
        raise UserError(f"protocol reflection: searcher must be one of {', '.join(sorted(able))}, got {searcher}")


def _value(search: SearchConfig, value: ValueConfig) -> tuple[str, ValueConfig]:
    """The value to load: none for a searcher that never asks for one."""
    if search.searcher not in VALUED:
        return "constant", value
    if value.value_model and value.value_backend != "openai":
        value = replace(value, value_model=models.prepare_model(value.value_model))
    return value.value, value


def _settings(*configs: Any) -> dict[str, Any]:
    """All that decides what comes out."""
    return {key: value for config in configs for key, value in asdict(config).items() if key not in ELSEWHERE}


if __name__ == "__main__":
    session.run(main)
