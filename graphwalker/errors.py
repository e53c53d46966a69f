"""Errors that a user can act on: each names what was wrong, where, and what to do."""

import math
from dataclasses import fields, is_dataclass


class UserError(Exception):
    """Bad input or a missing precondition; the console prints its message alone and exits with 2."""


def at_least(config: object, **lowest: float) -> None:
    """Raise `UserError` for a field of a config that is no finite number or below its lowest value.

    `None` is below nothing, where it is the field's default.
    """
    defaults = {f.name: f.default for f in fields(config)} if is_dataclass(config) else {}
    for field, low in lowest.items():
        value = getattr(config, field)
        if value is None and defaults.get(field) is None:
            continue
        if not isinstance(value, int | float) or isinstance(value, bool) or value in (math.inf, -math.inf):
            raise UserError(f"{field}: expected a number, got {value!r}")
        if not value >= low:  # so that NaN is refused
            raise UserError(f"{field}: must be at least {low}, got {value}")


class FileFormatError(UserError):
    """A broken record in a file: the message starts with ``path:line:``."""

    def __init__(self, path, line: int, problem: str):
        super().__init__(f"{path}:{line}: {problem}")
        self.path, self.line, self.problem = str(path), line, problem


class KGUnavailable(Exception):
    """The KG could not answer (outage or time-out), which is never the same as an empty answer.

    ``status`` is ``"kg_timeout"`` or ``"kg_error"``; ``kind`` says more where more is known, for counting: a server may
    have refused, reset, cut its answer or been down already (``graphwalker.kg.sparql_results.Kind``). ``whose`` begins
    the message of a program that ends by it.
    """

    whose = "the knowledge graph does not answer: "

    def __init__(self, message: str, status: str = "kg_error", kind: str = ""):
        super().__init__(message)
        self.status, self.kind = status, kind or status.removeprefix("kg_")


class QueryRefused(ValueError):
    """A SPARQL query that cannot or must not be run; its message is one line that a model can act on."""


class QueryMalformed(QueryRefused):
    """A SPARQL query that is none: it cannot be parsed."""
