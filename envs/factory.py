"""Environments from a config: one KG, one toolbox and one prompt, shared by all episodes of a process."""

from collections.abc import Callable
from dataclasses import dataclass, field

from envs.kg_env import KGEnv
from graphwalker.errors import at_least
from graphwalker.kg.open import open_kg
from graphwalker.protocol.prompts import Prompt
from graphwalker.tools.rerank import LLMReranker
from graphwalker.tools.toolbox import Toolbox


@dataclass
class EnvConfig:
    """The environment of an agent: the same in data synthesis, training and evaluation."""

    kg: str = field(default="data/demo/kg", metadata={"help": "Folder of a KG built by `graphwalker kg build`."})
    prompt: str = field(
        default="graphwalker", metadata={"help": "Prompt template: graphwalker, compact, or a .jinja file."}
    )
    relations_shown: int = field(
        default=20, metadata={"help": "Relations that get_relations shows (paper, appendix E.2)."}
    )
    triples_per_relation: int = field(default=5, metadata={"help": "Triples that get_triples shows a relation."})
    max_relations: int = field(default=4, metadata={"help": "Relations of one get_triples call that are run."})
    strict_relations: bool = field(
        default=True, metadata={"help": "Refuse relations that no get_relations of the entity has shown."}
    )
    rerank_url: str | None = field(
        default=None,
        metadata={
            "help": "Rerank relations by the language model of an OpenAI-compatible server at this address, such as "
            "http://localhost:8000/v1, and show the `relations_shown` best (paper, appendix E.2; default: BM25 alone)."
        },
    )
    rerank_model: str = field(default="", metadata={"help": "The server's name for the model that reranks."})
    rerank_candidates: int = field(default=100, metadata={"help": "BM25's best relations that the model chooses from."})
    rerank_cache: str = field(
        default="data/rerank.sqlite", metadata={"help": "File that keeps the model's replies from run to run."}
    )
    max_turns: int = field(default=10, metadata={"help": "T, the turns of an episode (paper, section 3.1)."})
    max_errors: int | None = field(
        default=None,
        metadata={"help": "End an episode after so many erroneous turns in a row (default: only `max_turns` ends it)."},
    )

    def __post_init__(self) -> None:
        at_least(self, relations_shown=1, triples_per_relation=1, max_relations=1, max_errors=1)
        at_least(self, max_turns=2)  # one query and the answer


def env_factory(config: EnvConfig) -> Callable[[], KGEnv]:
    """A function that makes a fresh environment; raises ``UserError`` when the KG cannot be opened."""
    toolbox = Toolbox(
        open_kg(config.kg),
        top_k=config.relations_shown,
        triples_per_relation=config.triples_per_relation,
        max_relations=config.max_relations,
        strict=config.strict_relations,
        reranker=_reranker(config),
    )
    prompt = Prompt(config.prompt, max_turns=config.max_turns, max_relations=config.max_relations)
    return lambda: KGEnv(toolbox, prompt=prompt, max_turns=config.max_turns, max_errors=config.max_errors)


def _reranker(config: EnvConfig) -> LLMReranker | None:
    if not config.rerank_url:
        return None
    return LLMReranker(
        config.rerank_url,
        config.rerank_model,
        keep=config.relations_shown,
        candidates=config.rerank_candidates,
        cache=config.rerank_cache or None,
    )
