"""How a knowledge base is written: what goes before a query, and how nodes, patterns and results print.

The base class has Freebase's ways, which fit any graph whose entities have names and whose relations are short ids;
`graphwalker.tools.kbqa.kqapro` has KQA Pro's. A name prints as it stands inside a SPARQL string, so that what was seen
can be copied into a query, and no name can end a line or open a turn.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from graphwalker.kg.search import Hit
from graphwalker.kg.sparql_store import SparqlStore
from graphwalker.kg.store import Step
from graphwalker.kg.terms import XSD, literal_value, parse_literal
from graphwalker.protocol.escape import escape_name, escape_tags

_LONGEST = 100  # characters of a description, a name or a value
_TYPES = 3  # of an entity without a description


class Shown(NamedTuple):
    """A term of a result: as an observation shows it and as an answer gives it."""

    text: str
    answer: str


class Form:
    """Freebase's ways."""

    before = ""
    """What stands before a query when it is run."""
    truths = ("true", "false")
    """An ASK's answers."""

    def __init__(self, store: SparqlStore):
        self.store = store

    def nodes(self, hits: Sequence[Hit], limit: int) -> list[str]:
        """A line for each of the first `limit` names, with what tells those who bear it apart."""
        by_name: dict[str, list[Hit]] = {}
        for hit in hits:
            by_name.setdefault(hit.name or hit.id, []).append(hit)
        named = list(by_name.items())[:limit]
        return [f"{quoted(name)} | {' | '.join(map(self.about, bearers))}" for name, bearers in named]

    def predicates(self) -> list[str]:
        """The patterns of the whole graph, as a search without a pattern lists them."""
        return [" -> ".join(_halves(relation)) for relation in self.store.vocabulary()]

    def about(self, hit: Hit) -> str:
        """What is known of one entity: the beginning of its description, else its types."""
        for predicate in self.store.schema.description_predicates:
            for triple in self.store.match(hit.id, predicate):
                if triple.tail.startswith('"'):
                    return f"Description: {plain(literal_value(triple.tail))}"
        types = sorted(hit.types, key=lambda type: (type.startswith(("base.", "user.")), type))  # its users' own last
        return f"Types: {', '.join(map(escape_name, types[:_TYPES]))}" if types else "No description."

    def pattern(self, step: Step, node: str, example: str) -> str:
        """A step of an entity as a triple with ?e in it; `example` is the other end, a name in quotes or a value."""
        relation = " -> ".join(step.parts)
        return f"({example}, {relation}, ?e)" if step.inverse else f"(?e, {relation}, {example})"

    def patterns(self, found: Sequence[tuple[Step, str]], most: int) -> list[str]:
        """The pattern of each (step, entity that has it), with an example: of the first `most` ends the first name."""
        shown: dict[tuple[Step, str], str] = {}
        for node, group in groupby(sorted(found, key=lambda item: item[1]), key=lambda item: item[1]):
            steps = [step for step, _ in group]
            for step, ends in zip(steps, self.store.ends(node, steps, most), strict=True):
                example = self.end(*ends[0]) if ends else "?x"
                shown[step, node] = self.pattern(step, node, example)
        return [shown[item] for item in found]

    def shows(self, step: Step) -> bool:
        """Whether a step is a pattern by itself."""
        return True

    def listed(self, patterns: Sequence[str]) -> str:
        """The patterns as an observation has them."""
        return f"[{', '.join(patterns)}]"

    def end(self, name: str, node: str) -> str:
        """An example's name in quotes, or its value with its type."""
        return typed(node) if node.startswith('"') else quoted(name)

    def results(self, nodes: Iterable[str]) -> dict[str, Shown]:
        """How each node or literal of a result shows; an entity by its name, or its id where it has none."""
        distinct = list(dict.fromkeys(nodes))
        names = dict(zip(distinct, self.store.names(distinct), strict=True))
        return {node: self.result(node, names[node]) for node in distinct}

    def result(self, node: str, name: str | None) -> Shown:
        if not node.startswith('"'):
            return Shown(name or node, name or node)
        value, _, datatype = parse_literal(node)
        return Shown(typed(node, whole=True) if datatype else value, value)


def _halves(relation: str) -> tuple[str, ...]:
    """A flattened relation in its two parts: a predicate of Freebase has three words, of its users' domains more.

    >>> _halves("people.person.spouse_s.people.marriage.spouse"), _halves("base.locations.countries.continent")
    (('people.person.spouse_s', 'people.marriage.spouse'), ('base.locations.countries.continent',))
    """
    words = relation.split(".")
    first = {"base": 4, "user": 5}.get(words[0], 3)
    return (relation,) if len(words) < first + 2 else (".".join(words[:first]), ".".join(words[first:]))


def quoted(name: str) -> str:
    """A name in double quotes, as SPARQL writes it.

    >>> print(quoted('The "Big" One'))
    "The \\"Big\\" One"
    """
    return '"' + escape_name(name).replace('"', '\\"') + '"'


def typed(node: str, *, whole: bool = False) -> str:
    """A literal with its type (``"4900"^^xsd:integer``), without its language; cut where it is long.

    >>> print(typed('"Rome"@en'), typed('"4900"^^<http://www.w3.org/2001/XMLSchema#integer>'))
    "Rome" "4900"^^xsd:integer
    """
    value, _, datatype = parse_literal(node)
    if len(value) > _LONGEST and not whole:
        value = value[:_LONGEST] + "..."
    kind = "xsd:" + datatype.removeprefix(XSD) if datatype.startswith(XSD) else f"<{datatype}>"
    return quoted(value) + (f"^^{kind}" if datatype else "")


def plain(text: str) -> str:
    """A description: its beginning, on one line, without tags."""
    text = escape_tags(" ".join(text.split()))
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def listed(items: Iterable[str | tuple[str | None, ...]], *, escaped: bool = False) -> str:
    """A list of texts, or of rows of them, on one line and without control tags; `escaped` texts stand as they are.

    >>> print(listed(["Rome", "Sa'idi"]), listed([("mayor", None)]))
    ['Rome', "Sa'idi"] [('mayor', None)]
    """

    def cell(text: str | None) -> str:
        if text is None:
            return "None"
        quote = '"' if "'" in text and '"' not in text else "'"
        return f"{quote}{text if escaped else escape_name(text)}{quote}"

    def row(item: str | tuple[str | None, ...]) -> str:
        return f"({', '.join(map(cell, item))})" if isinstance(item, tuple) else cell(item)

    return f"[{', '.join(map(row, items))}]"
