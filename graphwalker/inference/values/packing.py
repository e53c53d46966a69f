"""Token sequences packed into one row as a tree: what several begin with stands there, and is read, once."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

Tokens = tuple[int, ...]
Span = tuple[int, int]  # [begin, end) of a packed row


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a sequence of two tokens or more stands in a packed row: all but its last token, which is only predicted.

    ``shared`` are the spans of what it has in common with the sequences before it, in order, and ``own`` the rest,
    which may be empty.
    """

    sequence: Tokens
    shared: tuple[Span, ...]
    own: Span

    @property
    def depth(self) -> int:
        """How many tokens it shares."""
        return len(self.sequence) - 1 - (self.own[1] - self.own[0])

    @property
    def new(self) -> Tokens:
        """The tokens of ``own``."""
        return self.sequence[self.depth : -1]

    @property
    def targets(self) -> Tokens:
        """The tokens that are predicted here: from the first that is not shared on."""
        return self.sequence[max(1, self.depth) :]

    @property
    def predicting(self) -> list[int]:
        """The place of the row that predicts each of ``targets``."""
        return [*([self.shared[-1][1] - 1] if self.shared else ()), *range(*self.own)]


def pack(sequences: Iterable[Tokens], tokens: int) -> Iterator[list[Branch]]:
    """Distinct sequences as rows of at most ``tokens`` tokens (or of one sequence), those that begin alike together.

    >>> [[(b.shared, b.own) for b in row] for row in pack([(1, 2, 3, 4), (1, 2, 5, 6), (7, 8)], 6)]
    [[((), (0, 3)), (((0, 2),), (3, 4)), ((), (4, 5))]]
    """
    row: list[Branch] = []
    for sequence in sorted(sequences):
        shared = _shared(row[-1], sequence) if row else ()
        begin = row[-1].own[1] if row else 0
        new = len(sequence) - 1 - _length(shared)
        if row and begin + new > tokens:
            yield row
            row, shared, begin, new = [], (), 0, len(sequence) - 1
        row.append(Branch(sequence, shared, (begin, begin + new)))
    if row:
        yield row


def _shared(before: Branch, sequence: Tokens) -> tuple[Span, ...]:
    """The spans of what a sequence has in common with the one before it, in sorted order its nearest relative."""
    left = min(_common(before.sequence, sequence), len(before.sequence) - 1, len(sequence) - 1)
    spans = []
    for begin, end in (*before.shared, before.own):
        end = min(end, begin + left)
        left -= end - begin
        if begin < end:
            spans.append((begin, end))
    return tuple(spans)


def _length(spans: Iterable[Span]) -> int:
    return sum(end - begin for begin, end in spans)


def _common(a: Tokens, b: Tokens) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
