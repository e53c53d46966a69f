"""Which value a search uses, as a config."""

from dataclasses import dataclass, field

from graphwalker.errors import UserError, at_least

VALUES = ("constant", "ig", "ig_proxy", "cot", "logic_form", "f1")
BACKENDS = ("auto", "transformers", "vllm", "server", "openai")


@dataclass
class ValueConfig:
    """The value of a state in a search (MCTS-KBQA, section 3.3)."""

    value: str = field(
        default="ig",
        metadata={
            "help": "constant, ig (Eq. 5), ig_proxy (Eq. 10), cot (a prompted model's score), logic_form (Eq. 13), or "
            "f1 (of terminal states against gold: an oracle for measurements, never for results)."
        },
    )
    value_model: str | None = field(
        default=None, metadata={"help": "Folder or hub id of the model behind ig, ig_proxy, cot or logic_form."}
    )
    value_backend: str = field(
        default="auto",
        metadata={
            "help": "transformers, vllm, server (`vllm serve` at value_url), auto, or for cot also openai (any "
            "OpenAI-compatible server at value_url, which calls the model value_model)."
        },
    )
    value_url: str | None = field(default=None, metadata={"help": "Where the backend server or openai answers."})
    value_dtype: str = field(default="auto", metadata={"help": "Type of the weights: auto, float32, bfloat16, …"})
    value_length: int = field(default=4096, metadata={"help": "Tokens the model reads of a state."})
    value_pass_tokens: int = field(
        default=4096, metadata={"help": "transformers: tokens of a forward pass, padding included."}
    )
    value_memory: float = field(
        default=0.4, metadata={"help": "vllm: the share of the device's memory that the value model may take."}
    )
    value_alpha: float = field(default=2.0, metadata={"help": "alpha of Eq. 5; the highest value of ig and cot."})
    value_beta: float = field(default=10.0, metadata={"help": "beta of Eq. 5."})
    value_constant: float = field(default=1.0, metadata={"help": "The value of every state under constant."})
    value_rows: int = field(default=16, metadata={"help": "cot: states judged at a time."})
    value_reply_tokens: int = field(default=512, metadata={"help": "cot: tokens of a judgement."})
    value_cache: str | None = field(
        default=None, metadata={"help": "cot with openai: an SQLite file that keeps the replies from run to run."}
    )

    def __post_init__(self) -> None:
        if self.value not in VALUES:
            raise UserError(f"value: expected one of {', '.join(VALUES)}, got {self.value!r}")
        if self.value_backend not in BACKENDS:
            raise UserError(f"value_backend: expected one of {', '.join(BACKENDS)}, got {self.value_backend!r}")
        at_least(self, value_length=2, value_pass_tokens=1, value_memory=0, value_alpha=0, value_beta=0)
        at_least(self, value_constant=0, value_rows=1, value_reply_tokens=1)
