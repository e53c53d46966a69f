"""KQA Pro's ways (Cao et al. 2022): names are plain literals, a value is a node of its own, facts have qualifiers."""

from collections.abc import Iterable, Sequence

from graphwalker.kg.search import Hit
from graphwalker.kg.store import Step
from graphwalker.kg.terms import XSD, literal_value, parse_literal
from graphwalker.tools.kbqa.forms import Form, Shown, listed, quoted, typed

NAME = "pred:name"
VALUE, UNIT, DATE, YEAR = "pred:value", "pred:unit", "pred:date", "pred:year"
INSTANCE_OF = "pred:instance_of"
PARTS = (VALUE, UNIT, DATE, YEAR)
"""What the node of a value has."""


class KQAProForm(Form):
    """KQA Pro's ways, as its published queries have them."""

    truths = ("yes", "no")

    @property
    def before(self) -> str:  # type: ignore[override]
        """Relations are written as IRIs without a scheme, ``<date_of_birth>``."""
        return f"BASE <{self.store.schema.namespaces['']}> "

    def nodes(self, hits: Sequence[Hit], limit: int) -> list[str]:
        return list(dict.fromkeys(f"{quoted(hit.name or hit.id)[1:-1]} | {self.about(hit)}" for hit in hits))[:limit]

    def predicates(self) -> list[str]:
        return [f"<{name}>" for name in sorted({name.partition(".pred:")[0] for name in self.store.vocabulary()})]

    def about(self, hit: Hit) -> str:
        has_members = next(iter(self.store.match(None, INSTANCE_OF, hit.id)), None) is not None
        return "concept" if has_members else "entity"

    def shows(self, step: Step) -> bool:
        return step.parts[-1] != UNIT  # it stands beside its number

    def listed(self, patterns: Sequence[str]) -> str:
        return listed(patterns, escaped=True)

    def patterns(self, found: Sequence[tuple[Step, str]], most: int) -> list[str]:
        examples = [(step, node) for step, node in found if step.parts[-1] not in PARTS or step.inverse]
        plain = dict(zip(examples, super().patterns(examples, most), strict=True))
        return [plain.get((step, node)) or self._value_pattern(step, node, most) for step, node in found]

    def pattern(self, step: Step, node: str, example: str) -> str:
        first, *rest = (f"<{part}>" for part in step.parts)
        if step.inverse:
            way = f"?h {first} ?c . ?c {rest[0]} ?e ." if rest else f"?h {first} ?e ."
            return f"{way} ?h <pred:name> {example} ."
        way = f"?e {first} ?c . ?c {rest[0]} ?t ." if rest else f"?e {first} ?t ."
        return f"{way} ?t <pred:name> {example} ."

    def _value_pattern(self, step: Step, node: str, most: int) -> str:
        """The smallest value of an attribute, with its unit."""
        term, (edge, kind) = self.store.queries.term, step.parts
        rows = self.store.rows(
            f"SELECT ?v ?u {{ {term(node)} {term(edge)} ?c . ?c {term(kind)} ?v . "
            f"OPTIONAL {{ ?c {term(UNIT)} ?u }} }} LIMIT {most}"
        )
        values = sorted((row["v"], row.get("u", "")) for row in rows)
        if not values:
            return f"?e <{edge}> ?pv . ?pv <{kind}> ?v ."
        value, unit = values[0]
        with_unit = f" ?pv <{UNIT}> {quoted(literal_value(unit))} ." if unit else ""
        return f"?e <{edge}> ?pv . ?pv <{kind}> {_value(value)} .{with_unit}"

    def results(self, nodes: Iterable[str]) -> dict[str, Shown]:
        shown = super().results(nodes)
        unnamed = [node for node, as_ in shown.items() if node.startswith("_:") and as_.text == node]
        return shown | self._values(unnamed)

    def result(self, node: str, name: str | None) -> Shown:
        if not node.startswith('"'):  # a relation has no name: its answer is its words
            return Shown(name or node, name or (node if node.startswith("_:") else node.replace("_", " ")))
        value, _, datatype = parse_literal(node)
        shown = value if datatype in ("", XSD + "integer") else typed(node, whole=True)
        return Shown(shown, _number(value) if datatype == XSD + "double" else value)

    def _values(self, nodes: Sequence[str]) -> dict[str, Shown]:
        """What the nodes of values say; others, such as facts, are left out."""
        if not nodes:
            return {}
        term = self.store.queries.term
        parts = " ".join(f"OPTIONAL {{ ?x {term(part)} ?v{k} }}" for k, part in enumerate(PARTS))
        values = " ".join(map(term, nodes))
        found: dict[str, Shown] = {}
        for row in self.store.rows(f"SELECT ?x ?v0 ?v1 ?v2 ?v3 {{ VALUES ?x {{ {values} }} {parts} }}"):
            value = next((row[key] for key in ("v0", "v2", "v3") if key in row), None)
            if value is not None:
                unit = literal_value(row["v1"]) if "v1" in row else "1"
                shown = self.result(value, None)
                found[row["x"]] = shown if unit == "1" else Shown(shown.text, f"{shown.answer} {unit}")
        return found


def _value(term: str) -> str:
    """A value in a pattern: a year bare, all else as SPARQL writes it."""
    value, _, datatype = parse_literal(term)
    return value if datatype == XSD + "integer" else typed(term)


def _number(text: str) -> str:
    """A number without a fraction of nothing, as the published answers have it."""
    return text[:-2] if text.endswith(".0") else text
