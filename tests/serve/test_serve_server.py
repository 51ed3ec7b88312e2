"""The server itself, over a real connection and as a process."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from bench.cli import app
from bench.errors import StreamproofError, UsageError
from bench.report import folder_files as files
from bench.serve.pages import POLICY
from bench.serve.server import Server
from bench.serve.site import Site
from tests.serve.served import Served


@pytest.fixture
def server(served: Served) -> Iterator[Server]:
    site, _ = served.site()
    with Server("127.0.0.1", 0, site) as opened:
        thread = threading.Thread(target=opened.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield opened
        finally:
            opened.shutdown()
            thread.join()


def ask(server: Server, method: str, target: str, **headers: str) -> tuple[int, http.client.HTTPMessage, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        connection.request(method, target, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def test_every_answer_forbids_everything_from_elsewhere(server: Server) -> None:
    for target in ("/", "/nothing", "/compare"):
        status, headers, body = ask(server, "GET", target)
        assert status in {200, 404, 400}
        assert headers["Content-Security-Policy"] == POLICY
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Server"].strip() == "streamproof"
        assert int(headers["Content-Length"]) == len(body) > 0


def test_head_is_get_without_a_body(server: Server) -> None:
    status, headers, body = ask(server, "HEAD", "/")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 1000


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"])
def test_nothing_can_be_written(server: Server, method: str) -> None:
    status, headers, body = ask(server, method, "/")
    assert status == 501
    assert headers["Content-Security-Policy"] == POLICY
    assert method.encode() in body


def test_a_page_of_a_stranger_cannot_ask_by_its_own_name(server: Server) -> None:
    status, _, body = ask(server, "GET", "/", Host="evil.example")
    assert status == 421
    assert b"fast" not in body
    assert ask(server, "GET", "/", Host=f"localhost:{server.port}")[0] == 200


def test_what_is_no_request_gets_an_answer_and_the_server_goes_on(server: Server) -> None:
    for sent in (b"GARBAGE\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"x" * 70_000 + b"\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100)
    assert ask(server, "GET", "/")[0] == 200


def test_a_page_that_fails_says_so_and_the_server_goes_on(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_self: Site, _target: str) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(Site, "answer", broken)
        status, _, body = ask(server, "GET", "/")
        assert status == 500
        assert b"ZeroDivisionError while the page was made" in body
    assert ask(server, "GET", "/")[0] == 200


def test_a_port_that_is_taken_and_an_address_that_is_none_are_said(server: Server, served: Served) -> None:
    site, _ = served.site()
    with pytest.raises(StreamproofError, match=f"cannot listen on 127.0.0.1, port {server.port}") as taken:
        Server("127.0.0.1", server.port, site)
    assert "--port 0" in taken.value.remedy
    with pytest.raises(UsageError, match="--host no such host"):
        Server("no such host", 0, site)


def test_it_can_be_opened_to_others_and_then_has_no_name_of_its_own(served: Served) -> None:
    site, _ = served.site()
    with Server("0.0.0.0", 0, site) as opened:  # noqa: S104  what is tested
        assert not opened.loopback
        assert opened.knows("anything.example")
    with Server("localhost", 0, site) as opened:
        assert opened.loopback
        assert opened.knows(f"localhost:{opened.port}")
        assert not opened.knows(None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_cleanly_with_what_it_has_others_do(own: Served, number: signal.Signals, tmp_path: Path) -> None:
    """A terminal sends Ctrl-C to all of them, while a report is verified that takes more than a minute."""
    slow = own.add_slow()
    command = [sys.executable, "-m", "bench", "serve-reports", str(slow.path.parent), "--port", "0"]
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*command, "--key", str(slow.path / files.SIGNER)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    with process:
        assert process.stdout is not None
        first, second = process.stdout.readline(), process.stdout.readline()
        assert first.startswith("http://127.0.0.1:")
        assert "1 report in " in second
        port = int(first.rstrip().removesuffix("/").rsplit(":", 1)[1])
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            connection.request("GET", "/")
            answer = connection.getresponse()
            assert (answer.status, b"1 not verified yet" in answer.read()) == (200, True)
        at_work = verifying(process.pid)
        os.killpg(process.pid, number)
        rest, errors = process.communicate(timeout=60)
    assert (process.returncode, rest, errors) == (0, "stopped\n", "")
    assert ended(at_work)


def verifying(server: int) -> psutil.Process:
    """The process that verifies: of those that the server's own processes have started."""
    while True:
        found = [below for child in psutil.Process(server).children() for below in child.children()]
        if found:
            return found[0]


def ended(process: psutil.Process) -> bool:
    """Also of one whose parents went first, and that nobody has cleared away."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_help_teaches_and_a_folder_that_is_none_is_said(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["serve-reports", "--help"], env={"COLUMNS": "120", "TERM": "dumb"})
    assert shown.exit_code == 0
    for said in ("Ctrl-C ends it", "--host", "--port", "--key", "8600", "127.0.0.1"):
        assert said in shown.output
    missing = CliRunner().invoke(app, ["serve-reports", str(tmp_path / "none")])
    assert isinstance(missing.exception, UsageError)
    assert "is no folder" in missing.exception.message
