"""The on-disk index that finds entities by name or description: one SQLite file beside a built KG.

`text` holds names, aliases and descriptions; `gram` and `word` are FTS5 indexes over their folded forms, of trigrams
for names and of words for descriptions, and `gram_count`, `word_count` say how many texts have each. Building streams:
memory does not grow with the graph (a graph whose schema names entities by their ids also costs a temporary table on
disk). SQLite's pages are read as they are touched, so an open index costs about as much for ten names as for millions.
"""

import hashlib
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from graphwalker.errors import UserError
from graphwalker.files import atomic_write
from graphwalker.kg.meta import META
from graphwalker.kg.numbering import fold
from graphwalker.kg.schema import Schema
from graphwalker.kg.store import KGStore
from graphwalker.kg.terms import literal_lang, literal_value

INDEX = "search.sqlite"
NAME, ALIAS, DESCRIPTION = range(3)
_VERSION = "1"
_TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE text (id INTEGER PRIMARY KEY, node TEXT, kind INTEGER, text TEXT, folded TEXT);
CREATE VIRTUAL TABLE gram USING fts5(x, content='', columnsize=0, detail='none', tokenize='trigram case_sensitive 1');
CREATE VIRTUAL TABLE word USING fts5(
    x, content='', columnsize=0, detail='none', tokenize='unicode61 remove_diacritics 0');
"""
_INDEXES = """
CREATE INDEX by_folded ON text (folded) WHERE kind < 2;
CREATE VIRTUAL TABLE grams USING fts5vocab(gram, 'row');
CREATE VIRTUAL TABLE words USING fts5vocab(word, 'row');
CREATE TABLE gram_count (term TEXT PRIMARY KEY, n INTEGER) WITHOUT ROWID;
CREATE TABLE word_count (term TEXT PRIMARY KEY, n INTEGER) WITHOUT ROWID;
INSERT INTO gram_count SELECT term, doc FROM grams;
INSERT INTO word_count SELECT term, doc FROM words;
DROP TABLE grams;
DROP TABLE words;
"""


def fold_accents(name: str) -> str:
    """A name without case, accents and runs of spaces.

    >>> fold_accents("  São  Paulo ")
    'sao paulo'
    """
    # Marks of other scripts than Latin, Greek and Cyrillic are letters in all but name.
    plain = "".join(c for c in unicodedata.normalize("NFKD", fold(name)) if not "\u0300" <= c <= "\u036f")
    return " ".join(unicodedata.normalize("NFC", plain).split())


def fingerprint(kg: str | Path) -> str:
    """What tells one build of a KG folder from another."""
    try:
        return hashlib.sha256((Path(kg) / META).read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"{kg} is not a built knowledge graph, the only kind that can be indexed: {error}") from error


def build_index(store: KGStore, kg: str | Path, path: str | Path | None = None, *, progress: bool = False) -> Path:
    """Index the names, aliases and descriptions of the KG in folder `kg`; returns the file written.

    The file is `path`, or `INDEX` in the folder, and appears whole or not at all. Raises `UserError` when the disk is
    full, or the SQLite at hand has no FTS5 with trigrams.
    """
    path = Path(path or Path(kg) / INDEX)
    about = [("version", _VERSION), ("kg", fingerprint(kg))]
    with atomic_write(path, "wb") as handle:
        database = sqlite3.connect(handle.name, isolation_level=None)
        try:
            # A file that is thrown away when the build fails needs no journal.
            database.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-65536")
            database.executescript(_TABLES)
            database.execute("BEGIN")
            database.executemany("INSERT INTO about VALUES (?, ?)", about)
            _insert(database, tqdm(_texts(store, database), desc="indexing", unit=" names", disable=not progress))
            database.execute("COMMIT")
            database.executescript(_INDEXES)
        except sqlite3.OperationalError as error:
            raise UserError(f"cannot write {path}: SQLite {sqlite3.sqlite_version}: {error}") from error
        finally:
            database.close()
    return path


def open_index(kg: str | Path, path: str | Path | None = None) -> sqlite3.Connection:
    """The index, for reading. Raises `UserError` when it is missing, broken or of another build of the KG."""
    path = Path(path or Path(kg) / INDEX)
    advice = f"build it with `graphwalker kg index {kg}`"
    if not path.is_file():
        raise UserError(f"{path}: no search index: {advice}")
    try:
        database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
        about = dict(database.execute("SELECT key, value FROM about"))
    except sqlite3.DatabaseError as error:
        raise UserError(f"{path} is no search index ({error}): {advice}") from error
    if about != {"version": _VERSION, "kg": fingerprint(kg)}:
        database.close()
        raise UserError(f"{path} was made for another build of {kg}: {advice}")
    return database


def _insert(database: sqlite3.Connection, texts: Iterable[tuple[str, int, str]]) -> None:
    for number, (node, kind, text) in enumerate(texts, 1):
        folded = fold_accents(text)
        stored = None if kind == DESCRIPTION else folded
        database.execute("INSERT INTO text VALUES (?, ?, ?, ?, ?)", (number, node, kind, text, stored))
        into = "word" if kind == DESCRIPTION else "gram"
        database.execute(f"INSERT INTO {into} (rowid, x) VALUES (?, ?)", (number, folded))


def _texts(store: KGStore, database: sqlite3.Connection) -> Iterator[tuple[str, int, str]]:
    """(node, kind, text) for all that is to be found."""
    schema = store.schema
    predicates = {
        NAME: schema.name_predicates,
        ALIAS: schema.alias_predicates,
        DESCRIPTION: schema.description_predicates,
    }
    for kind, names in predicates.items():
        for predicate in names:
            for triple in store.match(relation=predicate):
                term = triple.tail
                if term[0] == '"' and literal_lang(term) in schema.languages:
                    text = literal_value(term)
                    if text.strip() and (kind == DESCRIPTION or schema.is_name(text)):
                        yield triple.head, kind, text
    if schema.name_from_id:
        yield from _named_by_id(store, schema, database)


def _named_by_id(store: KGStore, schema: Schema, database: sqlite3.Connection) -> Iterator[tuple[str, int, str]]:
    database.execute("CREATE TEMP TABLE seen (node TEXT PRIMARY KEY) WITHOUT ROWID")
    for triple in store:
        nodes = [(node,) for node in (triple.head, triple.tail) if node[0] != '"']
        database.executemany("INSERT OR IGNORE INTO seen VALUES (?)", nodes)
    for (node,) in database.execute("SELECT node FROM seen EXCEPT SELECT node FROM text WHERE kind = 0 ORDER BY node"):
        if name := schema.id_name(node):
            yield node, NAME, name
