"""Relations reranked by a language model (paper, section 2 and appendix E.2) behind any OpenAI-compatible server.

BM25's best candidates are numbered in one message, and the model names the best of them; the others follow in BM25's
order. Without a reranker the order is BM25's alone, the paper's "w/o reranking"; its 10, 20 and 30 are how many are
kept, with as many relations shown.
"""

import logging
import re
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from graphwalker.protocol.escape import escape_name, escape_tags
from graphwalker.protocol.prompts import read_template
from graphwalker.tools.chat_server import ChatServer

_LIST = re.compile(r"\[\s*\d+(?:\s*,\s*\d+)*\s*\]")
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
        if min(keep, candidates) < 1:
            raise ValueError("keep and candidates must be at least 1")
        self._server = ChatServer(url, model, who="reranker", cache=cache, timeout=timeout, tries=tries, wait=wait)
        self.keep, self.candidates = keep, candidates
        self.counts = self._server.counts
        self._prompt = Environment(undefined=StrictUndefined).from_string(read_template("rerank.jinja"))

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
        message = {"role": "user", "content": self._text(question, pool)}
        return self._server.reply([message], 64 + 6 * min(self.keep, len(pool)))

    def _text(self, question: str, pool: list[str]) -> str:
        shown = [escape_name(relation) for relation in pool]
        keep = min(self.keep, len(pool))
        return self._prompt.render(question=escape_tags(question), relations=shown, keep=keep)
