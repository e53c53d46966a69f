"""The process behind `graphwalker.kg.worker`: ``python -m graphwalker.kg.worker_process KG MEMORY_MB``.

Reads one JSON object a line, ``{"query": ..., "alarm": seconds}``, and answers with one; the first line it writes says
that it is ready.
"""

import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from graphwalker.errors import KGUnavailable, UserError
from graphwalker.kg.oxigraph import OxigraphStore


def main() -> int:
    path, memory_mb = Path(sys.argv[1]), int(sys.argv[2])
    # Only answers go to standard output, whatever a library prints there.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends this process
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        store = OxigraphStore.open(path)
        _limit_memory(memory_mb)
    except (OSError, ValueError, UserError) as error:
        _say(out, {"error": f"cannot be opened: {error}"})
        return 1
    _say(out, {"ready": True})
    for line in sys.stdin.buffer:
        request = json.loads(line)
        # Nothing catches it: a query whose parent is gone ends too.
        signal.setitimer(signal.ITIMER_REAL, request["alarm"])
        _say(out, _answer(store, request["query"]))
        signal.setitimer(signal.ITIMER_REAL, 0)
    return 0


def _answer(store: OxigraphStore, query: str) -> dict[str, Any]:
    try:
        found = store.query(query)
        return {"boolean": found} if isinstance(found, bool) else {"rows": found}
    except UserError as error:
        return {"refused": str(error)}
    except MemoryError:
        return {"refused": "the query needs more memory than it may have"}
    except (KGUnavailable, ValueError) as error:
        reason = str(error).split("\n", 1)[0] or type(error).__name__
        return {"refused" if "not supported" in reason else "error": reason}


def _limit_memory(memory_mb: int) -> None:
    """At most so much address space beyond what the open database has."""
    usage = Path("/proc/self/statm")
    if not usage.exists():  # not Linux: other systems do not enforce such a limit
        return
    limit = int(usage.read_text().split()[0]) * resource.getpagesize() + (memory_mb << 20)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _say(out, value: dict[str, Any]) -> None:
    out.write(json.dumps(value) + "\n")
    out.flush()


if __name__ == "__main__":
    sys.exit(main())
