"""HTTP: one thread a request, read-only, for people on this machine.

Python's own `http.server` is enough and adds nothing to what the client must install: there is no upload, no session,
no state and nobody to log in.
"""

from __future__ import annotations

import socket
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any, Final

from bench.errors import StreamproofError, UsageError
from bench.serve.pages import problem_page
from bench.serve.site import Response

if TYPE_CHECKING:
    from bench.serve.site import Site

REQUEST_TIMEOUT_S: Final = 30
"""A connection that says nothing for so long is closed."""
HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Server(ThreadingHTTPServer):
    """Listens on one address.

    Args:
        host: name or address to listen on.
        port: 0 for any that is free.
        site: what is served.

    Raises:
        UsageError: the host is none of this machine's.
        StreamproofError: the port is taken, or may not be used.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int, site: Site) -> None:
        self.site = site
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except (OSError, UnicodeError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(
                f"--host {host}: {why}", remedy="Name an address of this machine: 127.0.0.1, 0.0.0.0."
            ) from error
        family, _, _, _, address = found[0]
        self.address_family = family
        self.loopback = ip_address(str(address[0]).partition("%")[0]).is_loopback
        try:
            super().__init__((str(address[0]), port), Handler)
        except OSError as error:
            raise StreamproofError(
                f"cannot listen on {host}, port {port}: {error.strerror or error}",
                remedy="Take another port: --port 0 takes any that is free.",
            ) from error
        self.host = host

    def server_bind(self) -> None:
        """Binds, and asks no name server what this machine is called."""
        TCPServer.server_bind(self)

    @property
    def port(self) -> int:
        """That it listens on."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """Of the list."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/"

    def knows(self, host: str | None) -> bool:
        """Whether a request was meant for this server.

        A page of a stranger can have its own name point to this machine; the browser then tells that name. Only where
        the server is open to others may it be called whatever they call it.
        """
        if not self.loopback:
            return True
        names = {"localhost", "127.0.0.1", "[::1]", self.host, f"[{self.host}]"}
        return host in {f"{name}:{self.port}" for name in names}

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  as the base has it
        """A visitor who leaves early is no error of ours."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD."""

    server: Server
    timeout = REQUEST_TIMEOUT_S
    server_version = "streamproof"
    sys_version = ""

    def do_GET(self) -> None:
        """A page."""
        self._send(self._answer(), body=True)

    def do_HEAD(self) -> None:
        """What a page would be."""
        self._send(self._answer(), body=False)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Whatever `http.server` refuses by itself: other methods, requests that are none."""
        del explain
        status = HTTPStatus(code)
        self.close_connection = True
        self._send(Response(status, problem_page(status.phrase, message or status.description).encode()), body=True)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base's name
        """Nobody reads it: the terminal is for what matters."""

    def _answer(self) -> Response:
        if not self.server.knows(self.headers.get("Host")):
            text = f"This server is called {self.server.url}; open that address."
            return Response(HTTPStatus.MISDIRECTED_REQUEST, problem_page("Another name", text).encode())
        try:
            return self.server.site.answer(self.path)
        except Exception as error:  # noqa: BLE001  one page must not end the server; the visitor sees that it failed
            text = f"{type(error).__name__} while the page was made. The list still works."
            return Response(HTTPStatus.INTERNAL_SERVER_ERROR, problem_page("Failed", text).encode())

    def _send(self, response: Response, *, body: bool) -> None:
        self.send_response(response.status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", response.policy)
        self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        if body:
            self.wfile.write(response.body)
