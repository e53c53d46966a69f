"""The triple patterns of a published SPARQL query, and the relation paths they spell.

Only what gold paths need is read: patterns are collected, everything else (filters, OPTIONAL, ORDER BY, aggregates) is
noticed as a constraint. A query outside of that (UNION, sub-queries, property paths but for sequences) has no path.
This reads published gold; it is no guard and executes nothing.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

Edge = tuple[str, str, str]

FREEBASE = "http://rdf.freebase.com/ns/"
WIKIDATA = "http://www.wikidata.org/"
DBPEDIA = "http://dbpedia.org/"
PREFIXES = {
    "ns": FREEBASE,
    "wd": WIKIDATA + "entity/",
    "wdt": WIKIDATA + "prop/direct/",
    "p": WIKIDATA + "prop/",
    "ps": WIKIDATA + "prop/statement/",
    "pq": WIKIDATA + "prop/qualifier/",
    "dbo": DBPEDIA + "ontology/",
    "dbp": DBPEDIA + "property/",
    "dbr": DBPEDIA + "resource/",
    "res": DBPEDIA + "resource/",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
}
"""Prefixes that published queries use without declaring them."""
_SHORT = {FREEBASE: "", PREFIXES["wd"]: "", **{PREFIXES[p]: f"{p}:" for p in ("wdt", "ps", "pq", "p", "rdfs")}}
TYPES = frozenset({PREFIXES["rdf"] + "type", "wdt:P31", "type.object.type", "common.topic.notable_types"})
"""Predicates (short) whose object says what kind of thing is asked for, and is no topic."""

_TOKEN = re.compile(
    r"""\s+|\#[^\n]*
    |(?P<iri><[^<>"{}|^`\\\s]*>)
    |(?P<var>[?$]\w+)
    |(?P<text>(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')(?:@[\w-]+|\^\^(?:<[^>]*>|\w*:\w+))?)
    |(?P<name>(?:[^\W\d][\w-]*)?:[^\W_]?[\w%-]*(?:\.[\w%-]+)*)
    |(?P<number>[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<word>[^\W\d]\w*)
    |(?P<sign>&&|\|\||!=|<=|>=|\^\^|[^\s\w])""",
    re.X,
)
_HARMLESS = {"ISLITERAL", "ISURI", "ISIRI", "LANG", "LANGMATCHES", "OR", "STR"}


class NoPath(ValueError):
    """Why a query spells no path, in plain words."""


@dataclass(frozen=True)
class Pattern:
    """A query's triple patterns. Terms are variables (``?x``), ids as KGs print them, or literals (``"…"``)."""

    edges: tuple[Edge, ...]
    answer: str
    """The variable asked for."""
    constraints: bool
    """Whether anything beside the patterns decides about the answer."""


@dataclass(frozen=True)
class Branches:
    """One relation path to the answer for each topic, in the order of the topics."""

    topics: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    constraints: bool
    """Whether following the paths and intersecting their ends can give more than what was asked for."""


def short(iri: str) -> str:
    """An IRI as a KG of its own schema prints it; one of no known schema stays whole.

    >>> short("http://www.wikidata.org/prop/direct/P31"), short("http://rdf.freebase.com/ns/m.0abc")
    ('wdt:P31', 'm.0abc')
    """
    base = max((base for base in _SHORT if iri.startswith(base)), key=len, default="")
    return _SHORT[base] + iri[len(base) :] if base and "/" not in iri[len(base) :] else iri


def read_pattern(sparql: str) -> Pattern:
    """The patterns of a SELECT query of one variable. Raises ``NoPath`` saying what stands in the way."""
    return _Reader(sparql).read()


def branches(edges: Sequence[Edge], answer: str, topics: Iterable[str], constraints: bool = False) -> Branches:
    """The shortest way from each topic to the answer through variables; topics without one are left out."""
    found = {topic: way for topic in topics if (way := _way(edges, topic, answer))}
    used = [edge for way in found.values() for edge, _ in way]
    apart = len(set(used)) == len(used)  # branches that share an edge must agree on more than their ends
    paths = tuple(tuple(edge[1] if along else f"^{edge[1]}" for edge, along in way) for way in found.values())
    return Branches(tuple(found), paths, constraints or not apart or not set(edges) <= set(used))


def topics_in(edges: Iterable[Edge], prefixes: Sequence[str]) -> list[str]:
    """The constants of a pattern that are entities (their ids start so), in their order, without types."""
    ends = (end for s, p, o in edges for end in ((s,) if p in TYPES else (s, o)))
    return [end for end in dict.fromkeys(ends) if end.startswith(tuple(prefixes))]


def constants(sparql: str, prefixes: Sequence[str]) -> list[str]:
    """The ids anywhere in a query that start so, for a query that spells no path."""
    reader = _Reader(sparql)
    ids = (reader.id_of(kind, text) for kind, text in reader.tokens if kind in ("iri", "name"))
    return [found for found in dict.fromkeys(ids) if found.startswith(tuple(prefixes))]


def _way(edges: Sequence[Edge], topic: str, answer: str) -> list[tuple[Edge, bool]]:
    """The edges from a topic to the answer, each with whether it is walked along its direction."""
    ways: dict[str, list[tuple[Edge, bool]]] = {topic: []}
    queue = [topic]
    for node in queue:  # grows while it is read
        for edge in edges:
            for near, end, along in ((edge[0], edge[2], True), (edge[2], edge[0], False)):
                if near == node and end not in ways and end.startswith("?"):
                    ways[end] = [*ways[node], (edge, along)]
                    queue.append(end)
    return ways.get(answer, [])


class _Reader:
    def __init__(self, sparql: str):
        self.tokens = [(m.lastgroup or "", m[0]) for m in _TOKEN.finditer(sparql) if m.lastgroup]
        self.at, self.fresh = 0, 0
        self.prefixes = dict(PREFIXES)
        self.edges: list[Edge] = []
        self.constraints = False

    def read(self) -> Pattern:
        while self._word() in ("PREFIX", "BASE"):
            name = self._take()[1] if self._take()[1].upper() == "PREFIX" else ""
            iri = self._take()[1]
            self.prefixes[name.removesuffix(":")] = iri.strip("<>")
        answer = self._head()
        self._group()
        rest = {text.upper() for kind, text in self.tokens[self.at :] if kind == "word"}
        self.constraints |= bool(rest - {"VALUES"})
        return Pattern(tuple(self.edges), answer, self.constraints)

    def _head(self) -> str:
        if (form := self._take()[1].upper()) != "SELECT":
            raise NoPath(f"it is a query of the form {form}")
        head: list[str] = []
        while self._peek()[1] != "{":
            kind, text = self._take()
            if kind == "word" and text.upper() in ("COUNT", "MAX", "MIN", "SUM", "AVG", "SAMPLE"):
                self.constraints = True
            elif kind == "var":
                head.append(text)
        variables = list(dict.fromkeys(head[:1] if self.constraints else head))
        if len(variables) != 1:
            raise NoPath(f"it asks for {len(variables)} variables")
        return "?" + variables[0][1:]

    def _group(self) -> None:
        self._expect("{")
        while (token := self._peek())[1] != "}":
            word = token[1].upper() if token[0] == "word" else ""
            if word == "FILTER":
                self._take()
                self._filter()
            elif word == "OPTIONAL":
                self._take()
                self._skip("{", "}")
            elif word and word != "A" or token[1] == "{":
                raise NoPath(f"it has {'a group' if token[1] == '{' else word}")
            elif token[1] in (".", ";"):
                self._take()
            else:
                self._triples()
        self._expect("}")

    def _filter(self) -> None:
        while self._peek()[1] != "(":
            if self._take()[1].upper() == "EXISTS":
                self._skip("{", "}")
                self.constraints = True
                return
        inside = self._skip("(", ")")
        words = {text.upper() for kind, text in inside if kind == "word"}
        signs = {text for kind, text in inside if kind == "sign"} - {"(", ")", ",", "!", "&&"}
        harmless = words <= _HARMLESS and (bool(words & {"LANG", "LANGMATCHES", "ISLITERAL"}) or signs <= {"!="})
        self.constraints |= not harmless

    def _triples(self) -> None:
        subject = self._node()
        while True:
            path = self._path()
            while True:
                self._join(subject, path, self._node())
                if self._peek()[1] != ",":
                    break
                self._take()
            if self._peek()[1] != ";":
                return
            while self._peek()[1] == ";":
                self._take()
            if self._peek()[1] in (".", "}", "]"):
                return

    def _join(self, subject: str, path: Sequence[str], end: str) -> None:
        for predicate in path[:-1]:
            self.fresh += 1
            middle = f"?path{self.fresh}"
            self.edges.append((subject, predicate, middle))
            subject = middle
        self.edges.append((subject, path[-1], end))

    def _path(self) -> list[str]:
        path = [self._predicate()]
        while self._peek()[1] == "/":
            self._take()
            path.append(self._predicate())
        if self._peek()[1] in ("*", "+", "|", "^"):
            raise NoPath("it has a property path")
        return path

    def _predicate(self) -> str:
        kind, text = self._take()
        if kind == "word" and text == "a":
            return PREFIXES["rdf"] + "type"
        if kind not in ("iri", "name"):
            raise NoPath("it asks for a relation" if kind == "var" else f"it cannot be read at {text!r}")
        return self._short(kind, text)

    def _node(self) -> str:
        kind, text = self._take()
        if text == "[":
            self.fresh += 1
            node = f"?blank{self.fresh}"
            while self._peek()[1] != "]":
                path = self._path()
                self._join(node, path, self._node())
                if self._peek()[1] == ";":
                    self._take()
            self._expect("]")
            return node
        if kind == "var":
            return "?" + text[1:]
        if kind in ("iri", "name"):
            return self._short(kind, text)
        if kind in ("text", "number"):
            return text if kind == "text" else f'"{text}"'
        raise NoPath(f"it cannot be read at {text!r}")

    def _short(self, kind: str, text: str) -> str:
        if not (found := self.id_of(kind, text)):
            raise NoPath(f"its prefix {text.partition(':')[0]!r} is not declared")
        return found

    def id_of(self, kind: str, text: str) -> str:
        """The short id of an IRI or a prefixed name, "" where its prefix is not declared."""
        if kind == "iri":
            return short(text[1:-1])
        prefix, _, local = text.partition(":")
        return short(self.prefixes[prefix] + local) if prefix in self.prefixes else ""

    def _skip(self, left: str, right: str) -> list[tuple[str, str]]:
        """The tokens between two brackets."""
        self._expect(left)
        start, depth = self.at, 1
        while depth:
            text = self._take()[1]
            depth += (text == left) - (text == right)
        return self.tokens[start : self.at - 1]

    def _peek(self) -> tuple[str, str]:
        if self.at >= len(self.tokens):
            raise NoPath("it is cut off")
        return self.tokens[self.at]

    def _word(self) -> str:
        kind, text = self._peek()
        return text.upper() if kind in ("word", "name") else ""

    def _take(self) -> tuple[str, str]:
        token = self._peek()
        self.at += 1
        return token

    def _expect(self, text: str) -> None:
        if (found := self._take()[1]) != text:
            raise NoPath(f"it cannot be read at {found!r}")


def named_constants(named: str, raw: str, ids: Collection[str]) -> dict[str, str]:
    """Id -> name, from a query that finds entities by name and the same query with ids in their places.

    A constant of ``raw`` is matched by the predicate that holds it and its side.
    """
    try:
        by_id, by_name = read_pattern(raw).edges, read_pattern(named).edges
    except NoPath:
        return {}
    names = {s: o.rpartition('"')[0][1:] for s, p, o in by_name if p == "type.object.name" and o.startswith('"')}
    found: dict[str, str] = {}
    for edge in by_id:
        for side in (0, 2):
            if edge[side] in ids:
                other = 2 - side
                like = [e for e in by_name if e[1] == edge[1] and e[side] in names]
                exact = [e for e in like if e[other] == edge[other]] or like
                if len(exact) == 1:
                    found[edge[side]] = names[exact[0][side]]
    return found
