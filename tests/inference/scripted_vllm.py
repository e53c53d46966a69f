"""A scripted server on loopback in the place of `vllm serve`."""

import json
import threading
import time

from tests.local_server import LocalHandler, LocalServer


class Scripted:
    """Speaks as `vllm serve` does. ``say(prompt ids)`` gives a turn's ids; ``faults`` are what it does instead, one a
    request: a status, or a function of the right answer that gives the body. `start` it, or `serve` in a process."""

    def __init__(self, tokenizer, port: int = 0, max_length: int = 500):
        self.say = lambda prompt: [*prompt[-3:], tokenizer.eos_token_id]
        self.tokenizer, self.faults, self.delay = tokenizer, [], lambda: 0.0
        self.requests: list[dict] = []
        self.keys: set[str | None] = set()
        server = self

        class Handler(LocalHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                server.keys.add(self.headers.get("Authorization"))
                self.reply(200, json.dumps({"data": [{"id": "toy", "max_model_len": max_length}]}))

            def do_POST(self):
                body = json.loads(self.body())
                if self.path == "/detokenize":
                    return self.reply(200, json.dumps({"prompt": server.tokenizer.decode(body["tokens"])}))
                server.requests.append(body)
                time.sleep(server.delay())
                fault = server.faults.pop(0) if server.faults else None
                answer = server.answer(body)
                if isinstance(fault, int):
                    return self.reply(fault, "in trouble")
                return self.reply(200, fault(answer) if fault else json.dumps(answer))

        self._http = LocalServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def start(self) -> "Scripted":
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def serve(self):
        self._http.serve_forever(0.01)

    def answer(self, body: dict) -> dict:
        ids = self.say(body["prompt"])[: body["max_tokens"]]
        logprobs = {"tokens": [f"token_id:{i}" for i in ids], "token_logprobs": [-0.25] * len(ids)}
        reason = "stop" if ids[-1] in body["stop_token_ids"] else "length"
        choice = {"prompt_token_ids": body["prompt"], "token_ids": ids, "logprobs": logprobs, "finish_reason": reason}
        return {"choices": [choice]}

    def close(self):
        self._http.shutdown()
        self._http.server_close()
