"""The recipes' own settings, beside TRL's ``ModelConfig``, ``SFTConfig`` and ``GRPOConfig``."""

from dataclasses import dataclass, field

from graphwalker.errors import UserError, at_least


@dataclass
class TinyConfig:
    """The built-in models: where they are made, and the size of the tiny ones."""

    model_cache: str = field(default="data/models", metadata={"help": "Folder where built-in models are made."})
    tiny_width: int = field(default=128, metadata={"help": "Hidden size."})
    tiny_heads: int = field(default=4, metadata={"help": "Query heads of an attention layer, each of size 64."})
    tiny_layers: int = field(default=4, metadata={"help": "Number of layers."})
    tiny_vocabulary: int = field(default=1024, metadata={"help": "Number of tokens."})

    def __post_init__(self) -> None:
        at_least(self, tiny_width=1, tiny_heads=1, tiny_layers=1, tiny_vocabulary=300)  # bytes, and the special tokens


@dataclass
class DataFilter:
    """Which questions, or trajectories of which questions, are used."""

    min_hops: int | None = field(default=None, metadata={"help": "Leave out questions of fewer hops."})
    max_hops: int | None = field(default=None, metadata={"help": "Leave out questions of more hops."})
    structures: list[str] | None = field(
        default=None, metadata={"help": "Use only questions of these structures, such as 1-hop or 2i."}
    )
    difficulty_from: str | None = field(
        default=None,
        metadata={
            "help": "An evaluation's trajectories.jsonl on these questions; a question's difficulty is 1 - its mean em."
        },
    )
    min_difficulty: float = field(default=0.0, metadata={"help": "Leave out questions that are easier (0 to 1)."})
    max_difficulty: float = field(default=1.0, metadata={"help": "Leave out questions that are harder (0 to 1)."})

    def __post_init__(self) -> None:
        at_least(self, min_hops=0, max_hops=0, min_difficulty=0, max_difficulty=0)
        if self.difficulty_from is None and (self.min_difficulty > 0 or self.max_difficulty < 1):
            raise UserError(
                "min_difficulty and max_difficulty need difficulty_from, an evaluation's trajectories.jsonl"
            )


@dataclass
class MixedData(DataFilter):
    """Training data: one file, or several in shares, each with its filters."""

    mixture: list[dict] = field(
        default_factory=list,
        metadata={
            "help": "Several files instead of one: each with its file, its weight (default: by its size), a limit (use "
            "only the first so many), and filters of its own."
        },
    )
    demo_data: str | None = field(
        default=None, metadata={"help": "Folder in which the demo data is made first, if it is not there yet."}
    )


@dataclass
class TrajectoryData(MixedData):
    """What SFT trains on."""

    trajectories: str | None = field(default=None, metadata={"help": "JSONL of trajectories."})
    max_trajectories: int | None = field(default=None, metadata={"help": "Use only the first so many."})
    train_detours: bool = field(
        default=False, metadata={"help": "Train also the turns in which an expert's trajectory goes astray."}
    )
    tokenizer_texts: str | None = field(
        default=None,
        metadata={"help": "JSONL of trajectories that a tiny model's tokenizer is trained on (default: the same)."},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, max_trajectories=1)


@dataclass
class QuestionData(MixedData):
    """What GRPO trains on."""

    questions: str | None = field(default=None, metadata={"help": "JSONL of questions."})
    max_questions: int | None = field(default=None, metadata={"help": "Use only the first so many."})

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, max_questions=1)


@dataclass
class RewardConfig:
    """The reward: a weighted sum of named rewards (``graphwalker.rewards.REWARDS``); weights are ``reward_weights``."""

    rewards: list[str] = field(default_factory=lambda: ["em"], metadata={"help": "Names of rewards."})
