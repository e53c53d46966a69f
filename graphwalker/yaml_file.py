"""YAML of settings, read safely: whatever is wrong with a file, one line says what and where."""

import os
from pathlib import Path
from typing import Any

import yaml

from graphwalker.errors import FileFormatError, UserError


class _Loader(yaml.SafeLoader):
    """The safe loader, where a key that stands twice in a mapping is a mistake: the last one would win in silence.

    It lets Python's own errors out for values such as 2024-13-45: they get their place here.
    """

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        mapping = super().compose_mapping_node(anchor)
        before: dict[tuple[str, str], int] = {}
        for key, _ in mapping.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            name = (key.tag, key.value)
            if name in before:
                problem = f"the key {key.value!r} stands here a second time (first in line {before[name]})"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            before[name] = key.start_mark.line + 1
        return mapping

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, ArithmeticError) as error:
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                None, None, f"{str(getattr(node, 'value', ''))[:80]!r} is no {kind}", node.start_mark
            ) from error


def parse_yaml(text: str, where: str | os.PathLike) -> dict[Any, Any]:
    """The mapping that a text holds. Raises ``UserError`` that names ``where`` and, if it can be told, the line."""
    try:
        values = yaml.load(text, _Loader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise FileFormatError(where, line, f"not YAML: character U+{ord(text[error.position]):04X}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise FileFormatError(where, line, f"not YAML: {error.problem or error.context}") from error
    except (ValueError, OverflowError) as error:  # an escape such as \UFFFFFFFF
        raise UserError(f"{where}: not YAML: {error}") from error
    except RecursionError:
        raise UserError(f"{where}: nested too deep") from None
    if not isinstance(values, dict):
        raise UserError(f"{where}: expected a mapping (`key: value`), got {repr(values)[:80]}")
    return values


def read_yaml(path: str | os.PathLike) -> dict[Any, Any]:
    """The mapping in a file; raises ``UserError`` as `parse_yaml` does, and for a file that cannot be read."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 ({error.reason})") from error
    return parse_yaml(text, path)
