"""SimpleQuestions (Bordes et al. 2015, arXiv:1506.02075) and its Wikidata version (Diefenbach et al. 2017).

A line is subject, relation, object, question, apart by tabs; ids are Freebase's (``www.freebase.com/m/0abc``) or
Wikidata's (``Q42``, ``P19``, and ``R19`` for P19 from object to subject). No names are given.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from data_pipelines.importers.found import Found, split_of
from data_pipelines.importers.lines import read_columns
from data_pipelines.importers.records import Row
from graphwalker.types import Entity, Question

_FREEBASE = "www.freebase.com/"
_NODE, _RELATION = re.compile(r"Q\d+"), re.compile(r"([PR])(\d+)")


def read(source: Path, split: str | None = None, *, form: str = "simplequestions") -> Iterator[Found]:
    """Yield the questions of a file of either version."""
    for number, (subject, relation, end, text) in read_columns(source, 4, "\t", "subject, relation, object, question"):
        row: Row[None] = Row(source, number, 0, None)
        topic, hop, answer = _node(row, "subject", subject), _hop(row, relation), _node(row, "object", end)
        question = Question(
            id=f"{source.stem}-{number}",
            text=text,
            topic_entities=(Entity(topic, topic),),
            answers=(Entity(answer, answer),),
            dataset=form,
            split=split or split_of(source),
            structure="1-hop",
            hops=1,
            paths=((hop,),),
        )
        yield Found(question, row)


def _node(row: Row[None], field: str, text: str) -> str:
    if text.startswith(_FREEBASE):
        return text.removeprefix(_FREEBASE).replace("/", ".")
    if _NODE.fullmatch(text):
        return text
    raise row.error(f"field {field!r}: neither {_FREEBASE}m/… nor Q…: {text[:200]!r}")


def _hop(row: Row[None], text: str) -> str:
    if text.startswith(_FREEBASE):
        return text.removeprefix(_FREEBASE).replace("/", ".")
    if match := _RELATION.fullmatch(text):
        return ("^" if match[1] == "R" else "") + f"wdt:P{match[2]}"
    raise row.error(f"field 'relation': neither {_FREEBASE}…, P… nor R…: {text[:200]!r}")
