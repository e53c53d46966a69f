"""PathQuestion and PQL (Zhou et al. 2018, C18-1171) as ``Question`` records.

A line is question, ``answer(all/answers/)`` and ``topic#relation#entity#…#<end>#answer``, apart by tabs; names are
written with underscores, which become spaces here, in the question too.
"""

from collections.abc import Iterator
from pathlib import Path

from data_pipelines.importers.found import Found, split_of
from data_pipelines.importers.lines import read_columns
from data_pipelines.importers.records import Row
from graphwalker.types import Entity, Question

MISSING_TOPIC = "error"  # the questions are made from the KB beside them
ONLY_ENTITIES = True
END = "<end>"


def read(source: Path, split: str | None = None, *, form: str = "pathquestion") -> Iterator[Found]:
    """Yield the questions of a file (``PQ-2H.txt``, ``PQL-3H.txt``)."""
    for number, (text, gold, path) in read_columns(source, 3, "\t", "question, answers, path"):
        row: Row[None] = Row(source, number, 0, None)
        stations = path.split("#")
        if END not in stations or stations.index(END) % 2 == 0 or len(stations) < 4:
            raise row.error(f"field 'path': expected topic#relation#entity#…#{END}#answer, got {path[:200]!r}")
        way = stations[: stations.index(END)]
        topic, relations = spaced(way[0]), tuple(way[1::2])
        question = Question(
            id=f"{source.stem}-{number}",
            text=text.replace(way[0], topic),
            topic_entities=(Entity(topic),),
            answers=tuple(Entity(spaced(name)) for name in _answers(row, gold)),
            dataset=form,
            split=split or split_of(source),
            structure=f"{len(relations)}-hop",
            hops=len(relations),
            paths=(relations,),
        )
        yield Found(question, row)


def spaced(name: str) -> str:
    """A name as it prints."""
    return name.replace("_", " ")


def _answers(row: Row[None], gold: str) -> list[str]:
    """All answers; the one before the brackets comes first."""
    first, bracket, rest = gold.partition("(")
    while bracket and rest.endswith(")") and first not in rest.removesuffix(")").split("/"):
        more, bracket, rest = rest.partition("(")  # a name can hold brackets
        first += "(" + more
    if not first or not bracket or not rest.endswith("/)"):
        raise row.error(f"field 'answers': expected answer(all/answers/), got {gold[:200]!r}")
    return list(dict.fromkeys([first, *filter(None, rest.removesuffix("/)").split("/"))]))
