"""Replies of a language model behind any OpenAI-compatible server: asked again where that helps, kept in a file."""

import hashlib
import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from graphwalker.errors import KGUnavailable, UserError
from graphwalker.files import parse_json
from graphwalker.protocol.escape import sound

_BUSY = (429, 503)
_RETRY = (408, 409, 425, 429, 500, 502, 503, 504)
_MAX_BYTES = 16 << 20  # of one answer


class Reply(NamedTuple):
    """What a model wrote; ``cut`` says that its limit of tokens ended it."""

    text: str
    cut: bool = False


class RequestRefused(UserError):
    """A server refuses a request, by the HTTP status `code`."""

    def __init__(self, message: str, code: int):
        super().__init__(message)
        self.code = code


class NoReply(KGUnavailable):
    """A server that is no knowledge graph gave no reply; it is waited for and counted as one."""

    whose = ""


class ServerDown(NoReply):
    """Nothing can be had from a server now, whatever is asked: nobody listens, or it takes no more requests."""


class ChatServer:
    """A model's name on a server; deterministic once the replies are in the cache.

    `url` is the server's base, such as ``http://localhost:8000/v1``; a key is read from the environment variable
    ``OPENAI_API_KEY``. `who` is what messages call it. Replies are kept in the SQLite file `cache`, which processes may
    share. `timeout` is in seconds for one try, of which there are `tries`; waits between them start at `wait` seconds
    and double. Threads may share one.

    ``counts`` says how many replies came from the cache (``cached``) and how many calls were tried again (``retried``).
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        who: str,
        cache: str | Path | None = None,
        timeout: float = 60.0,
        tries: int = 4,
        wait: float = 1.0,
    ):
        _check_url(url, who)
        if not model:
            raise UserError(f"{who}: name the model that the server is to use")
        if tries < 1:
            raise ValueError("tries must be at least 1")
        self.url, self.model, self.who = url.rstrip("/"), model, who
        self.counts: Counter[str] = Counter()
        self._timeout, self._tries, self._wait = timeout, tries, wait
        self._cache = _Cache(cache, who) if cache else None
        self._client, self._owner = self._connect(), os.getpid()

    def reply(self, messages: Sequence[dict[str, str]], max_tokens: int, **sampling: Any) -> str:
        """The text of the model's reply, greedily unless ``sampling`` says otherwise.

        Raises `NoReply` when the server does not answer and `RequestRefused` when it refuses the request.
        """
        return self.complete(messages, max_tokens, **sampling).text

    def complete(self, messages: Sequence[dict[str, str]], max_tokens: int, **sampling: Any) -> Reply:
        """`reply`, and whether it was cut at ``max_tokens``."""
        asked = {"temperature": 0, "seed": 0, **sampling, "max_tokens": max_tokens}
        body = {"model": self.model, "messages": list(messages), **asked}
        key = hashlib.sha256(json.dumps([self.url, body], sort_keys=True).encode()).hexdigest()
        if self._cache and (known := self._cache.get(key)) is not None:
            self.counts["cached"] += 1
            return known
        reply = self._ask(body)
        if self._cache:
            self._cache.put(key, reply)
        return reply

    def check(self) -> None:
        """Raise `UserError` where nobody listens, the key is wrong, or the server lists other models than this one."""
        try:
            answer = self._client.get(f"{self.url}/models")
        except httpx.HTTPError as error:
            raise UserError(
                f"no {self.who} answers at {self.url} ({str(error) or type(error).__name__}): start the server first"
            ) from error
        if answer.status_code in (401, 403):
            raise UserError(f"the {self.who} at {self.url} wants another key than OPENAI_API_KEY holds")
        try:
            names = [str(model["id"]) for model in parse_json(answer.content)["data"]]
        except (ValueError, KeyError, TypeError):
            return  # not every server lists its models
        if answer.status_code == 200 and names and self.model not in names:
            raise UserError(f"the {self.who} at {self.url} has no model {self.model!r}, but {', '.join(names[:8])}")

    def _ask(self, body: dict) -> Reply:
        if self._owner != os.getpid():  # connections cannot be shared with a parent process
            self._client, self._owner = self._connect(), os.getpid()
        problem, status, down = "", "kg_error", False
        for attempt in range(self._tries):
            if attempt:
                self.counts["retried"] += 1
                time.sleep(self._wait * 2 ** (attempt - 1))
            try:
                code, answer = self._post(body)
                if code == 200:
                    return _content(answer)
                problem, down = f"HTTP {code}: {answer[:200].decode('utf-8', 'replace')}", code in _BUSY
                if code not in _RETRY:
                    said = f"the {self.who} at {self.url} refuses the request ({' '.join(problem.split())})"
                    raise RequestRefused(said, code)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                problem, down = str(error) or "cannot connect", True
            except httpx.TimeoutException:
                problem, status, down = f"no answer within {self._timeout:g} s", "kg_timeout", False
                continue
            except (httpx.HTTPError, ValueError) as error:
                problem, down = str(error) or type(error).__name__, False
            status = "kg_error"
        said = f"the {self.who} at {self.url} does not answer: {' '.join(problem.split())}"
        raise (ServerDown if down else NoReply)(said, status, self.who)

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


def _check_url(url: str, who: str) -> None:
    """Raises `UserError` for what is no address, and for one with a password, which messages would print."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise UserError(f"{who}: the address is not one: {error}") from error
    if parsed.userinfo:
        raise UserError(f"{who}: leave user and password out of the address: a key is read from OPENAI_API_KEY")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise UserError(f"{who}: {url!r} is not an http(s) address such as http://localhost:8000/v1")


def _content(answer: bytes) -> Reply:
    """The text of a completion. Raises `ValueError` for what is none."""
    try:
        choice = json.loads(answer)["choices"][0]  # not parse_json: half a letter is the model's, no broken answer
        content, cut = choice["message"]["content"], choice.get("finish_reason") == "length"
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a chat completion: {answer[:200].decode('utf-8', 'replace')}") from error
    return Reply(sound(content) if isinstance(content, str) else "", cut)


class _Cache:
    """Replies by key in an SQLite file."""

    def __init__(self, path: str | Path, who: str):
        self._path = Path(path)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._open() as database:
                database.execute("CREATE TABLE IF NOT EXISTS reply (key TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID")
                # of replies that were cut; beside the texts, so that a file of before has it too
                database.execute("CREATE TABLE IF NOT EXISTS cut (key TEXT PRIMARY KEY) WITHOUT ROWID")
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"{path}: cannot be used as the {who}'s cache: {error}") from error

    def get(self, key: str) -> Reply | None:
        with self._open() as database:
            row = database.execute(
                "SELECT text, cut.key FROM reply LEFT JOIN cut USING (key) WHERE reply.key = ?", (key,)
            ).fetchone()
        return None if row is None else Reply(row[0], row[1] is not None)

    def put(self, key: str, reply: Reply) -> None:
        with self._open() as database:
            # The first answer stays: another process may have asked at the same time.
            new = database.execute("INSERT OR IGNORE INTO reply VALUES (?, ?)", (key, reply.text)).rowcount
            if new and reply.cut:
                database.execute("INSERT INTO cut VALUES (?)", (key,))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A transaction on a connection of its own: cheaper than the call it saves, safe across threads and forks."""
        with closing(sqlite3.connect(self._path, timeout=60)) as database, database:
            yield database
