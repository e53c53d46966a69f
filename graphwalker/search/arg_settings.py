"""How ArG's tree is searched and scored, with the paper's values (ArG, section 5.3 and appendix E)."""

from dataclasses import dataclass, field

from graphwalker.errors import UserError, at_least

SCORES = ("relevance", "rationality", "utility", "sequence")
"""The parts of Eq. 5, as Table 3 names them."""
UTILITIES = ("weighted", "printed")
ANSWERS = ("path", "best")
PATHS = ("sum", "mean")


@dataclass(kw_only=True)
class ArgSettings:
    """What concerns the searchers arg_beam and arg_exhaustive."""

    arg_depth: int = field(default=2, metadata={"help": "Hops of a path: 2 for WebQSP, 4 for CWQ (section 5.3)."})
    arg_relations: int = field(default=5, metadata={"help": "K, relations retrieved at a state."})
    arg_hypothesis: bool = field(
        default=True, metadata={"help": "Retrieve by the relation that the model expects next (the hypo-generator)."}
    )
    arg_query: bool = field(default=True, metadata={"help": "Retrieve by the question itself (the naive retriever)."})
    arg_entities: int = field(
        default=50, metadata={"help": "Entities of a relation that are judged; of a hub the first by name (ours)."}
    )
    arg_states: int = field(
        default=100, metadata={"help": "States that arg_exhaustive goes on from at a hop at most, best first (ours)."}
    )
    arg_k1: float = field(default=1.0, metadata={"help": "k1 of Eq. 5, the weight of relevance times rationality."})
    arg_k2: float = field(default=0.5, metadata={"help": "k2 of Eq. 5, the weight of the utility."})
    arg_scores: list[str] = field(
        default_factory=lambda: list(SCORES),
        metadata={"help": "Parts of Eq. 5 that count (Table 3): relevance, rationality, utility, sequence."},
    )
    arg_utility: str = field(
        default="weighted",
        metadata={"help": "weighted: 1 to 5 count -1 to 1; printed: Eq. 6 as it stands, which is always 1."},
    )
    arg_path: str = field(
        default="sum",
        metadata={"help": "A path's score: the sum of its hops', which favours long paths, or their mean (ours)."},
    )
    arg_answers: str = field(
        default="path",
        metadata={"help": "path: the best leaf's answer and those of its relation path's other ends; best: its alone."},
    )

    def __post_init__(self) -> None:
        at_least(self, arg_depth=1, arg_relations=1, arg_entities=1, arg_states=1, arg_k1=0, arg_k2=0)
        if unknown := sorted(set(self.arg_scores) - set(SCORES)):
            raise UserError(f"arg_scores: expected some of {', '.join(SCORES)}, got {unknown[0]!r}")
        if not self.arg_scores:
            raise UserError("arg_scores: name at least one score, or nothing tells paths apart")
        if not (self.arg_hypothesis or self.arg_query):
            raise UserError("arg_hypothesis and arg_query: at least one of them must be true, or nothing is retrieved")
        for name, known in (("arg_utility", UTILITIES), ("arg_path", PATHS), ("arg_answers", ANSWERS)):
            if getattr(self, name) not in known:
                raise UserError(f"{name}: expected one of {', '.join(known)}, got {getattr(self, name)!r}")
