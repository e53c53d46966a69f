"""MetaQA's knowledge base (WikiMovies, https://github.com/yuyuz/MetaQA) as a KG.

Read as the authors publish it, ``kb.txt`` with ``head|relation|tail`` a line, or as integer triples with
``entities.dict`` and ``relations.dict`` beside them. Where a file holds a fact a second time under ``R_reverse``, the
two are one fact here, stored as ``R`` from its head to its tail: an agent meets ``R`` from both ends anyway, and would
otherwise be shown every fact twice. Nodes are known by their names, so an id is the name itself, percent-encoded.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from data_pipelines.importers.lines import read_columns, read_integer_columns
from graphwalker.errors import FileFormatError, UserError

REVERSE = "_reverse"
RELATIONS = (
    "directed_by",
    "written_by",
    "starred_actors",
    "release_year",
    "in_language",
    "has_tags",
    "has_genre",
    "has_imdb_votes",
    "has_imdb_rating",
)


@lru_cache(1 << 16)
def entity_id(name: str) -> str:
    """The id of the node with this name: the same in every build.

    >>> entity_id("Paris, Texas")
    'Paris%2C%20Texas'
    """
    return quote(name, safe="")


def read_kb(source: str | Path) -> Iterator[tuple[str, str, str]]:
    """Yield the facts as ``(head name, relation, tail name)``, reversed ones turned round; a fact may come twice.

    ``source`` is ``kb.txt``, or a folder (or its ``kb`` subfolder) with ``kb.txt`` or with the integer form.
    Raises ``UserError`` when neither is there, ``FileFormatError`` on a broken line.
    """
    source = Path(source)
    if source.is_file():
        return map(_forward, _named(source))
    for folder in (source, source / "kb"):
        if (folder / "kb.txt").is_file():
            return map(_forward, _named(folder / "kb.txt"))
        if (folder / "entities.dict").is_file():
            return map(_forward, _numbered(folder))
    raise UserError(f"{source}: holds neither kb.txt nor entities.dict, relations.dict and train.txt")


def _forward(fact: tuple[str, str, str]) -> tuple[str, str, str]:
    head, relation, tail = fact
    return (tail, relation.removesuffix(REVERSE), head) if relation.endswith(REVERSE) else fact


def _named(path: Path) -> Iterator[tuple[str, str, str]]:
    for _, (head, relation, tail) in read_columns(path, 3, "|", "head|relation|tail"):
        yield head, relation, tail


def _numbered(folder: Path) -> Iterator[tuple[str, str, str]]:
    entities, relations = _dictionary(folder / "entities.dict"), _dictionary(folder / "relations.dict")
    files = [path for split in ("train", "valid", "test") if (path := folder / f"{split}.txt").is_file()]
    if not files:
        raise UserError(f"{folder / 'train.txt'}: no such file")
    for path in files:
        for number, (head, relation, tail) in read_integer_columns(path, "head, relation, tail", counted=False):
            try:
                yield entities[head], relations[relation], entities[tail]
            except KeyError as error:
                name = "relations.dict" if error.args[0] == relation and relation not in relations else "entities.dict"
                raise FileFormatError(path, number, f"number {error.args[0]} is not in {folder / name}") from error


def _dictionary(path: Path) -> dict[int, str]:
    entries: dict[int, str] = {}
    for number, (key, name) in read_columns(path, 2, "\t", "number, tab, name"):
        if not key.isdigit():
            raise FileFormatError(path, number, f"expected a number first, got {key!r}")
        if entries.setdefault(int(key), name) != name:
            raise FileFormatError(path, number, f"number {key} stands for {entries[int(key)]!r} already")
    return entries
