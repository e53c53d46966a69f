"""Which of an entity's relations look like the question: BM25 over the names of relations (appendix F.2)."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

import bm25s
import numpy as np
from rapidfuzz import fuzz

_WORD = re.compile(r"[^\W\d_]+|\d+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Words that a question has for its grammar; a relation's name seldom has them, and never for their meaning.
_STOP = frozenset(
    [
        "a", "an", "and", "are", "as", "at", "be", "by", "did", "do", "does", "for", "from",
        "had", "has", "have", "how", "in", "is", "it", "its", "of", "on", "or", "s", "that",
        "the", "their", "they", "this", "to", "was", "were", "what", "when", "where", "which", "who", "whom",
        "whose", "why", "will", "with",
    ]
)  # fmt: skip


def tokens(text: str) -> list[str]:
    """The terms of a question or of a relation: split at anything but letters and digits and inside camelCase,
    lower-cased, without stop words, plurals and verb endings folded (`stem`).

    >>> tokens("location.country.languages_spoken"), tokens("What language do they speak?")
    (['location', 'countri', 'languag', 'spoken'], ['languag', 'speak'])
    """
    words = [word.lower() for word in _WORD.findall(_CAMEL.sub(" ", text))]
    return [stem(word) for word in words if word not in _STOP]


def stem(word: str) -> str:
    """A light stem: ``cities, city -> citi``; ``languages, language -> languag``; ``directed, directs -> direct``.

    Endings go only where three letters stay. The result need not be a word; it only has to be the same for both.
    """
    for ending in ("ings", "ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith(("ss", "us", "is")):
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] in "ey":
        word = word[:-1] + ("i" if word[-1] == "y" else "")
    return word


class RelationRanker:
    """BM25 of a question against every relation of a graph; an entity's relations are then sorted by it.

    `vocabulary` holds all relations (``KGStore.vocabulary()``). Scores do not depend on the entity, so one vector per
    question serves the whole episode; the vectors of the last `cache_size` questions are kept.
    """

    def __init__(self, vocabulary: Sequence[str], cache_size: int = 256):
        self._place = {relation: place for place, relation in enumerate(vocabulary)}
        self._index: bm25s.BM25 | None = None
        documents = [tokens(relation) for relation in vocabulary]
        if any(documents):
            self._index = bm25s.BM25()
            self._index.index(documents, show_progress=False)
        self._scores = lru_cache(maxsize=cache_size)(self._score)

    def scores(self, question: str) -> np.ndarray:
        """The score of every relation, in the vocabulary's order: shape (V,), float32, 0 where no term is shared."""
        return self._scores(question)

    def rank(self, question: str, relations: Iterable[str]) -> list[str]:
        """The relations sorted by (-score, name); one that is not in the vocabulary scores 0."""
        scores, place = self._scores(question), self._place
        keyed = [(-float(scores[place[r]]) if r in place else 0.0, r) for r in relations]
        return [relation for _, relation in sorted(keyed)]

    def _score(self, question: str) -> np.ndarray:
        if self._index is None:
            return np.zeros(len(self._place), dtype=np.float32)
        known = [term for term in dict.fromkeys(tokens(question)) if term in self._index.vocab_dict]
        if not known:
            return np.zeros(len(self._place), dtype=np.float32)
        return self._index.get_scores(known)


def bm25(query: str, texts: Sequence[str]) -> np.ndarray:
    """The score of each text for a query, among these texts alone: shape (N,), float32, 0 where no term is shared."""
    documents = [tokens(text) for text in texts]
    index = bm25s.BM25()
    if any(documents):
        index.index(documents, show_progress=False)
        known = [term for term in dict.fromkeys(tokens(query)) if term in index.vocab_dict]
        if known:
            return index.get_scores(known)
    return np.zeros(len(documents), dtype=np.float32)


def by_words(query: str, texts: Sequence[str]) -> np.ndarray:
    """`bm25`, with what is spelt alike to tell equal scores apart: shape (N,)."""
    words = " ".join(tokens(query))
    alike = [fuzz.partial_token_ratio(words, " ".join(tokens(text))) for text in texts]
    return bm25(query, texts) + np.asarray(alike, dtype=np.float32) * 1e-4
