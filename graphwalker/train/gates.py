"""Gates of a curriculum: what a stage's evaluation must reach before the next stage starts."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from graphwalker.errors import UserError, at_least
from graphwalker.metrics.trajectory import METRICS, REWARDS
from graphwalker.train.config_values import check_types

ELSE = ("stop", "repeat", "skip")


@dataclass(frozen=True)
class Gate:
    """``metric`` on ``split``, decoded as ``decoding``, must be ``at_least`` so much.

    ``otherwise``: ``stop`` ends the run there; ``repeat`` trains the stage again from where it ended, ``repeats`` times
    at most, and then stops; ``skip`` leaves the stage out, so that the next starts from what this one started from.
    """

    split: str
    at_least: float
    metric: str = "em_set"
    decoding: str = "greedy"
    otherwise: str = "stop"
    repeats: int = 1

    @property
    def rounds(self) -> int:
        """How often the stage is trained at most."""
        return 1 + self.repeats if self.otherwise == "repeat" else 1

    def passed(self, value: float | None) -> bool:
        """Whether a metric's value opens the gate; one that no episode defines does not."""
        return value is not None and value >= self.at_least

    def said(self, stage: str, value: float | None) -> str:
        """The line that says how it went."""
        shown = "not defined" if value is None else f"{value:.3f}"
        sign = ">=" if self.passed(value) else "<"
        return f"Gate of {stage}: {self.metric} on {self.split} ({self.decoding}) is {shown} {sign} {self.at_least}"


def read_gate(stage: str, given: Any) -> Gate:
    """The gate of a stage's config; raises ``UserError`` for a mistake in it."""
    where = f"stage {stage}: gate"
    known = {field.name for field in fields(Gate)}
    if not isinstance(given, dict) or not {"split", "at_least"} <= given.keys() <= known:
        raise UserError(f"{where}: expected a mapping with split, at_least and any of {', '.join(sorted(known))}")
    check_types(where, given, [Gate])
    gate = Gate(**given)
    for key, value, choices in (("metric", gate.metric, METRICS), ("otherwise", gate.otherwise, ELSE)):
        if value not in choices:
            raise UserError(f"{where}: {key}: {value!r} is not one of {', '.join(choices)}")
    try:
        at_least(gate, at_least=-1e9, repeats=1)
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    if gate.metric in REWARDS and gate.at_least > 1:
        raise UserError(f"{where}: at_least: {gate.metric} is 1 at most, got {gate.at_least}")
    return gate


def check_gate(stage: str, gate: Gate, evaluated: bool, decodings: Mapping[str, Collection[str]]) -> None:
    """Raise ``UserError`` for a gate that looks at what is not evaluated; ``decodings`` are those of each split."""
    if not evaluated:
        raise UserError(f"stage {stage}: a gate needs the stage's evaluation; take out `evaluate: false`")
    if gate.decoding not in decodings.get(gate.split, ()):
        there = ", ".join(f"{split} ({decoding})" for split, of in decodings.items() for decoding in of) or "none"
        raise UserError(
            f"stage {stage}: gate: there is no evaluation on {gate.split} ({gate.decoding}); there are: {there}"
        )
