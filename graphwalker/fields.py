"""Checked values of a JSON record: each reader raises ``UserError`` that says what was expected and what came."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from reprlib import repr as shown  # short, whatever the value
from typing import Any

from graphwalker.errors import UserError

SCHEMA = 1  # of every record on disk
_SURROGATE = re.compile("[\ud800-\udfff]")


def fields_of(cls, record: Any, convert: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """The constructor arguments in a record, each converted; raises ``UserError`` that names the field at fault."""
    if not isinstance(record, dict):
        raise UserError(f"expected an object with the fields of a {cls.__name__}, got {shown(record)}")
    version = record.get("schema", SCHEMA)
    if version != SCHEMA:
        raise UserError(f"{cls.__name__} has schema {shown(version)}; this version reads schema {SCHEMA}")
    declared = {f.name: f for f in dataclasses.fields(cls)}
    unknown = sorted(set(record) - set(declared) - {"schema"})
    if unknown:
        raise UserError(f"unknown field {unknown[0]!r} in a {cls.__name__}; its fields are {', '.join(declared)}")
    required = [
        name
        for name, f in declared.items()
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING and name not in record
    ]
    if required:
        raise UserError(f"field {required[0]!r} is missing in a {cls.__name__}")
    values = {}
    for name in (name for name in declared if name in record):
        try:
            values[name] = convert[name](record[name])
        except UserError as error:
            raise UserError(f"{name}: {error}") from None
    return values


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise UserError(f"expected a string, got {shown(value)}")
    if _SURROGATE.search(value):
        raise UserError(f"half a surrogate pair is no text, got {shown(value)}")
    return value


def count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UserError(f"expected a whole number from 0 on, got {shown(value)}")
    return value


def boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UserError(f"expected true or false, got {shown(value)}")
    return value


def mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UserError(f"expected an object, got {shown(value)}")
    return value


def one_of(values: tuple[str, ...]) -> Callable[[Any], Any]:
    def converted(value: Any) -> Any:
        if value not in values:
            raise UserError(f"expected one of {', '.join(values)}, got {shown(value)}")
        return value

    return converted


def optional(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def list_of(convert: Callable[[Any], Any]) -> Callable[[Any], tuple]:
    def converted(value: Any) -> tuple:
        if not isinstance(value, (list, tuple)):
            raise UserError(f"expected a list, got {shown(value)}")
        return tuple(convert(item) for item in value)

    return converted


strings = list_of(text)
