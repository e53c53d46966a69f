"""Where a question names an entity, and what it says beside its entities.

Both read the question's words alone; of the gold they take only which entity is looked for.
"""

import re
from collections.abc import Iterable, Sequence

from rapidfuzz import fuzz

from graphwalker.kg.search_index import fold_accents
from graphwalker.tools.ranking import tokens

Span = tuple[int, int]
_WORD = re.compile(r"\w+(?:['’.&-]\w+)*")
_LIKE = 75.0  # of 100: words that are taken for a name spelled otherwise


def find_mention(text: str, names: Sequence[str]) -> Span | None:
    """Where ``text`` has one of the names, the first of them that it has; else the words most like one, or a part of
    one (two words, or its last); None where there are none.

    >>> text = "what character did natalie portman play in star wars?"
    >>> [text[slice(*find_mention(text, [name]))] for name in ("Natalie Portman", "Star Wars Episode I", "Ms Portman")]
    ['natalie portman', 'star wars', 'portman']
    >>> find_mention(text, ["Rome"]) is None
    True
    """
    folded = fold_accents(text)
    if len(folded) == len(text):  # else places differ
        for name in names:
            pattern = rf"(?<!\w){re.escape(fold_accents(name))}(?!\w)"
            if name.strip() and (found := re.search(pattern, folded)):
                return found.span()
    windows = list(_windows(text, max((len(name.split()) for name in names), default=0) + 1))
    scored = [
        (max(fuzz.ratio(fold_accents(text[start:end]), fold_accents(name)) for name in names), start - end, start, end)
        for start, end in windows
    ]
    best = max(scored, default=(0.0, 0, 0, 0))
    if best[0] >= _LIKE:
        return best[2:]
    parts = [(end - start, -start, start, end) for start, end in windows if _is_part(text[start:end], names)]
    return max(parts)[2:] if parts else None


def content_words(text: str, taken: Iterable[Span]) -> str:
    """The words of a question outside of some spans that a relation could be called by, each once; all where none is.

    >>> content_words("what kind of money to take to bahamas?", [(30, 37)])
    'kind money take'
    """
    taken = list(taken)
    words = [
        found[0].removesuffix("'s")
        for found in _WORD.finditer(text)
        if not any(start < found.end() and found.start() < end for start, end in taken)
    ]
    return " ".join(dict.fromkeys([word for word in words if tokens(word)] or words))


def _windows(text: str, most: int) -> Iterable[Span]:
    """Stretches of at most so many words that neither begin nor end with a word of grammar."""
    words = [(found.start(), found.end(), bool(tokens(found[0]))) for found in _WORD.finditer(text)]
    for first, (start, _, begins) in enumerate(words):
        for _, end, ends in words[first : first + most] if begins else ():
            if ends:
                yield start, end


def _is_part(words: str, names: Sequence[str]) -> bool:
    parts = fold_accents(words).split()
    wholes = [_WORD.findall(fold_accents(name)) for name in names]
    return any(
        set(parts) <= set(whole) and (len(parts) > 1 or (len(parts[0]) > 2 and parts[0] == whole[-1]))
        for whole in wholes
        if whole
    )
