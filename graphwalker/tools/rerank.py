"""Relations reranked by a language model (paper, section 2 and appendix E.2) behind any OpenAI-compatible server.

BM25's best candidates are numbered in one message, and the model names the best of them; the others follow in BM25's
order. Without a reranker the order is BM25's alone, the paper's "w/o reranking"; its 10, 20 and 30 are how many are
kept, with as many relations shown.
"""

import hashlib
import json
import logging
import os
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
from jinja2 import Environment, StrictUndefined

from graphwalker.errors import KGUnavailable, UserError
from graphwalker.files import parse_json
from graphwalker.protocol.escape import escape_name, escape_tags
from graphwalker.protocol.prompts import read_template

_LIST = re.compile(r"\[\s*\d+(?:\s*,\s*\d+)*\s*\]")
_RETRY = (408, 409, 425, 429, 500, 502, 503, 504)
_MAX_BYTES = 16 << 20  # of one answer
_log = logging.getLogger(__name__)


class LLMReranker:
    """A `Reranker` for `graphwalker.tools.toolbox.Toolbox`. Deterministic once a question's answers are in the cache.

    `url` is the server's base, such as ``http://localhost:8000/v1``; a key is read from the environment variable
    ``OPENAI_API_KEY``. Of each list the first `candidates` are shown to the model and `keep` asked for. Replies are
    kept in the SQLite file `cache`, which processes may share. `timeout` is in seconds for one try, of which there are
    `tries`; waits between them start at `wait` seconds and double.

    ``counts`` says how many calls were made (``calls``), answered from the cache (``cached``), tried again
    (``retried``), and how many replies held no list of the numbers shown (``malformed``): there BM25's order stays.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        keep: int = 20,
        candidates: int = 100,
        cache: str | Path | None = None,
        timeout: float = 60.0,
        tries: int = 4,
        wait: float = 1.0,
    ):
        _check_url(url)
        if not model:
            raise UserError("reranker: name the model that the server is to use")
        if min(keep, candidates, tries) < 1:
            raise ValueError("keep, candidates and tries must be at least 1")
        self.url, self.model, self.keep, self.candidates = url.rstrip("/"), model, keep, candidates
        self.counts: Counter[str] = Counter()
        self._timeout, self._tries, self._wait = timeout, tries, wait
        self._cache = _Cache(cache) if cache else None
        self._prompt = Environment(undefined=StrictUndefined).from_string(read_template("rerank.jinja"))
        self._client, self._owner = self._connect(), os.getpid()

    def __call__(self, question: str, relations: list[str]) -> list[str]:
        """The relations, those that the model chose first.

        Raises `KGUnavailable` when the server does not answer and `UserError` when it refuses the request: an order
        that silently were BM25's would give other observations than those of an earlier run.
        """
        pool = relations[: self.candidates]
        if len(pool) < 2:
            return relations
        self.counts["calls"] += 1
        chosen = self._chosen(self._reply(question, pool), len(pool))
        best = [pool[number - 1] for number in chosen]
        return [*best, *(relation for relation in relations if relation not in set(best))]

    def _chosen(self, reply: str, pool: int) -> list[int]:
        """The numbers in the last list of a reply, each once; none for a malformed one."""
        lists = _LIST.findall(reply)
        # A number of many digits is out of range, and costly to read.
        texts = re.findall(r"\d+", lists[-1]) if lists else []
        numbers = list(dict.fromkeys(int(text) for text in texts if len(text) < 6))
        if not texts or any(len(text) >= 6 for text in texts) or not all(1 <= n <= pool for n in numbers):
            self.counts["malformed"] += 1
            if self.counts["malformed"] == 1:
                _log.warning("reranker: no list of numbers from 1 to %d in the reply %r; BM25's order stays "
                             "(said once; counts['malformed'] has all)", pool, reply[:200])  # fmt: skip
            return []
        return numbers[: self.keep]

    def _reply(self, question: str, pool: list[str]) -> str:
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": self._text(question, pool)}],
            "temperature": 0,
            "seed": 0,
            "max_tokens": 64 + 6 * min(self.keep, len(pool)),
        }
        key = hashlib.sha256(json.dumps([self.url, body], sort_keys=True).encode()).hexdigest()
        if self._cache and (known := self._cache.get(key)) is not None:
            self.counts["cached"] += 1
            return known
        reply = self._ask(body)
        if self._cache:
            self._cache.put(key, reply)
        return reply

    def _text(self, question: str, pool: list[str]) -> str:
        shown = [escape_name(relation) for relation in pool]
        keep = min(self.keep, len(pool))
        return self._prompt.render(question=escape_tags(question), relations=shown, keep=keep)

    def _ask(self, body: dict) -> str:
        if self._owner != os.getpid():  # connections cannot be shared with a parent process
            self._client, self._owner = self._connect(), os.getpid()
        problem, status = "", "kg_error"
        for attempt in range(self._tries):
            if attempt:
                self.counts["retried"] += 1
                time.sleep(self._wait * 2 ** (attempt - 1))
            try:
                code, answer = self._post(body)
                if code == 200:
                    return _content(answer)
                problem = f"HTTP {code}: {answer[:200].decode('utf-8', 'replace')}"
                if code not in _RETRY:
                    raise UserError(f"the reranker at {self.url} refuses the request ({' '.join(problem.split())})")
            except httpx.TimeoutException:
                problem, status = f"no answer within {self._timeout:g} s", "kg_timeout"
                continue
            except (httpx.HTTPError, ValueError) as error:
                problem = str(error) or type(error).__name__
            status = "kg_error"
        raise KGUnavailable(
            f"the reranker at {self.url} does not answer: {' '.join(problem.split())}", status, "reranker"
        )

    def _post(self, body: dict) -> tuple[int, bytes]:
        """Status and body of an answer that came whole, in time however it drips, and is no larger than one may be."""
        deadline, answer = time.monotonic() + self._timeout, bytearray()
        with self._client.stream("POST", f"{self.url}/chat/completions", json=body) as response:
            for chunk in response.iter_bytes():
                answer += chunk
                if len(answer) > _MAX_BYTES:
                    raise ValueError(f"more than {_MAX_BYTES >> 20} MiB for one answer")
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("the answer drips")
            return response.status_code, bytes(answer)

    def _connect(self) -> httpx.Client:
        key = os.environ.get("OPENAI_API_KEY", "").strip()
        if not (key.isascii() and key.isprintable()):  # httpx would print it with its complaint
            raise UserError("OPENAI_API_KEY holds what no HTTP header can: a line break, or letters that are not ASCII")
        return httpx.Client(timeout=self._timeout, headers={"Authorization": f"Bearer {key}"} if key else {})


def _check_url(url: str) -> None:
    """Raises `UserError` for what is no address, and for one with a password, which messages would print."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise UserError(f"reranker: the address is not one: {error}") from error
    if parsed.userinfo:
        raise UserError("reranker: leave user and password out of the address: a key is read from OPENAI_API_KEY")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise UserError(f"reranker: {url!r} is not an http(s) address such as http://localhost:8000/v1")


def _content(answer: bytes) -> str:
    """The text of a completion. Raises `ValueError` for what is none."""
    try:
        content = parse_json(answer)["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"not a chat completion: {answer[:200].decode('utf-8', 'replace')}") from error
    return content if isinstance(content, str) else ""


class _Cache:
    """Texts by key in an SQLite file."""

    def __init__(self, path: str | Path):
        self._path = Path(path)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._open() as database:
                database.execute("CREATE TABLE IF NOT EXISTS reply (key TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID")
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"{path}: cannot be used as the reranker's cache: {error}") from error

    def get(self, key: str) -> str | None:
        with self._open() as database:
            row = database.execute("SELECT text FROM reply WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def put(self, key: str, text: str) -> None:
        with self._open() as database:
            # The first answer stays: another process may have asked at the same time.
            database.execute("INSERT OR IGNORE INTO reply VALUES (?, ?)", (key, text))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A transaction on a connection of its own: cheaper than the call it saves, safe across threads and forks."""
        with closing(sqlite3.connect(self._path, timeout=60)) as database, database:
            yield database
