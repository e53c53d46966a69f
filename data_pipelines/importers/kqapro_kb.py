"""KQA Pro's ``kb.json`` (Cao et al. 2022, ACL 2022.acl-long.422) as RDF, as its published queries expect it.

An entity has ``pred:name`` and ``pred:instance_of``; a relation is an edge; an attribute leads to a node of its own
with ``pred:value`` (and ``pred:unit``), ``pred:date`` or ``pred:year``. Every fact with qualifiers is a node with
``pred:fact_h``, ``pred:fact_r``, ``pred:fact_t`` and one edge for each qualifier, to a node like an attribute's.
Relations, keys and qualifiers are ids with underscores (``<point_in_time>``).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec

from data_pipelines.importers.records import Row, read_members
from graphwalker.kg.terms import XSD, literal

Triple = tuple[str, str, str]
NAME, INSTANCE_OF = "pred:name", "pred:instance_of"
_NOT_IN_IRI = re.compile(r'[\x00-\x20<>"{}|^`\\]')


class Value(msgspec.Struct):
    type: str
    value: int | float | str
    unit: str | None = None


class Attribute(msgspec.Struct):
    key: str
    value: Value
    qualifiers: dict[str, list[Value]] = {}


class Relation(msgspec.Struct):
    object: str
    direction: str
    predicate: str | None = None
    relation: str | None = None
    qualifiers: dict[str, list[Value]] = {}


class Concept(msgspec.Struct):
    name: str
    instanceOf: list[str] = []
    subclassOf: list[str] = []


class EntityRecord(msgspec.Struct):
    name: str
    instanceOf: list[str] = []
    attributes: list[Attribute] = []
    relations: list[Relation] = []


def relation_id(name: str) -> str:
    """A relation's, an attribute's or a qualifier's name as the queries write it between ``<`` and ``>``.

    >>> relation_id("point in time"), relation_id("GDP (PPP)")
    ('point_in_time', 'GDP_(PPP)')
    """
    return _NOT_IN_IRI.sub(lambda match: quote(match[0]), name.replace(" ", "_"))


def triples(source: Path) -> Iterator[Triple]:
    """All triples of the file, streamed. An entity is an instance of its concepts and of all above them, as in the
    authors' own graph. Raises ``FileFormatError`` (line and field) on what is malformed."""
    above: dict[str, list[str]] = {}
    for node, row in read_members(source, Concept, key="concepts"):
        yield node, NAME, literal(" ".join(row.value.name.split()))
        above[node] = [*row.value.instanceOf, *row.value.subclassOf]
    blanks = _Blanks()
    for node, entity in read_members(source, EntityRecord, key="entities"):
        yield node, NAME, literal(" ".join(entity.value.name.split()))
        for concept in _all_concepts(entity.value.instanceOf, above):
            yield node, INSTANCE_OF, concept
        for number, attribute in enumerate(entity.value.attributes):
            end = blanks.new()
            relation, place = relation_id(attribute.key), f"attributes[{number}]"
            yield node, relation, end
            yield from _value(entity, end, attribute.value, f"{place}.value")
            yield from _fact(entity, blanks, (node, relation, end), attribute.qualifiers, place)
        for number, edge in enumerate(entity.value.relations):
            place = f"relations[{number}]"
            name = edge.predicate or edge.relation
            if not name:
                raise entity.error(f"field '{place}.predicate' is missing")
            if edge.direction not in ("forward", "backward"):
                raise entity.error(f"field '{place}.direction': expected forward or backward, got {edge.direction!r}")
            ends = (node, edge.object) if edge.direction == "forward" else (edge.object, node)
            fact = (ends[0], relation_id(name), ends[1])
            yield fact
            if edge.direction == "forward":  # both ends state it: its qualifiers once
                yield from _fact(entity, blanks, fact, edge.qualifiers, place)


class _Blanks:
    def __init__(self) -> None:
        self.count = 0

    def new(self) -> str:
        self.count += 1
        return f"_:v{self.count}"


def _fact(
    row: Row[EntityRecord], blanks: _Blanks, fact: Triple, qualifiers: dict[str, list[Value]], place: str
) -> Iterator[Triple]:
    if not qualifiers:
        return
    node = blanks.new()
    yield from zip((node,) * 3, ("pred:fact_h", "pred:fact_r", "pred:fact_t"), fact, strict=True)
    for key, values in qualifiers.items():
        for number, value in enumerate(values):
            end = blanks.new()
            yield node, relation_id(key), end
            yield from _value(row, end, value, f"{place}.qualifiers.{key}[{number}]")


def _value(row: Row[EntityRecord], node: str, value: Value, place: str) -> Iterator[Triple]:
    text = str(value.value)
    if value.type == "string":
        yield node, "pred:value", literal(text)
    elif value.type == "quantity" and not isinstance(value.value, str):
        yield node, "pred:value", literal(text, datatype=XSD + "double")
        yield node, "pred:unit", literal(value.unit or "1")
    elif value.type == "year" and re.fullmatch(r"-?\d+", text):
        yield node, "pred:year", literal(text, datatype=XSD + "integer")
    elif value.type == "date" and re.fullmatch(r"-?\d+[-/]\d{1,2}[-/]\d{1,2}", text):
        year, month, day = re.fullmatch(r"(-?\d+)[-/](\d+)[-/](\d+)", text).groups()  # type: ignore[union-attr]
        sign, digits = ("-", year[1:]) if year.startswith("-") else ("", year)
        yield node, "pred:date", literal(f"{sign}{digits:0>4}-{month:0>2}-{day:0>2}", datatype=XSD + "date")
    else:
        raise row.error(f"field {place!r}: not a string, quantity, year or date: {value.type} {text[:100]!r}")


def _all_concepts(direct: list[str], above: dict[str, list[str]]) -> list[str]:
    found = dict.fromkeys(direct)
    queue = list(direct)
    for concept in queue:
        for parent in above.get(concept, ()):
            if parent not in found:
                found[parent] = None
                queue.append(parent)
    return list(found)
