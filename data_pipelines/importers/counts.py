"""What an import kept, dropped and noticed, each with the place where it was first seen."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Counts:
    """Running counts of one import. ``dropped`` and ``notes`` map a reason, in plain words, to how often it was met."""

    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def drop(self, reason: str, where: str) -> None:
        """Count a question that is left out; of each reason the first ``where`` (``path:line``) is kept."""
        self.dropped[reason] += 1
        self.examples.setdefault(reason, where)

    def note(self, reason: str, where: str) -> None:
        """Count something worth knowing about a question that is kept."""
        self.notes[reason] += 1
        self.examples.setdefault(reason, where)

    def add(self, other: "Counts") -> None:
        """Take another's counts in, which come after these."""
        self.kept += other.kept
        self.dropped.update(other.dropped)
        self.notes.update(other.notes)
        self.examples = {**other.examples, **self.examples}

    @property
    def read(self) -> int:
        return self.kept + sum(self.dropped.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "read": self.read,
            "kept": self.kept,
            "dropped": dict(self.dropped.most_common()),
            "notes": dict(self.notes.most_common()),
            "first_example": self.examples,
        }

    def lines(self) -> list[str]:
        """The counts as lines for the console."""
        out = [f"read {self.read:,}, kept {self.kept:,}, dropped {sum(self.dropped.values()):,}"]
        for title, counter in (("dropped", self.dropped), ("note", self.notes)):
            out += [
                f"  {title} {n:,}: {reason} (first: {self.examples[reason]})" for reason, n in counter.most_common()
            ]
        return out
