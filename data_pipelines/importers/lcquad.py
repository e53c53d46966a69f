"""LC-QuAD 1 (Trivedi et al. 2017) on DBpedia and LC-QuAD 2 (Dubey et al. 2019) on Wikidata as ``Question`` records.

Their gold is a query; answers come with neither. A paraphrase, where there is one, is a question of its own.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from data_pipelines.importers.found import Found, from_sparql, split_of
from data_pipelines.importers.patterns import DBPEDIA
from data_pipelines.importers.records import read_records
from graphwalker.types import Question


class Record(msgspec.Struct):
    _id: str = ""
    uid: int | str = ""
    corrected_question: str | None = None
    question: str | None = None
    paraphrased_question: str | list[str] | None = None
    NNQT_question: str | None = None
    sparql_query: str | None = None
    sparql_wikidata: str | None = None
    sparql_template_id: int | None = None
    subgraph: str | None = None


def read(source: Path, split: str | None = None, *, form: str = "lcquad1") -> Iterator[Found]:
    """Yield the questions of a file of either version."""
    prefixes = (DBPEDIA + "resource/",) if form == "lcquad1" else ("Q",)
    for row in read_records(source, Record):
        record = row.value
        sparql = record.sparql_query if form == "lcquad1" else record.sparql_wikidata
        if sparql is None:
            raise row.error(f"field {'sparql_query' if form == 'lcquad1' else 'sparql_wikidata'!r} is missing")
        given = [record.corrected_question or record.question or record.NNQT_question, record.paraphrased_question]
        texts = [text.strip() for text in given if isinstance(text, str) and text.strip() not in ("", "n/a")]
        template = record.sparql_template_id
        question = Question(
            id=str(record.uid or record._id),
            text=texts[0] if texts else "",
            dataset=form,
            split=split or split_of(source),
            structure=record.subgraph or (f"template {template}" if template is not None else ""),
            sparql=sparql.strip(),
        )
        if not question.id:
            raise row.error(f"field {'_id' if form == 'lcquad1' else 'uid'!r} is missing")
        if not texts:
            yield Found(question, row, drop="it has no text")
            continue
        question = _named(from_sparql(question, prefixes))
        for number, text in enumerate(dict.fromkeys(texts)):
            name = question.id + ("-paraphrase" if number else "")
            yield Found(replace(question, id=name, text=text), row)


def _named(question: Question) -> Question:
    """DBpedia's ids hold the name."""
    base = DBPEDIA + "resource/"
    topics = tuple(
        replace(topic, name=topic.name.removeprefix(base).replace("_", " ")) for topic in question.topic_entities
    )
    return replace(question, topic_entities=topics)
