"""Finding entities by what they are called or how they are described, over the index of `search_index`.

Names are found whole, then without case and accents, then with mistakes. For the last, trigrams choose candidates: the
rarest ones of the query are looked up, at most `_POSTINGS` entries in all, and the names that share most of them are
scored by rapidfuzz. Time and memory are bounded by that, not by the size of the graph.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from rapidfuzz import fuzz

from graphwalker.errors import UserError
from graphwalker.kg.search_index import ALIAS, build_index, fold_accents, open_index
from graphwalker.kg.store import KGStore

_POSTINGS = 200_000  # entries of the index that one search reads, about 0.1 s
_CANDIDATES = 1000  # texts that are scored
_BEARERS = 100  # entities that are ranked by what the store knows of them
_LONGEST = 300  # characters of a query that are used
_SHORTEST_GRAM = 3
MATCHES = ("exact", "alias", "folded", "folded alias", "fuzzy", "description")
"""How an entity was found, best first."""


class Hit(NamedTuple):
    """An entity that was found."""

    id: str
    name: str | None
    match: str  # one of MATCHES
    text: str  # the name, alias or description that matched
    score: float  # in [0, 100]; 100 when whole
    types: tuple[str, ...]
    relations: int  # different relations at the entity, the degree that ranks it


class EntitySearch:
    """Search over one built KG. Safe to share between threads; every answer is deterministic."""

    def __init__(self, store: KGStore, kg: str | Path, path: str | Path | None = None):
        """Open the index of the KG folder `kg`. Raises `UserError` when it is missing or out of date."""
        self.store = store
        self._database = open_index(kg, path)

    @classmethod
    def open(
        cls, store: KGStore, kg: str | Path, path: str | Path | None = None, *, progress: bool = False
    ) -> "EntitySearch":
        """The same, with the index built where it is missing or out of date."""
        try:
            return cls(store, kg, path)
        except UserError:
            build_index(store, kg, path, progress=progress)
            return cls(store, kg, path)

    def names(
        self, query: str, *, limit: int = 10, type: str | None = None, cutoff: float = 60.0, thorough: bool = True
    ) -> list[Hit]:
        """Entities called `query`, best first: by how they match, score, degree, number of types, id.

        With `type`, only entities of it. A fuzzy match scores at least `cutoff`. Unless `thorough`, the store is asked
        for no more fuzzy matches than are wanted: of equal scores the shorter names, whatever their degree.
        """
        query = _sayable(query)
        folded = fold_accents(query)
        if not folded:
            return []
        found = self._whole(query, folded)
        hits = self._ranked(found, type)
        if len(hits) < limit:
            known = {node for node, *_ in found}
            fuzzy = [row for row in self._fuzzy(folded, cutoff) if row[0] not in known]
            hits += self._ranked(fuzzy[: _BEARERS if thorough else limit - len(hits)], type)
        return hits[:limit]

    def descriptions(self, query: str, *, limit: int = 10, type: str | None = None) -> list[Hit]:
        """Entities whose description has the words of `query`, best first: by the share of its words, then as names.

        A word counts by its rarity; the most frequent ones are looked up only while there is room.
        """
        words = dict.fromkeys(_words(fold_accents(_sayable(query))))
        weights = self._rare("word", words)
        scores: defaultdict[int, float] = defaultdict(float)
        for word, count in weights.items():
            for number in self._postings("word", word):
                scores[number] += 1 / (1 + count)
        total = sum(1 / (1 + count) for count in weights.values())
        best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:_BEARERS]
        texts = self._texts(number for number, _ in best)
        rows = [(texts[number][0], "description", texts[number][2], 100 * score / total) for number, score in best]
        return self._ranked(_first_of_each(rows), type)[:limit]

    def close(self) -> None:
        self._database.close()

    def _whole(self, query: str, folded: str) -> list[tuple[str, str, str, float]]:
        """(node, match, text, score) of the entities that bear the name, but for case and accents; each node once."""
        rows = self._database.execute(
            "SELECT node, kind, text FROM text WHERE folded = ? AND kind < 2 ORDER BY text <> ?, kind, node LIMIT ?",
            (folded, query, _BEARERS),
        )
        found = []
        for node, kind, text in rows:
            place = (0 if text == query else 2) + (kind == ALIAS)
            found.append((node, MATCHES[place], text, 100.0 if place < 2 else fuzz.ratio(query, text)))
        return _first_of_each(sorted(found, key=lambda row: (MATCHES.index(row[1]), -row[3], row[0])))

    def _fuzzy(self, folded: str, cutoff: float) -> list[tuple[str, str, str, float]]:
        """(node, match, text, score), best first; each node once."""
        grams = dict.fromkeys(folded[i : i + _SHORTEST_GRAM] for i in range(len(folded) - _SHORTEST_GRAM + 1))
        shared: Counter[int] = Counter()
        for gram in self._rare("gram", grams):
            shared.update(self._postings("gram", gram))
        if len(folded) < _SHORTEST_GRAM:
            shared.update(self._beginning(folded))
        best = sorted(shared.items(), key=lambda item: (-item[1], item[0]))[:_CANDIDATES]
        scored = []
        for node, kind, text, own in self._texts(number for number, _ in best).values():
            score = fuzz.WRatio(folded, own, score_cutoff=cutoff)
            if score >= cutoff:
                scored.append((-round(score, 3), kind, len(own), node, text))
        return _first_of_each((node, "fuzzy", text, -minus) for minus, _, _, node, text in sorted(scored))

    def _rare(self, table: str, terms: Iterable[str]) -> dict[str, int]:
        """The terms of a query that the index has, rarest first with their counts, as many as may be looked up."""
        counts = []
        for term in terms:
            row = self._database.execute(f"SELECT n FROM {table}_count WHERE term = ?", (term,)).fetchone()
            if row is not None:
                counts.append((row[0], term))
        chosen, room = {}, _POSTINGS
        for count, term in sorted(counts):
            if count > room:
                break
            chosen[term], room = count, room - count
        if counts and not chosen:  # every term is frequent: the first entries of the rarest are better than none
            chosen[min(counts)[1]] = min(counts)[0]
        return chosen

    def _postings(self, table: str, term: str) -> list[int]:
        quoted = '"' + term.replace('"', '""') + '"'
        rows = self._database.execute(f"SELECT rowid FROM {table} WHERE {table} MATCH ? LIMIT ?", (quoted, _POSTINGS))
        return [row[0] for row in rows]

    def _beginning(self, folded: str) -> list[int]:
        """Names that begin so, the shortest first; trigrams cannot find what is shorter than they are."""
        rows = self._database.execute(
            "SELECT id FROM text WHERE folded >= ? AND folded < ? AND kind < 2 ORDER BY folded LIMIT ?",
            (folded, folded + "\U0010ffff", _CANDIDATES),
        )
        return [row[0] for row in rows]

    def _texts(self, numbers: Iterable[int]) -> dict[int, tuple[str, int, str, str]]:
        """Number -> (node, kind, text, folded), in the order of the numbers given."""
        wanted = list(numbers)
        found: dict[int, tuple[str, int, str, str]] = {}
        for start in range(0, len(wanted), 500):  # SQLite binds a limited number of values
            part = wanted[start : start + 500]
            marks = ",".join("?" * len(part))
            rows = self._database.execute(f"SELECT id, node, kind, text, folded FROM text WHERE id IN ({marks})", part)
            found.update((row[0], row[1:]) for row in rows)
        return {number: found[number] for number in wanted}

    def _ranked(self, rows: Sequence[tuple[str, str, str, float]], type: str | None) -> list[Hit]:
        names = self.store.names([row[0] for row in rows])
        hits = []
        for (node, match, text, score), name in zip(rows, names, strict=True):
            types = self.store.types(node)
            if type is None or type in types:
                degree = len({step.relation for step in self.store.steps(node)})
                hits.append(Hit(node, name, match, text, score, tuple(types), degree))
        return sorted(hits, key=lambda h: (MATCHES.index(h.match), -h.score, -h.relations, -len(h.types), h.id))


def _sayable(query: str) -> str:
    """What of a query can be looked for: no half of a surrogate pair and no NUL, which SQLite does not take."""
    return query[:_LONGEST].encode("utf-8", "ignore").decode().replace("\0", " ")


def _first_of_each(rows: Iterable[tuple[str, str, str, float]]) -> list[tuple[str, str, str, float]]:
    found: dict[str, tuple[str, str, str, float]] = {}
    for row in rows:
        found.setdefault(row[0], row)
    return list(found.values())


def _words(folded: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in folded).split()
