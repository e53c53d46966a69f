"""How the names of a graph are spelt, by their case-folded form: SPARQL cannot fold as Unicode does.

A SQLite file beside the graph, written once: a look-up gives the exact texts to ask the graph for, so the graph itself
still says who bears them. Entities that are named by their id alone (`Schema.name_from_id`) are in it with their id.
"""

import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path

from graphwalker.errors import UserError
from graphwalker.kg.numbering import fold
from graphwalker.kg.schema import Schema

SPELLINGS = "spellings.sqlite"


class Spellings:
    """The names of a graph, open for reading in any number of threads."""

    def __init__(self, path: Path):
        self._path = path
        self._lock = threading.Lock()
        try:
            self._database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False)
            self._database.execute("SELECT 1 FROM spelling LIMIT 1")
        except sqlite3.Error as error:
            raise UserError(f"{path} is damaged ({error}): make the knowledge graph again") from error

    def find(self, name: str, *, ignore_case: bool) -> tuple[list[str], list[str]]:
        """The texts that the graph spells `name` with, and the ids of entities whose ids alone say so; both sorted."""
        with self._lock:
            rows = self._database.execute("SELECT name, node FROM spelling WHERE folded = ?", (fold(name),)).fetchall()
        rows = [(text, node) for text, node in rows if ignore_case or text == name]
        return sorted({text for text, node in rows if not node}), sorted({node for _, node in rows if node})

    def close(self) -> None:
        self._database.close()


def write_spellings(path: Path, labels: Iterable[str], nodes: Iterable[tuple[str, str]]) -> int:
    """Write the file from the names that literals give and from (name, id) pairs of ids; returns how many there are."""
    database = sqlite3.connect(path)
    try:
        with database:
            database.execute("PRAGMA synchronous = OFF")  # the folder counts only when it is whole
            database.execute(
                "CREATE TABLE spelling (folded TEXT, name TEXT, node TEXT, PRIMARY KEY (folded, name, node)) "
                "WITHOUT ROWID"
            )
            insert = "INSERT OR IGNORE INTO spelling VALUES (?, ?, ?)"
            database.executemany(insert, ((fold(text), text, "") for text in labels))
            database.executemany(insert, ((fold(text), text, node) for text, node in nodes))
        return database.execute("SELECT COUNT(*) FROM spelling").fetchone()[0]
    except sqlite3.Error as error:
        raise UserError(f"cannot write {path}: {error}") from error
    finally:
        database.close()


def guesses(name: str, schema: Schema, *, ignore_case: bool) -> tuple[list[str], list[str]]:
    """What `Spellings.find` would look for where a graph is too large to list its names: the usual ways to write it."""
    texts = [name]
    if ignore_case:
        words = " ".join(word[:1].upper() + word[1:] for word in name.lower().split(" "))
        texts += [name.lower(), name.upper(), name[:1].upper() + name[1:], name.lower().capitalize(), words]
    texts = list(dict.fromkeys(texts))
    nodes = []
    if schema.name_from_id:
        for prefix in schema.namespaces:
            for text in texts:
                node = f"{prefix}:{text}" if prefix else text
                node = node.replace(" ", "_")
                if schema.id_name(node) == text:
                    nodes.append(node)
    return texts, nodes
