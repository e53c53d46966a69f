"""How an evaluation decodes, as a config."""

from dataclasses import dataclass, field

from graphwalker.errors import at_least


@dataclass
class EvaluationConfig:
    """The evaluations that follow a training stage, or one of ``graphwalker eval``."""

    eval_questions: dict[str, str] = field(
        default_factory=dict, metadata={"help": "JSONL of questions for each split; a name holds no hyphen."}
    )
    eval_max_questions: int | None = field(default=None, metadata={"help": "Use only the first so many of a split."})
    eval_samples: int = field(
        default=8, metadata={"help": "Sampled episodes a question, beside one greedy; 0 for none."}
    )
    eval_sampled_splits: list[str] | None = field(
        default=None, metadata={"help": "Splits that are sampled as well as decoded greedily (default: all)."}
    )
    eval_temperature: float = field(default=1.0, metadata={"help": "Temperature of the sampled episodes."})
    eval_rows: int = field(default=64, metadata={"help": "Episodes decoded at a time."})
    eval_turn_tokens: int = field(default=512, metadata={"help": "Tokens a turn may take."})
    eval_episode_tokens: int = field(default=4096, metadata={"help": "Tokens an episode may take."})
    eval_backend: str = field(default="auto", metadata={"help": "transformers, vllm, or auto."})

    def __post_init__(self) -> None:
        at_least(self, eval_max_questions=1, eval_samples=0, eval_temperature=0, eval_rows=1)
        at_least(self, eval_turn_tokens=1, eval_episode_tokens=1)
