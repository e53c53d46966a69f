"""Which token sequences are read together: groups that begin alike, and batches of groups that fit in a pass."""

from collections.abc import Sequence
from dataclasses import dataclass

Tokens = tuple[int, ...]
WORTH = 8  # tokens that a shared prefix must save, or a pass of its own costs more


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences that share their first ``shared`` + 1 tokens (at least).

    The prefix has one token less than they share: the last common one is read again by every sequence, since what
    follows it differs.
    """

    sequences: tuple[Tokens, ...]
    shared: int = 0

    @property
    def prefix(self) -> Tokens:
        return self.sequences[0][: self.shared]

    @property
    def prefix_following(self) -> Tokens:
        """The token after each of the prefix's."""
        return self.sequences[0][1 : self.shared + 1]

    @property
    def longest(self) -> int:
        return max(map(len, self.sequences))


def share_prefixes(sequences: Sequence[Tokens], share: bool = True) -> list[Group]:
    """Distinct sequences in groups, so that as few tokens as can be are read; each a group of its own unless ``share``.

    Sorted, sequences that begin alike are neighbours, so a group is a run of them; the runs that save most are found
    by dynamic programming (n sequences take n^2 steps, and a frontier has some hundred).

    >>> [(len(group.sequences), group.shared) for group in share_prefixes([(1,) * 20 + (2,), (1,) * 20 + (3,), (4, 5)])]
    [(2, 19), (1, 0)]
    """
    ordered = sorted(sequences)
    if not share:
        return [Group((sequence,)) for sequence in ordered]
    common = [_common(a, b) for a, b in zip(ordered, ordered[1:], strict=False)]
    best = [0] * (len(ordered) + 1)  # tokens saved among the first i sequences
    cut = list(range(-1, len(ordered)))  # where the last group of those begins
    for end in range(1, len(ordered) + 1):
        best[end], cut[end] = best[end - 1], end - 1
        shortest = len(ordered[end - 1])
        for begin in range(end - 2, -1, -1):
            shortest = min(shortest, common[begin])
            if shortest <= WORTH:
                break
            saved = best[begin] + (end - begin - 1) * (shortest - 1)
            if saved > best[end]:
                best[end], cut[end] = saved, begin
    groups = []
    end = len(ordered)
    while end:
        begin = cut[end]
        shared = min(common[begin : end - 1], default=1) - 1
        groups.append(Group(tuple(ordered[begin:end]), shared))
        end = begin
    return groups[::-1]


def batches(groups: Sequence[Group], tokens: int) -> list[list[Group]]:
    """Groups of like length together, so many that their sequences have at most ``tokens`` tokens (or one group)."""
    found: list[list[Group]] = []
    for group in sorted(groups, key=lambda group: group.longest):
        rows = len(group.sequences) + (sum(len(g.sequences) for g in found[-1]) if found else 0)
        if found and rows * group.longest <= tokens:
            found[-1].append(group)
        else:
            found.append([group])
    return found


def _common(a: Tokens, b: Tokens) -> int:
    """How many tokens two sequences begin with alike, short of the whole of either: each keeps one to be scored."""
    most = min(len(a), len(b)) - 1
    return next((i for i in range(most) if a[i] != b[i]), most)
