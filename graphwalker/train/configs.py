"""The recipes' own settings, beside TRL's ``ModelConfig``, ``SFTConfig`` and ``GRPOConfig``."""

from dataclasses import dataclass, field

from graphwalker.errors import at_least


@dataclass
class TinyConfig:
    """The built-in models: where they are made, and the size of the tiny ones."""

    model_cache: str = field(default="data/models", metadata={"help": "Folder where built-in models are made."})
    tiny_width: int = field(default=128, metadata={"help": "Hidden size."})
    tiny_heads: int = field(
        default=4,
        metadata={
            "help": "Query heads of an attention layer, each of size 64 (of tiny-qwen2: tiny_width / tiny_heads)."
        },
    )
    tiny_layers: int = field(default=4, metadata={"help": "Number of layers."})
    tiny_vocabulary: int = field(default=1024, metadata={"help": "Number of tokens."})

    def __post_init__(self) -> None:
        at_least(self, tiny_width=1, tiny_heads=1, tiny_layers=1, tiny_vocabulary=300)  # bytes, and the special tokens


@dataclass
class TrajectoryData:
    """What SFT trains on."""

    trajectories: str = field(metadata={"help": "JSONL of trajectories."})
    max_trajectories: int | None = field(default=None, metadata={"help": "Use only the first so many."})
    train_detours: bool = field(
        default=False, metadata={"help": "Train also the turns in which an expert's trajectory goes astray."}
    )
    tokenizer_texts: str | None = field(
        default=None,
        metadata={"help": "JSONL of trajectories that a tiny model's tokenizer is trained on (default: the same)."},
    )
    demo_data: str | None = field(
        default=None, metadata={"help": "Folder in which the demo data is made first, if it is not there yet."}
    )

    def __post_init__(self) -> None:
        at_least(self, max_trajectories=1)


@dataclass
class QuestionData:
    """What GRPO trains on."""

    questions: str = field(metadata={"help": "JSONL of questions."})
    max_questions: int | None = field(default=None, metadata={"help": "Use only the first so many."})
    demo_data: str | None = field(
        default=None, metadata={"help": "Folder in which the demo data is made first, if it is not there yet."}
    )

    def __post_init__(self) -> None:
        at_least(self, max_questions=1)


@dataclass
class RewardConfig:
    """The reward: a weighted sum of named rewards (``graphwalker.rewards.REWARDS``); weights are ``reward_weights``."""

    rewards: list[str] = field(default_factory=lambda: ["em"], metadata={"help": "Names of rewards."})
