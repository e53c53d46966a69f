"""The SPARQL 1.1 Protocol over HTTP: one asynchronous client, on an event loop of its own, for any number of threads.

Requests are pooled and limited in number and rate; each has a time limit that bytes which drip in do not extend; what
may pass is tried again, with growing random pauses; and when several queries in a row have been given up, the next ones
fail at once instead of waiting in turn for a server that is down.
"""

import asyncio
import dataclasses
import json
import math
import os
import re
import threading
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
from aiolimiter import AsyncLimiter
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    stop_any,
    stop_before_delay,
    wait_random_exponential,
)

from graphwalker.errors import UserError
from graphwalker.kg.breaker import Breaker
from graphwalker.kg.sparql_results import JSON, XML, NotInXml, QueryFailed, Result, interpret

USER, PASSWORD, HEADERS = "GRAPHWALKER_SPARQL_USER", "GRAPHWALKER_SPARQL_PASSWORD", "GRAPHWALKER_SPARQL_HEADERS"
_MAX_BYTES = 256 << 20  # of one answer
_CONNECT_SECONDS = 5.0
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


@dataclass(frozen=True)
class Endpoint:
    """A server and how it is to be treated; kept in the KG folder's `meta.json`, where it can be edited."""

    url: str
    graph: str = ""
    """The graph to ask, "" for the server's default graph."""
    params: dict[str, str] = field(default_factory=dict)
    """Further parameters of every request, such as Virtuoso's `timeout` in ms."""
    timeout: float = 30.0
    """Seconds that one query may take."""
    connections: int = 16
    """Queries under way at a time."""
    rate: float = 0.0
    """Queries a second at most; 0 for no limit."""
    attempts: int = 5
    """How often a query is sent while the server is in trouble; the pauses grow to 4 s."""
    give_up: int = 5
    """After so many queries in a row were given up, the next fail at once."""
    cooldown: float = 10.0
    """Seconds until one is tried again."""
    max_rows: int = 10_000
    """Rows after which the server may cut an answer (Virtuoso's ResultSetMaxRows); 0 for never."""

    @classmethod
    def from_json(cls, record: Any, where: str) -> "Endpoint":
        """The settings in `meta.json`. Raises `UserError` for an unknown key or a value of the wrong kind."""
        try:
            endpoint = cls(**record)
            checked_url(endpoint.url)
            for name, default in dataclasses.asdict(cls("")).items():
                _check_kind(name, getattr(endpoint, name), default)
            numbers = (endpoint.timeout, endpoint.rate, endpoint.cooldown)
            counts = (endpoint.connections, endpoint.attempts, endpoint.give_up)
            if min(numbers) < 0 or min(counts) < 1 or endpoint.timeout == 0 or endpoint.max_rows < 0:
                raise ValueError("timeout, connections, attempts and give_up must be above 0, the others not below")
            return endpoint
        except (TypeError, ValueError) as error:
            raise UserError(f"{where}: endpoint: {error}") from error


def _check_kind(name: str, value: Any, default: Any) -> None:
    """Raises `ValueError` for what is of another kind than `default`; a whole number will do for any other."""
    wanted = (int, float) if isinstance(default, float) else type(default)
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise ValueError(f"{name} must be {'a number' if default == 0 else f'such as {default!r}'}, not {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number")
    if isinstance(value, dict) and not all(isinstance(text, str) for text in value.values()):
        raise ValueError(f"{name} must be an object of strings")


def checked_url(url: str) -> str:
    """The URL as it is. Raises `UserError` for what is none, and for one with a password in it."""
    shown = repr(
        re.sub(r"^([a-z]+://)?.*@", r"\1...@", url, flags=re.S) if isinstance(url, str) else url
    )  # without a password
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise UserError(f"{shown} is not a URL: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise UserError(f"{shown} is not the URL of a SPARQL endpoint: expected http://HOST:PORT/PATH")
    if parsed.userinfo:
        raise UserError(f"leave user and password out of the URL, which is written to disk: set {USER} and {PASSWORD}")
    return url


def credentials(environ: Mapping[str, str] = os.environ) -> tuple[httpx.BasicAuth | None, dict[str, str]]:
    """Basic authentication and further headers (a JSON object) from the environment. Raises `UserError`."""
    auth = httpx.BasicAuth(environ[USER], environ.get(PASSWORD, "")) if environ.get(USER) else None
    try:
        headers = json.loads(environ.get(HEADERS) or "{}")
        if not isinstance(headers, dict) or not all(isinstance(text, str) for text in headers.values()):
            raise ValueError("not an object of strings")
        for name, text in headers.items():
            if not _HEADER_NAME.fullmatch(name) or not (text.isascii() and text.isprintable()):
                raise ValueError(f"the header {name!r} holds what no header can")
    except ValueError as error:
        raise UserError(f'{HEADERS} must be JSON such as {{"X-Api-Key": "..."}}: {error}') from error
    return auth, headers


class SparqlClient:
    """Sends queries to one endpoint; safe to use from any number of threads. Close it, or let the process end.

    `counts` holds how many requests were `sent`, and how many attempts failed by `QueryFailed.kind`.
    """

    def __init__(self, endpoint: Endpoint):
        self.endpoint = endpoint
        self._auth, self._headers = credentials()
        self.counts: Counter[str] = Counter()  # only the loop's thread adds to it
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._owner = 0  # the process in which the loop's thread runs: a forked one needs its own

    def run(self, query: str, seconds: float = math.inf) -> Result:
        """The result of a query, which may take no longer than the endpoint's `timeout`, nor be sent again after
        `seconds`. Raises `QueryFailed`."""
        return self._wait(self._query(query, seconds))

    def run_all(self, queries: Sequence[str]) -> list[Result]:
        """The results of several queries, sent together."""
        return self._wait(self._gather(queries))

    def server(self) -> str:
        """What the server calls itself, "" where it does not. Raises `QueryFailed` when it does not answer."""
        return self._wait(self._server())

    def close(self) -> None:
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None and self._owner == os.getpid():
            asyncio.run_coroutine_threadsafe(self._http.aclose(), loop).result()
            loop.call_soon_threadsafe(loop.stop)

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        future = asyncio.run_coroutine_threadsafe(work, self._running_loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()  # interrupted: nobody waits for it any more
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._owner != os.getpid():
                self._loop, self._owner = asyncio.new_event_loop(), os.getpid()
                threading.Thread(target=self._loop.run_forever, name="sparql", daemon=True).start()
                asyncio.run_coroutine_threadsafe(self._set_up(), self._loop).result()
            return self._loop

    async def _set_up(self) -> None:
        size = self.endpoint.connections
        self._slots = asyncio.Semaphore(size)
        rate = self.endpoint.rate
        self._limiter = AsyncLimiter(1, 1 / rate) if rate else None
        self._breaker = Breaker(self.endpoint.give_up, self.endpoint.cooldown)
        self._http = httpx.AsyncClient(
            auth=self._auth,
            headers={"Accept": f"{XML}, {JSON};q=0.5", "User-Agent": "graphwalker", **self._headers},
            limits=httpx.Limits(max_connections=size, max_keepalive_connections=size),
            timeout=httpx.Timeout(self.endpoint.timeout, connect=min(_CONNECT_SECONDS, self.endpoint.timeout)),
        )

    async def _gather(self, queries: Sequence[str]) -> list[Result]:
        return await asyncio.gather(*map(self._query, queries))

    async def _query(self, query: str, seconds: float = math.inf) -> Result:
        if not self._breaker.admits():
            self.counts["down"] += 1
            raise QueryFailed("down", f"{self.endpoint.url} has failed {self.endpoint.give_up} times in a row")
        try:
            result: Result = await AsyncRetrying(
                stop=stop_any(stop_after_attempt(self.endpoint.attempts), stop_before_delay(seconds)),
                wait=_pause,
                retry=retry_if_exception(lambda error: isinstance(error, QueryFailed) and error.retry),
                reraise=True,
            )(self._attempt, query, seconds)
        except QueryFailed as failure:
            # a query past a shorter limit of its own says nothing about the server
            if not failure.alive and not (failure.kind == "timeout" and seconds < self.endpoint.timeout):
                self._breaker.failed()
            raise
        self._breaker.succeeded()
        return result

    async def _attempt(self, query: str, seconds: float) -> Result:
        form = {"query": query, **self.endpoint.params}
        if self.endpoint.graph:
            form["default-graph-uri"] = self.endpoint.graph
        async with self._slots:
            if self._limiter is not None:
                await self._limiter.acquire()
            self.counts["sent"] += 1
            try:
                with suppress(NotInXml):
                    return interpret(*await self._send("POST", seconds, data=form))
                self.counts["sent"] += 1
                return interpret(*await self._send("POST", seconds, data=form, headers={"Accept": JSON}))
            except QueryFailed as failure:
                self.counts[failure.kind] += 1
                raise

    async def _server(self) -> str:
        _, headers, _ = await self._send("GET", params={"query": "ASK {}"})
        return headers.get("server", "")

    async def _send(self, method: str, seconds: float = math.inf, **request: Any) -> tuple[int, httpx.Headers, bytes]:
        """Status, headers and body of an answer that came whole and in time. Raises `QueryFailed`."""
        url, seconds = self.endpoint.url, min(seconds, self.endpoint.timeout)
        try:
            async with asyncio.timeout(seconds), self._http.stream(method, url, **request) as response:
                body = bytearray()
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > _MAX_BYTES:
                        raise QueryFailed("server", f"{url} sent more than {_MAX_BYTES >> 20} MB for one query")
                return response.status_code, response.headers, bytes(body)
        except httpx.ConnectError as error:
            raise QueryFailed("refused", f"cannot connect to {url}: {error}", retry=True) from error
        except httpx.ConnectTimeout as error:
            raise QueryFailed("timeout", f"cannot connect to {url} in {_CONNECT_SECONDS:g} s", retry=True) from error
        except (TimeoutError, httpx.TimeoutException) as error:
            raise QueryFailed("timeout", f"{url} gave no whole answer in {seconds:g} s") from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise QueryFailed(
                "reset", f"{url} broke the connection: {error or type(error).__name__}", retry=True
            ) from error


_backoff = wait_random_exponential(multiplier=0.25, max=4)


def _pause(state: RetryCallState) -> float:
    """Seconds until the next attempt: random, growing, and no less than the server asks for."""
    failure = state.outcome.exception() if state.outcome else None
    return max(_backoff(state), failure.after if isinstance(failure, QueryFailed) else 0.0)
