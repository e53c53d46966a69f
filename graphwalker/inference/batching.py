"""Rows of many lengths in few passes with little padding."""

from collections.abc import Sequence

SMALL_PASS_TOKENS = 1024  # below this, padding costs a decoding engine less than another pass


def like_lengths(lengths: Sequence[int], tokens: int, small: int = SMALL_PASS_TOKENS) -> list[list[int]]:
    """The rows of each pass, by their places: of like lengths where there are many tokens, so that little is padding.

    A pass has at most ``tokens`` tokens, padding included, or one row; up to ``small`` tokens it takes rows of any
    length.

    >>> like_lengths([3, 900, 2, 1000, 4000], 4096)
    [[2, 0], [1, 3], [4]]
    """
    groups: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        shortest = lengths[groups[-1][0]] if groups else 0
        padded = lengths[i] * (len(groups[-1]) + 1) if groups else 0
        if groups and padded <= (tokens if lengths[i] <= 1.5 * shortest else min(tokens, small)):
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups
