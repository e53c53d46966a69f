"""Schema profiles: what names an entity, what a mediator is, what is hidden, how ids print."""

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Self

from graphwalker.errors import UserError
from graphwalker.yaml_file import parse_yaml, read_yaml

_BASE = "urn:graphwalker:"  # what an id without a prefix stands under when the profile gives no "" namespace


@dataclass(frozen=True)
class Schema:
    """A profile. Predicates, types and prefixes of ids are given short, as `compact` prints them."""

    name: str = "custom"
    """Shown in messages."""
    namespaces: dict[str, str] = field(default_factory=dict)
    """Prefix -> IRI. The empty prefix takes its IRI off altogether (`m.02mjmr`)."""
    short_namespace: bool = False
    """When no namespace is `""`: take off the one that most predicates without a prefix stand in."""
    name_predicates: tuple[str, ...] = ()
    """What names an entity; the first that is present wins."""
    alias_predicates: tuple[str, ...] = ()
    """Further names."""
    description_predicates: tuple[str, ...] = ()
    """What describes an entity in a sentence or more; only search reads it."""
    type_predicates: tuple[str, ...] = ()
    """What types an entity: of two with one name, the one with more types comes first."""
    types_visible: bool = False
    """The agent sees the predicates of types like any other."""
    reverse_predicates: tuple[str, ...] = ()
    """What declares two relations to be each other's reverse."""
    languages: tuple[str, ...] = ("en", "")
    """Languages of names and aliases, best first; `""` is a string without a tag. Others are not names."""
    name_from_id: bool = False
    """An entity without a name is named by the end of its IRI, underscores as spaces."""
    id_pattern: str = ""
    """A regular expression: a name that matches it whole is an id, not a name."""
    hidden_predicates: tuple[str, ...] = ()
    """Predicates the agent never sees, beside those of names, aliases, reverses and (unless shown) types."""
    hidden_prefixes: tuple[str, ...] = ()
    """Prefixes of such predicates."""
    visible_predicates: tuple[str, ...] = ()
    """A whitelist, if given: the agent sees only these."""
    mediators_unnamed: bool = False
    """Every entity without a name is a mediator (Freebase's CVT nodes)."""
    mediators_blank: bool = False
    """A blank node without a name is a mediator."""
    mediator_prefixes: tuple[str, ...] = ()
    """Entities without a name whose ids start so are mediators (Wikidata's statements)."""

    def compact(self, iri: str) -> str:
        """The short id of an IRI; an IRI that the short form would not expand back to stays whole.

        >>> load_schema("freebase").compact("http://rdf.freebase.com/ns/m.0abc")
        'm.0abc'
        """
        best, result = -1, iri
        for prefix, base in self.namespaces.items():
            if len(base) > best and iri.startswith(base) and len(iri) > len(base):
                local = iri[len(base) :]
                short = f"{prefix}:{local}" if prefix else local
                if self.expand(short) == iri:
                    best, result = len(base), short
        if best < 0 and "" not in self.namespaces and iri.startswith(_BASE) and self.expand(iri[len(_BASE) :]) == iri:
            return iri[len(_BASE) :]
        return result

    def expand(self, node: str) -> str:
        """The IRI of an id; a blank node or what is already an IRI stays as it is."""
        prefix, colon, local = node.partition(":")
        if not colon:
            return self.namespaces.get("", _BASE) + node
        if prefix and prefix in self.namespaces:
            return self.namespaces[prefix] + local
        return node

    def is_visible(self, predicate: str) -> bool:
        """Whether an agent may see the predicate."""
        if predicate in self._unseen or predicate.startswith(self.hidden_prefixes):
            return False
        return not self.visible_predicates or predicate in self._whitelist

    @cached_property
    def _unseen(self) -> frozenset[str]:
        return frozenset(
            self.name_predicates
            + self.alias_predicates
            + (() if self.types_visible else self.type_predicates)
            + self.reverse_predicates
            + self.hidden_predicates
        )

    @cached_property
    def _whitelist(self) -> frozenset[str]:
        return frozenset(self.visible_predicates)

    @cached_property
    def _id_name(self) -> re.Pattern | None:
        return re.compile(self.id_pattern) if self.id_pattern else None

    def is_name(self, text: str) -> bool:
        """Whether a name says something: not empty, and not an id."""
        return bool(text) and not (self._id_name and self._id_name.fullmatch(text))

    def can_mediate(self, node: str) -> bool:
        """Whether an entity is a mediator if it has no name of its own."""
        if self.mediators_unnamed or (self.mediators_blank and node.startswith("_:")):
            return True
        return bool(self.mediator_prefixes) and node.startswith(self.mediator_prefixes)

    def id_name(self, node: str) -> str:
        """The name that an id gives, `""` for none (see `name_from_id`)."""
        if not self.name_from_id or node.startswith("_:"):
            return ""
        return re.split(r"[#/:]", node.rstrip("#/:"))[-1].replace("_", " ").strip()

    def with_short_namespace(self, predicates: Iterable[str]) -> "Schema":
        """The profile with `""` for the namespace of most of these predicate IRIs, where `short_namespace` asks so."""
        if not self.short_namespace or "" in self.namespaces:
            return self
        counts: dict[str, int] = {}
        for predicate in predicates:
            base = predicate[: max(predicate.rfind("#"), predicate.rfind("/")) + 1]
            if base and "://" in base and base not in self.namespaces.values():
                counts[base] = counts.get(base, 0) + 1
        if not counts:
            return self
        chosen = min(counts, key=lambda base: (-counts[base], base))
        return dataclasses.replace(self, namespaces={**self.namespaces, "": chosen})

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, record: Any, where: str = "schema") -> Self:
        """A checked profile. Raises `UserError` for an unknown key or a wrong kind of value, naming it."""
        if not isinstance(record, dict):
            raise UserError(f"{where}: expected settings (`key: value`), got {record!r}")
        known = {f.name: f for f in dataclasses.fields(cls)}
        for key in record:
            if key not in known:
                raise UserError(f"{where}: unknown key {key!r}; known keys are {', '.join(known)}")
        values = {key: _checked(value, known[key], f"{where}: {key}") for key, value in record.items()}
        return cls(**values)


def _checked(value: Any, setting: dataclasses.Field, where: str) -> Any:
    """The value in the kind its field wants."""
    if setting.type in (str, bool):
        if not isinstance(value, setting.type):
            raise UserError(
                f"{where}: expected {'true or false' if setting.type is bool else 'a string'}, got {value!r}"
            )
        if setting.name == "id_pattern":
            try:
                re.compile(value)
            except re.error as error:
                raise UserError(f"{where}: not a regular expression: {error}") from error
        return value
    if setting.name == "namespaces":
        if not isinstance(value, dict) or not all(isinstance(x, str) for pair in value.items() for x in pair):
            raise UserError(f"{where}: expected prefixes and their IRIs, got {value!r}")
        for prefix, base in value.items():
            if not re.fullmatch(r"[\w.-]*", prefix) or prefix == "_" or ":" not in base:
                raise UserError(f"{where}: {prefix!r}: {base!r} is not a prefix (letters, digits) and an IRI")
        return dict(value)
    if not isinstance(value, list | tuple) or not all(isinstance(x, str) for x in value):
        raise UserError(f"{where}: expected a list of strings, got {value!r}")
    return tuple(value)


def builtin_schemas() -> list[str]:
    """Names of the profiles that come with the package."""
    folder = resources.files("graphwalker.kg").joinpath("schemas")
    return sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml"))


def load_schema(schema: "Schema | str | Path", _above: tuple[str, ...] = ()) -> Schema:
    """A profile by name or from a YAML file; a `Schema` stays as it is. Raises `UserError` with file and key."""
    if isinstance(schema, Schema):
        return schema
    where = str(schema)
    if where in _above:
        raise UserError(f"{where}: extends itself")
    if where in builtin_schemas():
        text = resources.files("graphwalker.kg").joinpath("schemas", f"{where}.yaml").read_text("utf-8")
        record = parse_yaml(text, where)
    elif Path(where).is_file():
        record = read_yaml(where)
    else:
        raise UserError(f"no schema {where!r}: not a file, and not one of {', '.join(builtin_schemas())}")
    return Schema.from_json(_resolved(record, Path(where).parent, where, (*_above, where)), where)


def _resolved(record: dict[str, Any], folder: Path, where: str, above: tuple[str, ...]) -> dict[str, Any]:
    """The settings with the profile that `extends` names under them, and with lists read from their files.

    A list may be given as `{file: NAME}`: one entry a line, empty lines and `#` comments left out, NAME beside the
    profile. Whitelists of Freebase's predicates have thousands of lines.
    """
    record = dict(record)
    if "extends" in record:
        base = str(record.pop("extends"))
        beside = folder / base
        record = {**load_schema(beside if beside.is_file() else base, above).to_json(), **record}
    for key, value in record.items():
        if key != "namespaces" and isinstance(value, dict) and set(value) == {"file"}:
            path = folder / str(value["file"])
            try:
                lines = path.read_text("utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise UserError(f"{where}: {key}: {path} cannot be read: {error}") from error
            record[key] = [entry for line in lines if (entry := line.partition("#")[0].strip())]
    return record
