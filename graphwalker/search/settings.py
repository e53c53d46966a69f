"""How a search runs, with the paper's values (MCTS-KBQA, section 4.3)."""

from dataclasses import dataclass, field

from graphwalker.errors import at_least
from graphwalker.search.arg_settings import ArgSettings


@dataclass
class SearchConfig(ArgSettings):
    """Settings of a tree search; each searcher reads those that concern it."""

    searcher: str = field(
        default="fast_mcts",
        metadata={
            "help": "linear, majority_vote, bfs, dfs, random_walk, ig_beam, classic_mcts, fast_mcts, "
            "fast_mcts_constant, arg_beam, or arg_exhaustive."
        },
    )
    width: int = field(default=5, metadata={"help": "n, turns sampled from a state that is expanded."})
    search_temperature: float = field(default=0.7, metadata={"help": "Temperature of the turns; 0 is greedy."})
    gamma: float = field(default=0.1, metadata={"help": "Decay of Eq. 4 a level below expected_depth."})
    expected_depth: int = field(default=7, metadata={"help": "d_exp of Eq. 4, the depth from which rewards decay."})
    valid_terminals: int = field(
        default=5, metadata={"help": "k, terminals with an executable, non-empty answer after which a search ends."}
    )
    simulations: int = field(
        default=50,
        metadata={"help": "B, non-terminal children that are evaluated: rolled out, or scored in Fast MCTS."},
    )
    selections: int = field(
        default=12, metadata={"help": "T, states that are selected and expanded, one after another."}
    )
    max_depth: int = field(
        default=15,
        metadata={
            "help": "Depth at which a state is terminal. The paper gives none; ours is twice d_exp and one, where "
            "Eq. 4 still pays a fifth. An environment's own max_turns may end it sooner."
        },
    )
    merge_equal: bool = field(
        default=False, metadata={"help": "Make one child of equal samples, which backs up once for each."}
    )
    beam_width: int = field(
        default=3, metadata={"help": "B, states that arg_beam keeps at each hop, and ig_beam at each depth (ours)."}
    )
    runs: int = field(default=5, metadata={"help": "Linear runs of majority_vote."})
    constant_reward: float = field(default=1.0, metadata={"help": "The reward of every child in fast_mcts_constant."})
    max_actor_calls: int | None = field(
        default=None, metadata={"help": "Turns a question's search may sample (default: no limit)."}
    )
    max_tokens: int | None = field(
        default=None, metadata={"help": "Tokens the model may generate for a question; checked before each request."}
    )
    max_seconds: float | None = field(
        default=None,
        metadata={
            "help": "Seconds of work for a question: its shares of the model's passes, and its environment's steps; "
            "checked before each request."
        },
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, width=1, search_temperature=0, gamma=0, expected_depth=0, valid_terminals=1, simulations=1)
        at_least(self, selections=1, max_depth=1, beam_width=1, runs=1, constant_reward=0)
        at_least(self, max_actor_calls=1, max_tokens=1, max_seconds=0)
