"""MetaQA's questions (Zhang et al. 2018, https://github.com/yuyuz/MetaQA) as ``Question`` records.

A line is ``what movies did [Temuera Morrison] act in<tab>Once Were Warriors|Tracker``; the question type stands on the
same line of a file beside it (``actor_to_movie``) and gives the gold path. Two traps of the published gold: from two
hops on the topic entity itself is left out (at three at every hop), and an answer with a comma can stand split at it
(``Paris|Texas``), which is put together again where the KG's gold path leads to the whole name.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from data_pipelines.importers.found import Found
from data_pipelines.importers.lines import read_lines
from data_pipelines.importers.metaqa_kb import entity_id
from data_pipelines.importers.paths import PathWalker
from data_pipelines.importers.records import Row
from graphwalker.errors import FileFormatError, UserError
from graphwalker.kg.store import KGStore
from graphwalker.types import Entity, Question

SPLITS = ("train", "dev", "test")
RELATION_OF = {
    "director": "directed_by",
    "writer": "written_by",
    "actor": "starred_actors",
    "year": "release_year",
    "language": "in_language",
    "tags": "has_tags",
    "tag": "has_tags",
    "genre": "has_genre",
    "imdbvotes": "has_imdb_votes",
    "imdbrating": "has_imdb_rating",
}
MOVIE = "movie"
MISSING_TOPIC = "error"  # MetaQA is made from its KB: another KG than that one is a mistake
ONLY_ENTITIES = True


@dataclass(frozen=True)
class QuestionFile:
    """One file of questions, with the file of their types (``None`` when there is none)."""

    path: Path
    types: Path | None
    split: str
    hops: int | None


def path_of_type(question_type: str) -> tuple[str, ...]:
    """The gold path of a question type; raises ``ValueError`` when it is not one of MetaQA's.

    >>> path_of_type("actor_to_movie_to_year")
    ('^starred_actors', 'release_year')
    """
    stations = question_type.split("_to_")
    hops = []
    for here, there in zip(stations, stations[1:], strict=False):
        film, other = (here, there) if here == MOVIE else (there, here)
        if film != MOVIE or other not in RELATION_OF:
            raise ValueError(f"unknown question type {question_type!r}")
        hops.append(RELATION_OF[other] if here == MOVIE else "^" + RELATION_OF[other])
    if not hops:
        raise ValueError(f"unknown question type {question_type!r}")
    return tuple(hops)


def find_files(source: str | Path, split: str | None = None) -> list[QuestionFile]:
    """The question files in a data set's folder, in one of its ``N-hop`` folders, or the one file given.

    Both layouts in the wild are found: ``1-hop/vanilla/qa_dev.txt`` (the authors') and ``1-hop/dev.txt``.
    """
    source = Path(source)
    if source.is_file():
        name = source.stem.removeprefix("qa_")
        return [_question_file(source, name if name in SPLITS else "")]
    folders = [source] if _hops_in(source.name) else sorted(p for p in source.glob("*-hop") if _hops_in(p.name))
    found = [
        _question_file(path, name)
        for folder in folders
        for name in SPLITS
        if split in (None, name)
        for path in [folder / "vanilla" / f"qa_{name}.txt", folder / f"qa_{name}.txt", folder / f"{name}.txt"]
        if path.is_file()
    ]
    if not found:
        wanted = f" of split {split!r}" if split else ""
        raise UserError(
            f"{source}: no MetaQA question file{wanted} (looked for N-hop/vanilla/qa_SPLIT.txt, N-hop/SPLIT.txt)"
        )
    return found


def _hops_in(name: str) -> int | None:
    match = re.fullmatch(r"(\d)-hop", name)
    return int(match[1]) if match else None


def _question_file(path: Path, split: str) -> QuestionFile:
    types = (folder / f"qa_{split}_qtype.txt" for folder in (path.parent, path.parent.parent))
    hops = _hops_in(path.parent.name) or _hops_in(path.parent.parent.name)
    return QuestionFile(path, next((t for t in types if t.is_file()), None), split, hops)


def read(source: Path, split: str | None = None, *, form: str = "metaqa") -> Iterator[Found]:
    """Yield the questions of all files of the source."""
    for file in find_files(source, split):
        types = dict(read_lines(file.types)) if file.types else {}
        number = 0
        for number, line in read_lines(file.path):
            question = replace(_read_line(file, number, line, types), dataset=form)
            yield Found(question, Row(file.path, number, 0, None))
        if types and max(types) != number:
            raise UserError(f"{file.types}: has {max(types):,} types for the {number:,} questions of {file.path}")


def _read_line(file: QuestionFile, number: int, line: str, types: dict[int, str]) -> Question:
    text, tab, gold = line.partition("\t")
    if not tab or "\t" in gold:
        raise FileFormatError(file.path, number, f"expected question, tab, answers, got {line[:200]!r}")
    start, end = text.find("["), text.rfind("]")
    topic = text[start + 1 : end]
    if start < 0 or not topic.strip():
        raise FileFormatError(file.path, number, f"no [topic entity] in the question {text[:200]!r}")
    path: tuple[str, ...] = ()
    if file.types:
        if number not in types:
            raise FileFormatError(file.types, number, f"no type for the question on line {number} of {file.path}")
        try:
            path = path_of_type(types[number].strip())
        except ValueError as error:
            raise FileFormatError(file.types, number, str(error)) from error
    hops = len(path) or file.hops
    names = dict.fromkeys(name.strip() for name in gold.split("|"))
    return Question(
        id="-".join(part for part in ("metaqa", f"{hops}hop" if hops else "", file.split, str(number)) if part),
        text=text[:start] + topic + text[end + 1 :],
        topic_entities=(Entity(topic),),
        answers=tuple(Entity(name) for name in names if name),
        dataset="metaqa",
        split=file.split,
        structure=f"{hops}-hop" if hops else "",
        hops=hops,
        paths=(path,) if path else (),
    )


def _id_of(name: str, store: KGStore) -> str | None:
    """The node with this very name: by its id in a KG that `import-kg` built, by its name in any other."""
    if store.has_node(entity_id(name)) and store.names([entity_id(name)]) == [name]:
        return entity_id(name)
    return next(iter(store.named(name)), None)


def settle(question: Question, walker: PathWalker) -> tuple[Question, list[str]]:
    """The question with the KG's ids; answers that stand split at their commas are put together."""
    store, notes = walker.store, []
    names = [answer.name for answer in question.answers]
    topics = tuple(replace(topic, id=_id_of(topic.name, store)) for topic in question.topic_entities)
    question = replace(question, topic_entities=topics)
    if ends := walker.ends(question):
        joined = rejoin(names, {name for name in store.names(sorted(ends)) if name is not None})
        if joined != names:
            notes.append("an answer that stood split at its comma was put together")
            names = joined
    return replace(question, answers=tuple(Entity(name, _id_of(name, store)) for name in names)), notes


def rejoin(names: Sequence[str], expected: Collection[str], longest: int = 8) -> list[str]:
    """Put neighbours together that are one expected name cut at its commas; expected names are never swallowed.

    >>> rejoin(["Alien", "Paris", "Texas", "Sonny"], {"Alien", "Paris, Texas", "Sonny"})
    ['Alien', 'Paris, Texas', 'Sonny']
    """
    if all(name in expected for name in names):
        return list(names)
    out: list[str] = []
    position = 0
    while position < len(names):
        end = _joined_end(names, position, expected, longest)
        out.append(next(_joins(names[position:end], expected.__contains__), names[position]))
        position = max(end, position + 1)
    return out


def _joined_end(names: Sequence[str], start: int, expected: Collection[str], longest: int) -> int:
    for end in range(min(len(names), start + longest), start + 1, -1):
        pieces = names[start:end]
        if not all(piece in expected for piece in pieces) and any(_joins(pieces, expected.__contains__)):
            return end
    return start + 1


def _joins(pieces: Sequence[str], is_name: Callable[[str], bool]) -> Iterator[str]:
    return (name for comma in (", ", ",") if is_name(name := comma.join(pieces)))
