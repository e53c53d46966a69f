"""FB15k-237 as the Freebase it was cut from: dotted ids, CVT nodes, reverse properties, names and types.

A relation ``/a/b/c./d/e/f`` of FB15k-237 is two edges through a mediator (CVT) node that the data set took out; each
such fact gets a node of its own again. For every edge whose property has a reverse property in Freebase, the reversed
edge is added, and the pair is declared. The slice has no types, so the domain part of each outgoing property of an
entity is taken as one (``people.person.place_of_birth`` gives ``people.person``): types choose between entities of one
name.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from data_pipelines.importers.lines import read_columns, read_integer_columns, read_lines
from graphwalker.errors import FileFormatError, UserError
from graphwalker.kg.terms import literal

NAME = "type.object.name"
TYPE = "type.object.type"
REVERSE = "type.property.reverse_property"
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Slice:
    """The slice's parts, each a set of triples without doubles; nodes are ids, ``names`` maps ids to names."""

    facts: list[tuple[str, str, str]]
    types: list[tuple[str, str, str]]
    reverses: list[tuple[str, str, str]]
    names: dict[str, str]

    @property
    def relations(self) -> int:
        return len({relation for _, relation, _ in self.facts})


def read_slice(source: str | Path) -> Slice:
    """Read the folder with ``train2id``, ``valid2id``, ``test2id``, ``entity2id``, ``relation2id`` (``.txt``),
    ``FB15k_mid2name.txt`` and ``reverse_properties``.

    Raises ``UserError`` for a missing file and ``FileFormatError`` for a broken line.
    """
    folder = Path(source)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    entities = {number: dotted(mid) for mid, number in _numbers(folder / "entity2id.txt")}
    relations = {number: name for name, number in _numbers(folder / "relation2id.txt")}
    reverse = _reverse_properties(folder / "reverse_properties")
    edges: dict[tuple[str, str, str], None] = {}  # keeps the order of the files
    for edge in _edges(folder, entities, relations):
        edges[edge] = None
    for head, relation, tail in list(edges):
        for other in reverse.get(relation, ()):
            edges[tail, other, head] = None
    mids = set(entities.values())
    types = {(h, TYPE, r.rpartition(".")[0]): None for h, r, _ in edges if h in mids}
    used = {relation for _, relation, _ in edges}
    declared = [
        (one, REVERSE, other) for one in sorted(used) for other in sorted(reverse.get(one, ())) if other in used
    ]
    names = {mid: name for mid, name in _names(folder / "FB15k_mid2name.txt") if mid in mids}
    return Slice(list(edges), list(types), declared, names)


def dotted(path: str) -> str:
    """``/people/person/place_of_birth`` as Freebase's RDF dump writes it.

    >>> dotted("/m/02mjmr")
    'm.02mjmr'
    """
    return path.strip("/").replace("/", ".")


def _edges(folder: Path, entities: dict[int, str], relations: dict[int, str]) -> Iterator[tuple[str, str, str]]:
    mediators = 0
    for split in SPLITS:
        path = folder / f"{split}2id.txt"
        for number, (h, t, r) in read_integer_columns(path, "head, tail, relation", counted=True):
            if h not in entities or t not in entities:
                missing = h if h not in entities else t
                raise FileFormatError(path, number, f"entity {missing} is not in {folder / 'entity2id.txt'}")
            if r not in relations:
                raise FileFormatError(path, number, f"relation {r} is not in {folder / 'relation2id.txt'}")
            first, mediated, second = relations[r].partition("./")
            if mediated:
                mediator = f"cvt.{mediators}"
                mediators += 1
                yield entities[h], dotted(first), mediator
                yield mediator, dotted(second), entities[t]
            else:
                yield entities[h], dotted(first), entities[t]


def _numbers(path: Path) -> Iterator[tuple[str, int]]:
    """The rows ``name<tab>number`` under the number of rows, which is checked."""
    rows, expected = 0, None
    for number, text in read_lines(path):
        fields = text.split()
        if not fields[-1].isdigit() or len(fields) != (1 if expected is None else 2):
            wanted = "the number of rows" if expected is None else "name, number"
            raise FileFormatError(path, number, f"expected {wanted}, got {text[:200]!r}")
        if expected is None:
            expected = int(fields[0])
            continue
        rows += 1
        yield fields[0], int(fields[1])
    if expected != rows:
        raise UserError(f"{path}: its first line announces {expected or 0:,} rows, it has {rows:,} (cut short?)")


def _reverse_properties(path: Path) -> dict[str, set[str]]:
    reverse: dict[str, set[str]] = {}
    for _, (one, other) in read_columns(path, 2, None, "property, reverse property"):
        reverse.setdefault(one, set()).add(other)
        reverse.setdefault(other, set()).add(one)
    return reverse


def _names(path: Path) -> Iterator[tuple[str, str]]:
    for _, (mid, name) in read_columns(path, 2, "\t", "MID, tab, name"):
        yield dotted(mid), name.replace("_", " ")


def triples(part: Slice) -> Iterator[tuple[str, str, str]]:
    """All triples of the slice as the KG's terms."""
    for group in (part.facts, part.types, part.reverses):
        yield from group
    for mid, name in part.names.items():
        yield mid, NAME, literal(name, lang="en")
