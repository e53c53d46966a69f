"""The recipes' own settings, beside TRL's ``ModelConfig``, ``SFTConfig`` and ``GRPOConfig``."""

from dataclasses import dataclass, field
from typing import Literal

from graphwalker.episode_rewards import EPISODE_REWARDS
from graphwalker.errors import UserError, at_least
from graphwalker.protocol.reflection_data import Paragraphs


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
class HardwareConfig:
    """What is asked of the machines before a model is loaded; which there are is the launch file's matter."""

    check_memory: bool = field(
        default=True,
        metadata={"help": "Under DeepSpeed, refuse a model whose weights, gradients and optimizer cannot fit."},
    )


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
        for low, high in (("min_hops", "max_hops"), ("min_difficulty", "max_difficulty")):
            least, most = getattr(self, low), getattr(self, high)
            if least is not None and most is not None and least > most:
                raise UserError(f"{low}: {least} is above {high}: {most}, so no question would be left")
        if self.structures == []:
            raise UserError("structures: an empty list leaves no question; name some, or leave it out for all")
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
class ReflectionData(MixedData):
    """What ArG's generator is trained on."""

    texts: str | None = field(default=None, metadata={"help": "JSONL of paths and their candidates (data arg)."})
    max_texts: int | None = field(default=None, metadata={"help": "Use only the first so many paths."})
    paragraphs: Paragraphs = field(
        default="path",
        metadata={
            "help": "Where what is retrieved is trained too (Eq. 3): on the path, of its relations alone, also of "
            "candidates that are not followed, or nowhere."
        },
    )
    branches: int = field(
        default=0, metadata={"help": "Candidates of a path that are used, drawn by the seed; 0: all of them."}
    )
    tokenizer_texts: str | None = field(
        default=None,
        metadata={"help": "JSONL of paths that a tiny model's tokenizer is trained on (default: the same)."},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, max_texts=1, branches=0)


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
    """The reward: a sum of named rewards (``graphwalker.episode_rewards``), weighted by TRL's ``reward_weights``."""

    rewards: list[str] = field(
        default_factory=lambda: ["em"], metadata={"help": f"Names of rewards: {', '.join(EPISODE_REWARDS)}."}
    )

    def __post_init__(self) -> None:
        unknown = [name for name in self.rewards if name not in EPISODE_REWARDS]
        if unknown:
            raise UserError(f"unknown reward {unknown[0]!r}; one of {', '.join(EPISODE_REWARDS)}")
        if not self.rewards or len(set(self.rewards)) < len(self.rewards):
            raise UserError(f"rewards: name at least one, and each once, got {self.rewards}")


@dataclass
class RolloutConfig:
    """How episodes are decoded during GRPO."""

    rollout_rows: int = field(default=64, metadata={"help": "Episodes decoded at a time on each process."})
    max_turn_tokens: int = field(
        default=512, metadata={"help": "Tokens a turn may take; a longer one is cut and told so."}
    )
    max_episode_tokens: int = field(
        default=4096, metadata={"help": "Tokens an episode may take, prompt and observations included."}
    )
    guided_turns: bool = field(
        default=False, metadata={"help": "Hold every turn to the protocol's form while it is decoded; needs vLLM."}
    )
    dead_groups: Literal["keep", "drop", "refill"] = field(
        default="keep",
        metadata={
            "help": "What becomes of questions whose episodes all fared alike: keep them; drop them from loss and KL; "
            "refill their places with other questions, then drop what is still dead (DAPO's dynamic sampling)."
        },
    )
    max_refills: int = field(default=3, metadata={"help": "How often dead groups are refilled in a step."})

    def __post_init__(self) -> None:
        at_least(self, rollout_rows=1, max_turn_tokens=1, max_episode_tokens=1, max_refills=1)
