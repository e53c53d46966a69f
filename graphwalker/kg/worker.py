"""SPARQL on an embedded database in a process of its own, which can be killed.

pyoxigraph's `query` knows no limit of time or memory and cannot be interrupted. Here it runs in a worker under an
address-space limit; a query past its time is ended with the worker, and the next query starts another one.
"""

import atexit
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from graphwalker.errors import KGUnavailable, QueryMalformed, QueryRefused, UserError
from graphwalker.kg.guard import QueryLimits, Rows, guard
from graphwalker.kg.meta import read_meta

NO_SPARQL = (
    "is a memory store, which has no SPARQL: "
    "build it again with --store oxigraph (`graphwalker kg build`, `graphwalker data import-kg`), "
    "or use a SPARQL endpoint"
)
_START_SECONDS = 120.0  # to import pyoxigraph and open the database on a busy machine
_GRACE_SECONDS = 5.0  # after which a worker whose parent is gone ends itself
_MAX_BYTES = 64 * 2**20  # of one answer


def execute(store_path: str | Path, query: str, limits: QueryLimits | None = None) -> Rows:
    """Run a query of any origin on the built KG at a path, guarded and limited.

    Raises `QueryRefused` for a query that is not allowed, cannot be parsed or needs more memory or room than it may
    have, `KGUnavailable` (``kg_timeout``, ``kg_error``) when there is no answer, and `UserError` when the KG has no
    SPARQL.
    """
    path = Path(store_path).resolve()
    with _workers_lock:
        worker = _workers.get(path)
        if worker is None:
            worker = _workers[path] = QueryWorker(path)
    return worker.execute(query, limits)


class QueryWorker:
    """One worker on one Oxigraph KG. Safe to share between threads, which then wait for each other."""

    def __init__(self, store_path: str | Path):
        self.path = Path(store_path)
        self.starts = 0
        """How many processes were started so far."""
        self._prefixes = _namespaces(self.path)
        self._lock = threading.Lock()
        self._process: subprocess.Popen | None = None
        self._errors: IO[bytes] | None = None
        self._buffer = b""
        self._memory_mb = 0
        self._owner = 0

    def execute(self, query: str, limits: QueryLimits | None = None) -> Rows:
        """`graphwalker.kg.worker.execute` on this KG. The time counts from when the worker is free and has started."""
        limits = limits or QueryLimits()
        safe = guard(query, limits.with_one_more(), prefixes=self._prefixes)
        with self._lock:
            reply = self._ask(safe.text, limits)
        if "refused" in reply:
            kind = QueryMalformed if reply["refused"].startswith("SPARQL:") else QueryRefused
            raise kind(reply["refused"])
        if "error" in reply:
            raise KGUnavailable(f"{self.path}: {reply['error']}")
        if "boolean" in reply:
            return Rows((), boolean=reply["boolean"])
        return Rows.cut(reply["rows"], limits)

    def close(self) -> None:
        """End the process, if there is one."""
        with self._lock:
            self._stop()

    def _ask(self, text: str, limits: QueryLimits) -> dict[str, Any]:
        alive = self._process is not None and self._process.poll() is None
        if not alive or (self._memory_mb, self._owner) != (limits.memory_mb, os.getpid()):
            self._start(limits.memory_mb)
        request = json.dumps({"query": text, "alarm": limits.seconds + _GRACE_SECONDS}) + "\n"
        try:
            deadline = time.monotonic() + limits.seconds
            self._write(request.encode(), deadline)
            return self._read(deadline - time.monotonic())
        except TimeoutError:
            self._stop()
            message = f"{self.path}: no answer within {limits.seconds:g} s"
            raise KGUnavailable(message, "kg_timeout") from None
        except (BrokenPipeError, EOFError):
            return self._obituary(limits)
        except OverflowError:
            self._stop()
            return {"refused": f"the answer has more than {_MAX_BYTES >> 20} MiB: ask for fewer rows or columns"}
        except BaseException:  # interrupted: the answer that is still to come must not be taken for the next one
            self._stop()
            raise

    def _start(self, memory_mb: int) -> None:
        self._stop()
        self._owner, self._memory_mb, self._buffer = os.getpid(), memory_mb, b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in _stop)
        environment = {**os.environ, "MALLOC_ARENA_MAX": "2", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "graphwalker.kg.worker_process", str(self.path.resolve()), str(memory_mb)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
        )
        self.starts += 1
        try:
            ready = self._read(_START_SECONDS)
        except (TimeoutError, EOFError, BrokenPipeError, OverflowError) as error:
            said = self._said()[-300:] or type(error).__name__
            self._stop()
            raise KGUnavailable(f"{self.path}: the query process did not start: {said}") from error
        except BaseException:
            self._stop()
            raise
        if "error" in ready:
            self._stop()
            raise KGUnavailable(f"{self.path}: {ready['error']}")

    def _write(self, request: bytes, deadline: float) -> None:
        """Hand a request over, which a pipe holds only in part. Raises `TimeoutError` where nobody takes it."""
        handle, ready = self._pipe("stdin").fileno(), select.poll()
        os.set_blocking(handle, False)
        ready.register(handle, select.POLLOUT)
        while request:
            left = deadline - time.monotonic()
            if left <= 0 or not ready.poll(left * 1000):
                raise TimeoutError
            request = request[os.write(handle, request) :]

    def _read(self, seconds: float) -> dict[str, Any]:
        """The next line of the worker. Raises `TimeoutError`, `EOFError` or `OverflowError` (too long)."""
        handle = self._pipe("stdout").fileno()
        ready = select.poll()  # `select.select` fails where a program has more than 1,024 files and sockets open
        ready.register(handle, select.POLLIN)
        deadline = time.monotonic() + seconds
        chunks = [self._buffer]
        size = len(self._buffer)
        while b"\n" not in chunks[-1]:
            left = deadline - time.monotonic()
            if left <= 0 or not ready.poll(left * 1000):
                raise TimeoutError
            chunk = os.read(handle, 1 << 20)
            if not chunk:
                raise EOFError
            chunks.append(chunk)
            size += len(chunk)
            if size > _MAX_BYTES:
                raise OverflowError
        line, _, self._buffer = b"".join(chunks).partition(b"\n")
        return json.loads(line)

    def _obituary(self, limits: QueryLimits) -> dict[str, Any]:
        """What the death of the worker says about the query."""
        process = self._process
        assert process is not None
        status = process.wait()
        said = self._said()
        self._stop()
        if "memory allocation" in said or "MemoryError" in said or "bad_alloc" in said:
            return {"refused": f"the query needs more than the {limits.memory_mb:,} MiB of memory that it may have"}
        if "overflowed its stack" in said:
            return {"refused": "the query is nested too deeply"}
        return {"error": f"the query process ended with status {status}" + (f": {said[:300]}" if said else "")}

    def _said(self) -> str:
        """The end of the worker's standard error, on one line."""
        assert self._errors is not None
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 16384))
        return " ".join(self._errors.read().decode("utf-8", "replace").split())

    def _stop(self) -> None:
        process, errors = self._process, self._errors
        self._process = self._errors = None
        if process is not None:
            if self._owner == os.getpid():  # a forked child must not end its parent's worker
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(BrokenPipeError):  # what was not flushed has no reader any more
                    pipe.close()  # type: ignore[union-attr]
        if errors is not None:
            errors.close()

    def _pipe(self, name: str) -> IO[bytes]:
        return getattr(self._process, name)


def _namespaces(path: Path) -> Mapping[str, str]:
    """The prefixes of a KG's ids. Raises `UserError` when it has no SPARQL."""
    if read_meta(path)["store"] == "memory":
        raise UserError(f"{path} {NO_SPARQL}")
    return read_meta(path, "oxigraph")["profile"]["namespaces"]


_workers: dict[Path, QueryWorker] = {}
_workers_lock = threading.Lock()


@atexit.register
def _close_all() -> None:
    for worker in _workers.values():
        worker.close()
