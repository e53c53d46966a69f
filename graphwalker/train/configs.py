"""The recipes' own settings, beside TRL's ``ModelConfig``, ``SFTConfig`` and ``GRPOConfig``."""

from dataclasses import dataclass, field
from typing import Literal

from graphwalker.episode_rewards import EPISODE_REWARDS
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
