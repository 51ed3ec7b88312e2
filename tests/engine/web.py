"""A server of canned pages, in this process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias

Page: TypeAlias = tuple[int, str, bytes]
"""Status, content type, body."""

Answer: TypeAlias = Page | Callable[[BaseHTTPRequestHandler], Page]


@contextlib.contextmanager
def serving(pages: Mapping[str, Answer]) -> Iterator[str]:
    """Serves these pages by path, 404 for any other. Yields the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = pages.get(self.path, (404, "text/plain", b"not here"))
            status, kind, body = answer(self) if callable(answer) else answer
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
