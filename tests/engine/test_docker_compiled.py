"""What a container says of its caches, and what it may say if somebody else's Python answers there.

On a real Docker Engine: tests/engine/test_docker_engine.py.
"""

from __future__ import annotations

import errno
import json
import threading
from pathlib import Path
from typing import Any, Self

import pytest
from docker.errors import APIError
from requests import Response
from requests.exceptions import ConnectionError as NobodyListensError

from bench.engine import docker_compiled
from bench.engine.caches import cache_environment
from bench.engine.compile_cache import named_caches
from bench.engine.compiled import NOT_NAMED, Look, Since
from bench.engine.docker_compiled import ANSWER_BYTES, FoldersInside
from bench.images.layout import CACHES
from bench.observe.compiled import FILES_LISTED

SINCE = Since(written=5.0, first=7.0)
NOTHING = b'{"count": 0, "files": []}\n'


def closing_response(closed: threading.Event) -> Response:
    response = Response()
    response.close = closed.set  # type: ignore[method-assign]  # what it closes
    return response


class Answer:
    """Pieces of standard output and of errors; after the last one it ends, or hangs until it is closed."""

    def __init__(self, pieces: list[tuple[bytes | None, bytes | None]], *, hangs: bool) -> None:
        self._pieces = iter(pieces)
        self._hangs = hangs
        self.closed = threading.Event()
        self._response = closing_response(self.closed)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[bytes | None, bytes | None]:
        for piece in self._pieces:
            return piece
        if self._hangs:
            assert self.closed.wait(60.0)
        raise StopIteration

    def close(self) -> None:
        self.closed.set()
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")


class Daemon:
    """A Docker Engine in which whatever is started says the same."""

    def __init__(
        self,
        *said: bytes,
        error: bytes | None = None,
        hangs: bool = False,
        refuses: Exception | None = None,
    ) -> None:
        self.api = self
        self.commands: list[list[str]] = []
        self.answer = Answer([(piece, error) for piece in said], hangs=hangs)
        self._refuses = refuses

    def exec_create(self, container: str, command: list[str]) -> dict[str, str]:
        assert container == "abc"
        self.commands.append(command)
        return {"Id": "process"}

    def exec_start(self, process: str, *, stream: bool, demux: bool) -> Answer:
        assert (process, stream, demux) == ("process", True, True)
        if self._refuses:
            raise self._refuses
        return self.answer


def look(daemon: Daemon) -> Look:
    named = named_caches(cache_environment(Path(CACHES)))
    client: Any = daemon
    return FoldersInside(client, "abc", "a-volume", named).since(SINCE)


def test_a_list_is_taken_and_the_question_names_every_folder() -> None:
    said = b'{"count": 1, "files": [[6.0, "triton", "ABC/moe.cubin"]]}\n'
    daemon = Daemon(said[:9], said[9:], error=b"a warning")
    assert look(daemon) == Look(count=1, files=((6.0, "triton", "ABC/moe.cubin"),))
    assert daemon.answer.closed.is_set()
    ((*python, program, question),) = daemon.commands
    assert python == ["python3", "-I", "-S", "-c"]
    assert "def newer(" in program
    asked = json.loads(question)
    assert (asked["since"], asked["first"]) == (5.0, 7.0)
    assert asked["folders"]["deep_gemm"] == f"{CACHES}/vllm/deep_gemm"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "no list of files: b''"),
        (NOTHING[:-3], "no list of files"),
        (NOTHING + NOTHING, "no list of files"),
        (b"\x1b[2J" * 100, r"no list of files: b'\x1b[2J"),
        (b"{}", "no list of files"),
        (b'{"count": 3, "files": []}', "no list of files"),
        (b'{"why_not": "the disk is gone"}', "the disk is gone"),
    ],
)
def test_anything_else_is_said_and_nothing_more(said: bytes, why: str) -> None:
    found = look(Daemon(said))
    assert (found.count, found.files) == (None, ())
    assert why in (found.why_not or "")


def test_an_error_is_no_answer() -> None:
    assert "no list of files: b''" in (look(Daemon(b"", error=NOTHING)).why_not or "")


def test_a_container_that_does_not_end_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_compiled, "_ANSWER_WITHIN_S", 0.05)
    assert look(Daemon(NOTHING, hangs=True)).why_not == "the engine's container did not answer within 0.05 s"


def test_of_one_that_never_stops_the_beginning_is_read() -> None:
    daemon = Daemon(*[b"x" * 100_000] * 100, hangs=True)
    assert "no list of files: b'xxx" in (look(daemon).why_not or "")
    assert len(list(daemon.answer._pieces)) > 80
    assert ANSWER_BYTES > 2 * FILES_LISTED * 250, "the longest list that is allowed fits"


@pytest.mark.parametrize("error", [APIError("it is not running"), NobodyListensError("gone")])
def test_a_refusal_is_said(error: Exception) -> None:
    why = look(Daemon(refuses=error)).why_not
    assert why == f"Docker cannot look into the engine's container: {error}"


def test_folders_that_are_not_named_are_not_asked_for() -> None:
    client: Any = Daemon()
    assert FoldersInside(client, "abc", "a-volume", None).since(SINCE).why_not == NOT_NAMED
    assert client.commands == []


def test_containers_with_the_same_volume_have_one_place() -> None:
    client: Any = Daemon()
    one, two = (FoldersInside(client, name, "a-volume", {}) for name in ("abc", "def"))
    assert one == two
    assert one != FoldersInside(client, "abc", "another", {})
