"""SearchTypes: the classes of a graph whose names look like a meaning (GrailQA)."""

from collections.abc import Sequence
from functools import cached_property

from rapidfuzz import fuzz, process

from graphwalker.kg.sparql_store import SparqlStore
from graphwalker.kg.sparql_text import any_of
from graphwalker.tools.ranking import bm25

_NEAR = 60.0  # of 100; below it two spellings have little in common
_KEPT = 50


class TypeSearch:
    """Search over the types of one store.

    Types are those that its schema's predicates give; of a remote graph, where to list them would read it all, what
    its relations begin with (``people.person`` of ``people.person.place_of_birth``).
    """

    def __init__(self, store: SparqlStore):
        self._store = store

    def search(self, meaning: str) -> list[str]:
        """The ids of classes, best first: by shared words, then by spelling, then by name."""
        types = self.types
        scores = list(bm25(meaning, types)) if types else []
        by_word = sorted((-float(score), name) for score, name in zip(scores, types, strict=True) if score > 0)
        last = [name.rpartition(".")[2].replace("_", " ") for name in types]
        near = process.extract(meaning, last, scorer=fuzz.WRatio, limit=_KEPT, score_cutoff=_NEAR)
        by_spelling = sorted((-score, types[place]) for _, score, place in near)
        return list(dict.fromkeys(name for _, name in (*by_word, *by_spelling)))[:_KEPT]

    @cached_property
    def types(self) -> Sequence[str]:
        """The ids of all classes, sorted."""
        predicates = self._store.schema.type_predicates
        if self._store.remote or not predicates:
            return sorted({relation.rpartition(".")[0] for relation in self._store.vocabulary()} - {""})
        patterns = any_of(f"?x {self._store.queries.term(predicate)} ?t" for predicate in predicates)
        rows = self._store.rows(f"SELECT DISTINCT ?t {{ {patterns} }}")
        return sorted({row["t"] for row in rows if not row["t"].startswith('"')})
