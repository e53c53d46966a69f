"""Environments from a config: one KG, one toolbox and one prompt, shared by all episodes of a process."""

from collections.abc import Callable
from dataclasses import dataclass, field

from envs.arg_env import ArgEnv
from envs.kbqa_env import KBQAEnv
from envs.kg_env import KGEnv
from graphwalker.errors import UserError, at_least
from graphwalker.kg.guard import QueryLimits
from graphwalker.kg.open import open_kg
from graphwalker.protocol import reflection
from graphwalker.protocol.interactive import PROTOCOL
from graphwalker.protocol.prompts import Prompt
from graphwalker.tools.kbqa.toolbox import TOOL_SETS, KBQALimits, KBQAToolbox
from graphwalker.tools.paths import PathTools
from graphwalker.tools.rerank import LLMReranker
from graphwalker.tools.retriever import BM25Retriever, Retriever
from graphwalker.tools.toolbox import Toolbox


@dataclass
class EnvConfig:
    """The environment of an agent: the same in data synthesis, training and evaluation."""

    kg: str = field(default="data/demo/kg", metadata={"help": "Folder of a KG built by `graphwalker kg build`."})
    prompt: str = field(
        default="graphwalker",
        metadata={
            "help": "Prompt template: graphwalker, compact, or a .jinja file (of the protocol interactive: "
            "interactive_freebase and the like, which `graphwalker` stands for there)."
        },
    )
    protocol: str = field(
        default="graphwalker",
        metadata={
            "help": "graphwalker; interactive: calls of the KBQA tools (MCTS-KBQA, section 3.1); or reflection: paths "
            "with reflection tokens (ArG)."
        },
    )
    tools: str = field(
        default="freebase", metadata={"help": "Of the protocol interactive: freebase, grailqa or kqapro."}
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
    retriever: str = field(
        default="bm25",
        metadata={"help": "reflection, interactive: what ranks relations and graph patterns, bm25 or embeddings."},
    )
    retriever_model: str = field(
        default="minilm",
        metadata={"help": "Sentence embeddings: a folder, a hub id such as BAAI/bge-large-en-v1.5, or minilm."},
    )
    retriever_cache: str = field(
        default="data/embeddings.sqlite", metadata={"help": "File that keeps the embeddings from run to run."}
    )
    names_shown: int = field(default=10, metadata={"help": "interactive: names that SearchNodes shows."})
    patterns_shown: int = field(default=10, metadata={"help": "interactive: patterns that SearchGraphPatterns shows."})
    rows_shown: int = field(
        default=20, metadata={"help": "interactive: rows of a query that are shown; an answer has all of them."}
    )
    query_rows: int = field(default=1000, metadata={"help": "interactive: rows that a query may find, more are cut."})
    query_seconds: float = field(default=10.0, metadata={"help": "interactive: time limit of a query, in seconds."})
    query_memory_mb: int = field(default=2048, metadata={"help": "interactive: memory limit of a query, in MiB."})
    max_turns: int = field(
        default=10,
        metadata={
            "help": "T, the turns of an episode (paper, section 3.1); of the protocol interactive the maximum depth "
            "(its recipes have 15)."
        },
    )
    max_errors: int | None = field(
        default=None,
        metadata={"help": "End an episode after so many erroneous turns in a row (default: only `max_turns` ends it)."},
    )

    def __post_init__(self) -> None:
        at_least(self, relations_shown=1, triples_per_relation=1, max_relations=1, max_errors=1)
        at_least(self, max_turns=2)  # one query and the answer
        at_least(self, names_shown=1, patterns_shown=1, rows_shown=1, query_rows=1, query_seconds=0.01)
        at_least(self, query_memory_mb=1)
        if self.protocol not in (known := ("graphwalker", PROTOCOL, reflection.PROTOCOL)):
            raise UserError(f"protocol: expected one of {', '.join(known)}, got {self.protocol!r}")
        if self.tools not in TOOL_SETS:
            raise UserError(f"tools: expected one of {', '.join(TOOL_SETS)}, got {self.tools!r}")


def env_factory(config: EnvConfig) -> Callable[[], KGEnv]:
    """A function that makes a fresh environment of the protocol graphwalker; raises `UserError` when the KG cannot be
    opened or the protocol is another (`any_env_factory` makes both)."""
    if config.protocol != "graphwalker":
        raise UserError(f"protocol: {config.protocol} is not supported here, only graphwalker")
    toolbox = Toolbox(
        open_kg(config.kg),
        top_k=config.relations_shown,
        triples_per_relation=config.triples_per_relation,
        max_relations=config.max_relations,
        strict=config.strict_relations,
        reranker=_reranker(config),
    )
    prompt = prompt_of(config)
    return lambda: KGEnv(toolbox, prompt=prompt, max_turns=config.max_turns, max_errors=config.max_errors)


def kbqa_env_factory(config: EnvConfig, retriever: Retriever | None = None) -> Callable[[], KBQAEnv]:
    """The same of the protocol interactive; raises `UserError` when the KG cannot be opened or has no SPARQL.

    ``retriever`` ranks graph patterns; it is for one that needs a model (default: BM25).
    """
    toolbox = KBQAToolbox(
        open_kg(config.kg),
        config.kg,
        config.tools,
        limits=KBQALimits(nodes=config.names_shown, patterns=config.patterns_shown, rows=config.rows_shown),
        query_limits=QueryLimits(config.query_rows, config.query_seconds, config.query_memory_mb),
        ranker=_retriever(config, retriever).scores,
        progress=True,
    )
    prompt = prompt_of(config)
    return lambda: KBQAEnv(toolbox, prompt=prompt, max_turns=config.max_turns, max_errors=config.max_errors)


def arg_env_factory(config: EnvConfig, retriever: Retriever | None = None) -> Callable[[], ArgEnv]:
    """The same of the protocol reflection; ``retriever`` is for one that needs a model (default: BM25)."""
    tools = PathTools(open_kg(config.kg), _retriever(config, retriever))
    prompt = prompt_of(config)
    return lambda: ArgEnv(tools, prompt=prompt, max_turns=config.max_turns)


def any_env_factory(
    config: EnvConfig, retriever: Retriever | None = None
) -> Callable[[], KGEnv] | Callable[[], KBQAEnv] | Callable[[], ArgEnv]:
    """A function that makes a fresh environment of the protocol that the config names."""
    if config.protocol == reflection.PROTOCOL:
        return arg_env_factory(config, retriever)
    return kbqa_env_factory(config, retriever) if config.protocol == PROTOCOL else env_factory(config)


def prompt_of(config: EnvConfig) -> Prompt:
    """The prompt that the environments of a config use."""
    template = config.prompt
    if config.protocol == PROTOCOL and template == "graphwalker":
        template = f"interactive_{config.tools}"
    return Prompt(template, max_turns=config.max_turns, max_relations=config.max_relations)


def _retriever(config: EnvConfig, loaded: Retriever | None) -> Retriever:
    """The retriever that was loaded for a config; BM25, which needs no model, need not be."""
    if loaded is None and config.retriever != "bm25":
        raise UserError(f"retriever: {config.retriever} is not supported here, only bm25")
    return loaded or BM25Retriever()


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
