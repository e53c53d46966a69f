"""Which of an entity's relations are candidates: the retriever of ArG (Algorithms 1 and 2), by words or by meaning.

A retriever ranks relations for one query. Candidates for several queries (the question, and the relation that the model
expects next) are the best of each in turn, so that each brings in what it alone finds.
"""

import re
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from graphwalker.tools.ranking import by_words

Floats = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Floats]
"""Vectors of length 1 for texts: (N, C)."""
_PARTS = re.compile(r"[\W_]+")


class Ranking(Protocol):
    def rank(self, query: str, relations: Sequence[str]) -> list[str]:
        """The relations, best first; deterministic. A relation may have ``^`` before it, which says nothing here."""
        ...


class Retriever(Ranking, Protocol):
    def scores(self, query: str, relations: Sequence[str]) -> Floats:
        """How near each relation, or pattern of several, is to the query, the nearer the higher: (N,)."""
        ...


class BM25Retriever:
    """By the words that a query and a relation's name share, among the relations given; spelling breaks ties."""

    def scores(self, query: str, relations: Sequence[str]) -> Floats:
        return by_words(query, [relation.lstrip("^") for relation in relations])

    def rank(self, query: str, relations: Sequence[str]) -> list[str]:
        return _sorted(relations, self.scores(query, relations))


class DenseRetriever:
    """By the cosine of sentence embeddings: an exact search, a product with the matrix of the vectors.

    A text is embedded once; ``embed`` may keep vectors from run to run (`graphwalker.inference.embeddings`).
    """

    def __init__(self, embed: Embed):
        self.embed = embed

    def scores(self, query: str, relations: Sequence[str]) -> Floats:
        if not relations:
            return np.zeros(0, np.float32)
        vectors = self.embed([query if " " in query else words(query), *map(words, relations)])
        return vectors[1:] @ vectors[0]

    def rank(self, query: str, relations: Sequence[str]) -> list[str]:
        return _sorted(relations, self.scores(query, relations))


def words(relation: str) -> str:
    """A relation's name as words, which sentence embeddings know better.

    >>> words("^people.person.place_of_birth")
    'people person place of birth'
    """
    return _PARTS.sub(" ", relation).strip()


def candidates(retriever: Ranking, queries: Sequence[str], relations: Sequence[str], k: int) -> list[str]:
    """The ``k`` best relations for all queries together: the best of each query in turn, each relation once.

    >>> candidates(BM25Retriever(), ["born in", "location.capital"], ["people.born", "location.capital", "a.b"], 2)
    ['people.born', 'location.capital']
    """
    rankings = [retriever.rank(query, relations) for query in queries]
    return list(dict.fromkeys(relation for row in zip(*rankings, strict=True) for relation in row))[:k]


def _sorted(relations: Sequence[str], scores: np.ndarray) -> list[str]:
    return [relation for _, relation in sorted(zip((-scores).tolist(), relations, strict=True))]
