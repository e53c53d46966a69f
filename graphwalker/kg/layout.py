"""The arrays of the in-memory store: computed once at build, memory-mapped ever after.

Terms are numbered by the name they print with, then by id: a neighbour list in the order of its numbers is in the
order `KGStore.expand` wants, and terms of one `rank` print alike. All arrays are little-endian `.npy` files:

=================  =======================================================================================
blob, offsets      (bytes,), (n + 1,)  the terms' text; term i is blob[offsets[i]:offsets[i + 1]]
hash, hash_term    (n,) sorted CRC-32 of the terms' text, and whose it is
name               (n,) the term that names term i: itself for a literal, -1 for none, -2 for the end of its id
mediator           (n,) 1 for a mediator
out_*, in_*        ptr (n + 1,) segments of term i; rel (segments,); beg (segments + 1,); term (triples,)
step_ptr           (n + 1,) the steps of term i
step, step_shown   (steps,) a place in the table of steps, which `kinds.json` holds; 0 for a repeated reverse
step_beg, fact     (steps + 1,) the facts of a step; (facts,) the term at the other end of each
named_*, folded_*  hash (names,) sorted CRC-32 of a name, whole or case-folded; term (names,) who bears it
=================  =======================================================================================
"""

import json
import unicodedata
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from graphwalker.kg.steps import all_walks
from graphwalker.kg.store import Step
from graphwalker.kg.table import TripleTable, distinct_rows, first_of_runs, pairs
from graphwalker.kg.terms import literal_lang, literal_value

NO_NAME, NAME_FROM_ID = -1, -2


class Names(NamedTuple):
    """Who is called what."""

    best: dict[int, int]  # entity -> the literal that names it
    all: list[tuple[int, int]]  # (entity, literal) for every name in the schema's languages


def crc(text: str) -> int:
    """The hash of the indexes: the same in every process and on every machine."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def fold(name: str) -> str:
    """A name without case and Unicode form."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def write_layout(table: TripleTable, folder: Path, *, progress: bool = False) -> dict[str, int]:
    """Compute and write all arrays into `folder`; returns the counts that `meta.json` shows."""
    with tqdm(total=6, desc="indexing", unit=" steps", disable=not progress) as bar:
        table, names, printed = _renumber(table)
        bar.update()
        mediators = find_mediators(table, names)
        _save_terms(folder, table.terms)
        bar.update()
        name = np.full(len(table.terms), NO_NAME, np.int32)
        for i, text in enumerate(table.terms):
            if text[0] == '"':
                name[i] = i
            elif i in names.best:
                name[i] = names.best[i]
            elif not mediators[i] and table.schema.id_name(text):
                name[i] = NAME_FROM_ID
        rank = np.cumsum([0] + [a != b for a, b in zip(printed, printed[1:], strict=False)]).astype(np.int32)
        _save(folder, name=name, mediator=mediators.astype(np.uint8))
        bar.update()
        rows = table.rows
        _save_adjacency(folder, "out", rows, len(table.terms))
        _save_adjacency(folder, "in", distinct_rows(rows[:, ::-1]), len(table.terms))
        bar.update()
        table_of_steps = _save_steps(folder, table, mediators, rank)
        bar.update()
        _save_name_index(folder, table, names, name)
        bar.update()
    entities = sum(text[0] != '"' for text in table.terms)
    return {
        "triples": len(rows),
        "entities": entities,
        "literals": len(table.terms) - entities,
        "predicates": len(table.predicates),
        "mediators": int(mediators.sum()),
        "relations": len({step.relation for step in table_of_steps}),
    }


def _renumber(table: TripleTable) -> tuple[TripleTable, Names, list[str]]:
    """The table with terms in the order of (printed name, id) and predicates in theirs, and the printed names."""
    names = find_names(table)
    terms, schema = table.terms, table.schema

    def printed(i: int) -> str:
        text = terms[i]
        if text[0] == '"':
            return literal_value(text)
        if i in names.best:
            return literal_value(terms[names.best[i]])
        return "" if schema.can_mediate(text) else schema.id_name(text)

    labels = [printed(i) or terms[i] for i in range(len(terms))]
    order = sorted(range(len(terms)), key=lambda i: (labels[i], terms[i]))
    place = np.empty(len(terms), np.int64)
    place[order] = np.arange(len(order))
    predicate_order = sorted(range(len(table.predicates)), key=table.predicates.__getitem__)
    predicate_place = np.empty(len(predicate_order), np.int64)
    predicate_place[predicate_order] = np.arange(len(predicate_order))
    rows = np.column_stack([place[table.rows[:, 0]], predicate_place[table.rows[:, 1]], place[table.rows[:, 2]]])
    renumbered = TripleTable(
        table.schema, [terms[i] for i in order], [table.predicates[i] for i in predicate_order], distinct_rows(rows)
    )
    moved = Names(
        {int(place[e]): int(place[n]) for e, n in names.best.items()},
        [(int(place[e]), int(place[n])) for e, n in names.all],
    )
    return renumbered, moved, [labels[i] for i in order]


def find_names(table: TripleTable) -> Names:
    """Names by the schema's predicates and languages; the best is the first by predicate, language and text."""
    schema = table.schema
    languages = {lang: i for i, lang in enumerate(schema.languages)}
    best: dict[int, tuple[int, int, str, int]] = {}
    every: list[tuple[int, int]] = []
    for level, predicate in enumerate(schema.name_predicates):
        for s, o in pairs(table, predicate):
            term = table.terms[o]
            lang = literal_lang(term) if term[0] == '"' else None
            if lang not in languages or not schema.is_name(literal_value(term)):
                continue
            every.append((s, o))
            key = (level, languages[lang], literal_value(term), o)
            if s not in best or key < best[s]:
                best[s] = key
    return Names({entity: key[3] for entity, key in best.items()}, every)


def find_mediators(table: TripleTable, names: Names) -> np.ndarray:
    """(n,) bool: entities that the schema takes for mediators."""
    can = table.schema.can_mediate
    return np.fromiter(
        (text[0] != '"' and i not in names.best and can(text) for i, text in enumerate(table.terms)),
        bool,
        len(table.terms),
    )


def _save_terms(folder: Path, terms: list[str]) -> None:
    encoded = [text.encode("utf-8") for text in terms]
    offsets = np.zeros(len(terms) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    hashes = np.fromiter((zlib.crc32(text) for text in encoded), np.uint32, len(encoded))
    order = np.argsort(hashes, kind="stable")
    _save(
        folder,
        blob=np.frombuffer(b"".join(encoded), np.uint8),
        offsets=offsets,
        hash=hashes[order],
        hash_term=order.astype(np.int32),
    )


def _save_adjacency(folder: Path, side: str, rows: np.ndarray, n: int) -> None:
    """Rows (near, relation, far), sorted: per near term its relations, per relation its far terms."""
    starts = np.flatnonzero(first_of_runs(rows[:, :2]))
    ptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(rows[starts, 0], minlength=n), out=ptr[1:])
    _save(
        folder,
        **{
            f"{side}_ptr": ptr.astype(np.int32),
            f"{side}_rel": rows[starts, 1].astype(np.int32),
            f"{side}_beg": np.append(starts, len(rows)).astype(np.int64),
            f"{side}_term": rows[:, 2].astype(np.int32),
        },
    )


def _save_steps(folder: Path, table: TripleTable, mediators: np.ndarray, rank: np.ndarray) -> list[Step]:
    steps, facts, starts, shown = all_walks(table, mediators, rank)
    ptr = np.zeros(len(table.terms) + 1, np.int64)
    np.cumsum(np.bincount(facts[starts, 0], minlength=len(table.terms)), out=ptr[1:])
    _save(
        folder,
        step_ptr=ptr,
        step=facts[starts, 1].astype(np.int32),
        step_shown=shown.astype(np.uint8),
        step_beg=np.append(starts, len(facts)),
        fact=facts[:, 2].astype(np.int32),
    )
    record = {"predicates": table.predicates, "steps": [[step.parts, step.inverse] for step in steps]}
    (folder / "kinds.json").write_text(json.dumps(record, ensure_ascii=False), "utf-8")
    return steps


def _save_name_index(folder: Path, table: TripleTable, names: Names, name: np.ndarray) -> None:
    bearers = [(literal_value(table.terms[n]), e) for e, n in names.all]
    bearers += [(table.schema.id_name(table.terms[e]), e) for e in np.flatnonzero(name == NAME_FROM_ID).tolist()]
    for index, key in (("named", lambda text: text), ("folded", fold)):
        pairs = distinct_rows(np.array([(crc(key(text)), e) for text, e in bearers], np.int64).reshape(-1, 2))
        _save(folder, **{f"{index}_hash": pairs[:, 0].astype(np.uint32), f"{index}_term": pairs[:, 1].astype(np.int32)})


def _save(folder: Path, **arrays: np.ndarray) -> None:
    for key, value in arrays.items():
        with open(folder / f"{key}.npy", "wb") as handle:
            # As np.save does, but that says only "1520 written" where the disk is full.
            np.lib.format.write_array_header_1_0(handle, np.lib.format.header_data_from_array_1_0(value))
            handle.write(np.ascontiguousarray(value).data)
