"""Relations in words: questions from relation paths, with the entities in between never named.

A question is a topic entity inside a chain of phrases: "What is the currency of the country of Ghazni?". The
wording of a relation comes from `phrases.yaml`; a relation that is not there is read off its own id, so that any
KG works.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from graphwalker.errors import UserError
from graphwalker.yaml_file import parse_yaml, read_yaml

_FIELDS = ("noun", "np", "ask", "pred")


@dataclass(frozen=True)
class Phrase:
    """The wordings of one relation; `{x}` stands for what it starts from."""

    noun: str
    """What the relation leads to, for "Which NOUN …"."""
    np: tuple[str, ...]
    """Noun phrases for what it leads to."""
    ask: tuple[str, ...]
    """Whole questions."""
    pred: tuple[str, ...]
    """What is true of the answer, after "Which NOUN"."""


def short_name(relation: str) -> str:
    """The last part of a relation's id as words; for one through a CVT, of its second relation.

    >>> short_name("location.country.currency_used"), short_name("^film.film.directed_by"), short_name("bornIn")
    ('currency used', 'directed by', 'born in')
    """
    last = relation.removeprefix("^").rsplit(".", 1)[-1].rsplit("/", 1)[-1].rsplit("#", 1)[-1]
    spaced = "".join(f" {c.lower()}" if c.isupper() and i and last[i - 1].islower() else c for i, c in enumerate(last))
    return " ".join(spaced.replace("_", " ").replace("-", " ").split()) or relation


def _long_name(relation: str) -> str:
    """Like `short_name`, with the part before it where that adds something.

    Freebase's last parts repeat over domains (`number`, `location`), and a question must tell its relation apart.
    """
    parts = [p for p in relation.removeprefix("^").split(".") if p]
    if len(parts) >= 5:  # through a CVT: what leads in names the matter, what leads out names the answer
        return f"{short_name(parts[2])} {short_name(parts[-1])}"
    if len(parts) >= 3 and short_name(parts[-2]) not in short_name(parts[-1]):
        return f"{short_name(parts[-2])} {short_name(parts[-1])}"
    return short_name(relation)


def generic_phrase(relation: str) -> Phrase:
    """A phrase read off the id of a relation that has no wording of its own."""
    name = _long_name(relation)
    if relation.startswith("^"):
        return Phrase(
            "thing",
            (f"the one whose {name} is {{x}}",),
            (f"What has {{x}} as its {name}?", f"Whose {name} is {{x}}?"),
            (f"has {{x}} as its {name}",),
        )
    return Phrase(
        short_name(relation),
        (f"the {name} of {{x}}",),
        (f"What is the {name} of {{x}}?",),
        (f"is the {name} of {{x}}",),
    )


class Phrases:
    """The wordings of a KG's relations."""

    def __init__(self, phrases: Mapping[str, Phrase]) -> None:
        self._phrases = dict(phrases)
        self._generic: dict[str, Phrase] = {}

    def __contains__(self, relation: str) -> bool:
        return relation in self._phrases

    def __getitem__(self, relation: str) -> Phrase:
        phrase = self._phrases.get(relation) or self._phrases.get(_twin(relation)) or self._generic.get(relation)
        if phrase is None:
            phrase = self._generic[relation] = generic_phrase(relation)
        return phrase

    def chain(self, topic: str, path: Sequence[str], rng: random.Random) -> str:
        """A question that walks `path` from the entity named `topic`, naming no other entity."""
        inner = _noun_phrase(self, topic, path[:-1], rng)
        return _fill(rng.choice(self[path[-1]].ask), inner)

    def conjunction(self, topics: Sequence[str], paths: Sequence[Sequence[str]], rng: random.Random) -> str:
        """A question for what every branch leads to, in one sentence."""
        nouns = [self[path[-1]].noun for path in paths]
        parts = [
            _fill(rng.choice(self[path[-1]].pred), _noun_phrase(self, topic, path[:-1], rng))
            for topic, path in zip(topics, paths, strict=True)
        ]
        noun = next((n for n in nouns if n not in ("place", "thing")), nouns[0])  # the most telling of the branches'
        return f"{rng.choice(('Which', 'What'))} {noun} {' and '.join(parts)}?"


def _twin(relation: str) -> str:
    """The other way to write a relation that is walked backwards: MetaQA's files call `^r` `r_reverse`."""
    backwards, name = relation.startswith("^"), relation.removeprefix("^")
    if name.endswith("_reverse"):
        return ("" if backwards else "^") + name.removesuffix("_reverse")
    return f"{name}_reverse" if backwards else relation


def _noun_phrase(phrases: Phrases, topic: str, path: Sequence[str], rng: random.Random) -> str:
    for relation in path:
        topic = _fill(rng.choice(phrases[relation].np), topic)
    return topic


def _fill(template: str, x: str) -> str:
    """Put `x` in, without a doubled article ("the country that uses the the euro")."""
    if x.startswith("the ") and "the {x}" in template:
        template = template.replace("the {x}", "{x}")
    return template.replace("{x}", x)


def _checked(values: dict, where: str) -> dict[str, Phrase]:
    relations = values.get("relations")
    if not isinstance(relations, dict):
        raise UserError(f"{where}: expected a mapping 'relations'")
    phrases = {}
    for relation, fields in relations.items():
        for key in fields if isinstance(fields, dict) else ():
            if key not in _FIELDS:
                raise UserError(f"{where}: {relation}: unknown key {key!r}; known: {', '.join(_FIELDS)}")
        if not isinstance(fields, dict) or set(fields) != set(_FIELDS):
            raise UserError(f"{where}: {relation}: needs each of {', '.join(_FIELDS)}")
        lists = {key: fields[key] for key in _FIELDS[1:]}
        for key, values in lists.items():
            if not isinstance(values, list) or not values or not all(isinstance(v, str) and "{x}" in v for v in values):
                raise UserError(f"{where}: {relation}: {key} must list phrases with {{x}} in each")
        phrases[relation] = Phrase(str(fields["noun"]), *(tuple(lists[key]) for key in _FIELDS[1:]))
    return phrases


def built_in_text() -> str:
    """The text of `phrases.yaml`."""
    return resources.files("data_pipelines").joinpath("phrases.yaml").read_text("utf-8")


@functools.cache
def load_phrases(path: str | Path | None = None) -> Phrases:
    """The built-in phrases, with those of a YAML file of the same form over them.

    Raises `UserError` on a missing file, an unknown key, or a phrase without `{x}`.
    """
    phrases = _checked(parse_yaml(built_in_text(), "phrases.yaml"), "phrases.yaml")
    if path is not None:
        phrases |= _checked(read_yaml(path), str(path))
    return Phrases(phrases)
