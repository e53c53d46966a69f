"""The files of the in-memory store: computed once at build, memory-mapped ever after.

`numbering` says how terms are numbered. All arrays are little-endian `.npy` files, of the smallest type that fits:

================  ==========================================================================================
blob, offsets     (bytes,), (n + 1,)  the terms' text; term i is blob[offsets[i]:offsets[i + 1]]
kind              (n,) what a term is and what names it, in bits (`numbering`)
hash, hash_term   (entities,) sorted CRC-32 of the entities' text, and whose it is; a literal is found by its place
folded_*          hash (names,) sorted CRC-32 of a case-folded name; term (names,) who bears it
out_*, in_*       ptr (n + 1,) where term i's neighbours begin; rel, far (facts,) the relation and the other end
================  ==========================================================================================

A relation below the number of predicates is one; from there on it is a pair of them across a mediator (`kinds.json`
holds both tables). The neighbours of a term are sorted by relation, then by the other end, which has its highest bit
set, and so stands last, where an agent does not see it: a mediator, the term itself on the way in, or another that
prints like one before it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from graphwalker.kg.arrays import ArrayFile
from graphwalker.kg.dictionary import Dictionary
from graphwalker.kg.numbering import Numbering, number_terms
from graphwalker.kg.sorting import RowSorter, distinct_rows, first_of_runs
from graphwalker.kg.steps import flatten
from graphwalker.kg.workspace import Workspace

UNSEEN = 1 << 31
KINDS = "kinds.json"


def write_layout(table: Dictionary, folder: Path, work: Workspace) -> dict[str, int]:
    """Compute and write all files into `folder`; returns the counts that `meta.json` shows."""
    terms = number_terms(table, work, folder)
    visible = np.array([table.schema.is_visible(p) for p in table.predicates], bool)
    sorters = {name: work.row_sorter(name, 3) for name in ("out", "in", "into", "outof")}
    plain = _renumber(table, terms, visible, sorters, work)
    _write_names(folder, terms, work)
    pairs = flatten(sorters["into"], sorters["outof"], terms, sorters["out"], sorters["in"], table, work)
    table.close()
    writer = _ListWriter(folder, terms, visible, len(table.predicates) + len(pairs), work)
    triples = writer.write("out", sorters["out"])
    writer.write("in", sorters["in"])
    record = {
        "predicates": table.predicates,
        "plain": np.flatnonzero(plain).tolist(),
        "pairs": pairs.tolist(),
        "reverses": terms.reverses,
        "first_mediator": terms.first_mediator,
    }
    (folder / KINDS).write_text(json.dumps(record, ensure_ascii=False), "utf-8")
    relations = [table.predicates[p] for p in record["plain"]]
    relations += [f"{table.predicates[p]}.{table.predicates[q]}" for p, q in record["pairs"]]
    count, literals = len(terms.places), terms.literals.total()
    return {
        "triples": triples,
        "entities": count - literals,
        "literals": literals,
        "predicates": len(table.predicates),
        "mediators": count - terms.first_mediator,
        "relations": len(set(relations)),
    }


def check_lengths(arrays: Mapping[str, np.ndarray]) -> None:
    """Whether the arrays fit each other. Raises `ValueError` naming one that does not: a copy that was cut short."""
    terms, entities, names = (len(arrays[key]) for key in ("kind", "hash", "folded_hash"))
    wanted = {
        "hash_term": entities,
        "folded_term": names,
        "offsets": terms + 1,
        "out_ptr": terms + 1,
        "in_ptr": terms + 1,
    }
    for ends, others in {
        "offsets": ["blob"],
        "out_ptr": ["out_rel", "out_far"],
        "in_ptr": ["in_rel", "in_far"],
    }.items():
        wanted |= dict.fromkeys(others, int(arrays[ends][-1]) if len(arrays[ends]) else 0)
    for key, length in wanted.items():
        if arrays[key].shape != (length,):
            raise ValueError(f"{key}.npy holds {arrays[key].shape} numbers, not {length}")


def _renumber(
    table: Dictionary, terms: Numbering, visible: np.ndarray, sorters: dict[str, RowSorter], work: Workspace
) -> np.ndarray:
    """Hand out all triples in final numbers; returns (predicates,) bool: those that an agent can follow as they are."""
    plain = np.zeros(len(visible), bool)
    with work.bar("renumbering", len(table.rows), "triples") as bar:
        for block in table.blocks:
            rows, numbers = table.read(block)
            numbers = terms.places.take(numbers, work.memory // 64)
            rows = np.column_stack([numbers[rows[:, 0]], rows[:, 1], numbers[rows[:, 2]]])
            sorters["out"].add(rows)
            sorters["in"].add(rows[:, ::-1])
            seen = rows[visible[rows[:, 1]]]
            from_mediator, to_mediator = seen[:, 0] >= terms.first_mediator, seen[:, 2] >= terms.first_mediator
            sorters["into"].add(seen[~from_mediator & to_mediator][:, ::-1])
            sorters["outof"].add(seen[from_mediator & ~to_mediator])
            plain[seen[~from_mediator & ~to_mediator][:, 1]] = True
            bar.update(len(rows))
    return plain


def _write_names(folder: Path, terms: Numbering, work: Workspace) -> None:
    """The index of names."""
    sorter = work.row_sorter("folded", 2)
    with work.bar("indexing names", len(terms.bearers), "names") as bar:
        for rows in terms.bearers.pieces(max(4, work.memory // 64)):
            order = np.argsort(rows[:, 1])
            placed = np.empty(len(rows), np.uint32)
            placed[order] = terms.places.take(rows[order, 1], work.memory // 64)
            sorter.add(np.column_stack([rows[:, 0], placed]))
            bar.update(len(rows))
    terms.bearers.close()
    files = [ArrayFile(folder, name, np.uint32) for name in ("folded_hash", "folded_term")]
    write_columns(files, sorter)


def write_columns(files: list[ArrayFile], pieces: Iterable[np.ndarray]) -> None:
    """Write the columns of rows to a file each, and close them."""
    for rows in pieces:
        for file, column in zip(files, rows.T, strict=True):
            file.append(column)
    for file in files:
        file.close()


class _ListWriter:
    """Writes the neighbours of all terms."""

    def __init__(self, folder: Path, terms: Numbering, visible: np.ndarray, relations: int, work: Workspace):
        self._folder, self._terms, self._work = folder, terms, work
        self._predicates, self._visible = len(visible), visible
        self._rel_type = np.uint16 if relations <= 2**16 else np.uint32

    def write(self, side: str, sorter: RowSorter) -> int:
        """Write one side from rows (near, relation, far); returns how many of them are triples."""
        small = sorter.added < 2**32  # and not by what is left of them, which is known too late
        ptr = ArrayFile(self._folder, f"{side}_ptr", np.uint32 if small else np.uint64)
        rel = ArrayFile(self._folder, f"{side}_rel", self._rel_type)
        far = ArrayFile(self._folder, f"{side}_far", np.uint32)
        next_near, triples = 0, 0
        with self._work.bar(f"writing {side}", sorter.added, "facts") as bar:
            for rows in self._unseen_last(self._marked(side, sorter)):
                starts = np.flatnonzero(first_of_runs(rows[:, 0]))
                near = rows[starts, 0].astype(np.int64)
                ptr.append(np.repeat(len(rel) + starts, np.diff(near, prepend=next_near - 1)))
                next_near = int(near[-1]) + 1
                rel.append(rows[:, 1])
                far.append(rows[:, 2])
                triples += int((rows[:, 1] < self._predicates).sum())
                bar.update(len(rows))
        ptr.append(np.full(len(self._terms.places) + 1 - next_near, len(rel)))
        for file in (ptr, rel, far):
            file.close()
        return triples

    def _marked(self, side: str, pieces: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """The rows with a mark on the far ends that an agent does not see; a flattened one is left out instead."""
        last = np.full((1, 3), -1, np.int64)
        for rows in pieces:
            flat = rows[:, 1] >= self._predicates
            own = flat.copy()
            own[~flat] = self._visible[rows[~flat, 1]]
            seen = own & (rows[:, 2] < self._terms.first_mediator)
            if side == "in":
                seen &= rows[:, 0] != rows[:, 2]
            keys = np.column_stack([rows[seen, :2], self._terms.starts.rank(rows[seen, 2])]).astype(np.int64)
            seen[seen] = first_of_runs(np.concatenate([last, keys]))[1:]
            last = keys[-1:] if len(keys) else last
            rows = rows.copy()
            rows[own & ~seen, 2] |= UNSEEN
            rows = rows[~flat | seen]
            if len(rows):
                yield rows

    def _unseen_last(self, pieces: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """The rows with the marked ones at the end of their near term and relation, which can go over many pieces."""
        held: list[np.ndarray] = []
        for rows in pieces:
            if held and (rows[-1, :2] != held[0][0, :2]).any():
                rows, held = np.concatenate([*held, rows]), []
            marked = rows[:, 2] >= UNSEEN
            if marked.any():
                later = marked & (rows[:, :2] == rows[-1, :2]).all(axis=1)
                if later.any():
                    held.append(rows[later])
                rows = distinct_rows(rows[~later])
            if len(rows):
                yield rows
        if held:
            yield np.concatenate(held)
