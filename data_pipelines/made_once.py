"""A file of records that is made once from its settings, with what was counted beside it."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from data_pipelines.importers.counts import Counts
from graphwalker.files import atomic_files, dump_json, dump_jsonl, parse_json


def made_once(out: Path, settings: Mapping[str, Any], records: Callable[[Counts], Iterable[Any]]) -> None:
    """Write ``out`` and, beside it, its settings and counts; what is there from the same settings is left as it is."""
    beside = out.with_suffix(".counts.json")
    try:
        if out.is_file() and parse_json(beside.read_bytes())["settings"] == settings:
            return
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not there, or not whole: made below
    counts = Counts()
    with atomic_files(out, beside) as (handle, counted):
        dump_jsonl(handle, records(counts))
        dump_json(counted, {"settings": settings, **counts.to_json()})
