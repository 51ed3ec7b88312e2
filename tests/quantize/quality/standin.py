"""A server that answers as vLLM's completions endpoint does, from a function; and what it would count."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VOCABULARY = 50


def greedy(prompt: Sequence[int], tokens: int) -> list[int]:
    """A reply that depends on the whole prompt, and on nothing else."""
    return [(sum(prompt) * 31 + place) % VOCABULARY for place in range(tokens)]


def row(own: int, k: int) -> dict[str, Any]:
    """Logarithms of a position, the text's own token first, then tokens 0 to k - 1."""
    entries = {str(own): {"logprob": -0.5 - own, "rank": own + 1, "decoded_token": None}}
    for rank in range(k):
        entries[str(rank)] = {"logprob": -0.5 - rank, "rank": rank + 1, "decoded_token": None}
    return entries


@dataclass
class Standin:
    """What it does.

    Attributes:
        reply: of a prompt and a length.
        accepted: of each request: drafts, then accepted by position; None drafts nothing.
        rows: of a text and a k.
        likely: of a reply, a log-probability of each token by its id, or None.
        status: of every answer.
        requests: bodies, in order.
    """

    reply: Callable[[Sequence[int], int], list[int]] = greedy
    accepted: tuple[int, ...] | None = (10, 8, 4)
    rows: Callable[[Sequence[int], int], Any] = lambda ids, k: [None, *(row(own, k) for own in ids[1:])]
    likely: Callable[[Sequence[int]], Any] = lambda ids: [{token: -0.5} for token in ids]
    status: int = 200
    requests: list[dict[str, Any]] = field(default_factory=list)

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(body)
        prompt = body["prompt"]
        ids = self.reply(prompt, body["max_tokens"])
        choice: dict[str, Any] = {"index": 0, "text": "", "finish_reason": "length", "token_ids": ids}
        if "prompt_logprobs" in body:
            choice["prompt_logprobs"] = self.rows(prompt, body["prompt_logprobs"])
        if "logprobs" in body and (rows := self.likely(ids)) is not None:
            assert body["return_tokens_as_token_ids"]
            named = [{f"token_id:{token}": figure for token, figure in entries.items()} for entries in rows]
            choice["logprobs"] = {"top_logprobs": named}
        return {"choices": [choice], "usage": {"prompt_tokens": len(prompt), "completion_tokens": len(ids)}}

    def metrics(self) -> str:
        lines = ["vllm:num_requests_running 0", "vllm:num_requests_waiting 0"]
        if self.accepted is not None:
            drafts, *accepted = (count * len(self.requests) for count in self.accepted)
            lines.append(f"vllm:spec_decode_num_drafts_total {drafts}")
            lines += [
                f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{place}"}} {count}'
                for place, count in enumerate(accepted)
            ]
        return "\n".join(lines) + "\n"


@contextmanager
def serving(standin: Standin) -> Iterator[str]:
    """Its address."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class calls it so
            pass

        def do_GET(self) -> None:
            pages = {
                "/v1/models": json.dumps({"data": [{"id": "toy", "max_model_len": 4096}]}),
                "/version": json.dumps({"version": "0.26.0"}),
                "/metrics": standin.metrics(),
            }
            self._answer(200, pages[self.path])

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = json.dumps(standin.complete(body)) if standin.status == 200 else "it is too long"
            self._answer(standin.status, answer)

        def _answer(self, status: int, text: str) -> None:
            raw = text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
