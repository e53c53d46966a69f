"""Records with a subgraph each: RoG's (Luo et al. 2024, arXiv:2310.01061), GRAFT-Net's (Sun et al. 2018, D18-1455) and
those of NSM (He et al. 2021), which give entities and relations by number.

The questions become ``Question`` records; the subgraph of one record, or of all together, is a KG of its own.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec

from data_pipelines.importers.found import Found, split_of, unique
from data_pipelines.importers.lines import read_lines
from data_pipelines.importers.records import Row, read_records
from graphwalker.errors import UserError
from graphwalker.kg.terms import literal
from graphwalker.types import Entity, Question

ONLY_ENTITIES = True  # values are nodes of the subgraphs, too


class Node(msgspec.Struct):
    text: str | None = None
    kb_id: str | int | None = None
    rel_id: str | int | None = None


Term = Node | str | int


class Subgraph(msgspec.Struct):
    tuples: list[tuple[Term, Term, Term]]


class Record(msgspec.Struct):
    id: str
    question: str
    answer: list[str] | None = None
    q_entity: list[str] | None = None
    graph: list[tuple[str, str, str]] | None = None
    answers: list[Node] | None = None
    entities: list[Term] | None = None
    subgraph: Subgraph | None = None


def read(source: Path, split: str | None = None, *, form: str = "rog") -> Iterator[Found]:
    """Yield the questions of a file of any of the three layouts."""
    names = _Names(source)
    for row in read_records(source, Record):
        record = row.value
        if record.answer is None and record.answers is None:
            raise row.error("field 'answer' (RoG) or 'answers' (GRAFT-Net) is missing")
        answers = [Entity(name) for name in record.answer or ()] or [names.entity(row, a) for a in record.answers or ()]
        topics = [Entity(name) for name in record.q_entity or ()] or [
            names.entity(row, e) for e in record.entities or ()
        ]
        question = Question(
            id=record.id,
            text=record.question,
            topic_entities=unique(topics),
            answers=unique(answers),
            dataset=form,
            split=split or split_of(source),
        )
        yield Found(question, row)


def triples(source: Path, record: str | None = None) -> Iterator[tuple[str, str, str]]:
    """The subgraph of one record, by its id, or of all. Raises ``UserError`` where there is no such record."""
    names, found = _Names(source), False
    labelled: set[str] = set()
    for row in read_records(source, Record):
        if record is not None and row.value.id != record:
            continue
        found = True
        for edge in _edges(row):
            ends = [names.entity(row, end) for end in (edge[0], edge[2])]
            relation = names.relation(row, edge[1])
            head, tail = (_id(end) for end in ends)
            yield head, relation, tail
            for node, end in zip((head, tail), ends, strict=True):
                if node not in labelled and not is_mid(end.name):
                    labelled.add(node)
                    yield node, "rdfs:label", literal(end.name)
    if not found:
        raise UserError(f"{source}: no record has the id {record!r}")


def is_mid(name: str) -> bool:
    """Whether a node is called by a Freebase id, which is no name."""
    return name[:2] in ("m.", "g.") and name[2:].replace("_", "").isalnum() and name == name.lower()


def _edges(row: Row[Record]) -> Sequence[tuple[Term, Term, Term]]:
    if row.value.graph is not None:
        return row.value.graph
    if row.value.subgraph is None:
        raise row.error("field 'graph' (RoG) or 'subgraph' (GRAFT-Net) is missing")
    return row.value.subgraph.tuples


def _id(entity: Entity) -> str:
    return quote(entity.id or entity.name, safe="")


class _Names:
    """Who a number stands for: line n + 1 of ``entities.txt`` and ``relations.txt`` beside the file."""

    def __init__(self, source: Path):
        self.folder = source.parent
        self._lists: dict[str, dict[int, str]] = {}

    def entity(self, row: Row[Record], term: Term) -> Entity:
        name, node = self._of(row, term, "entities.txt")
        return Entity(name, node)

    def relation(self, row: Row[Record], term: Term) -> str:
        name, node = self._of(row, term, "relations.txt")
        return quote(node or name, safe=".:/^()'_-")

    def _of(self, row: Row[Record], term: Term, file: str) -> tuple[str, str | None]:
        if isinstance(term, str):
            return term, None
        if isinstance(term, int):
            node = self._numbered(row, term, file)
            return node, node
        given = term.kb_id if term.kb_id is not None else term.rel_id
        node = self._numbered(row, given, file) if isinstance(given, int) else _bare(given or "")
        name = term.text or node
        if not name:
            raise row.error(f"an entity or relation has neither 'text' nor an id: {term}")
        return _bare(name), node or None

    def _numbered(self, row: Row[Record], number: int, file: str) -> str:
        path = self.folder / file
        if file not in self._lists:
            if not path.is_file():
                raise row.error(f"it gives numbers, and {path} is not there to say what they stand for")
            self._lists[file] = {line - 1: _bare(text.strip()) for line, text in read_lines(path)}
        if number not in self._lists[file]:
            raise row.error(f"number {number} is not in {path}")
        return self._lists[file][number]


def _bare(node: str) -> str:
    """GRAFT-Net writes ids as ``<fb:m.0abc>``."""
    return node.removeprefix("<").removesuffix(">").removeprefix("fb:")
