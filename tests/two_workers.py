"""The suite on two workers (`pytest -n 2 --dist loadfile`), where what is measured still has the machine to itself.

Tests are dealt out in pieces:

1. "in turn", one piece for one worker: what may not run beside its like. That is what is marked `engine`, and what uses
   the Docker Engine, which with its images is there once.
2. The rest, file by file, to both workers.
3. "alone", to the worker that had the first piece, once there is nothing else to deal out: what is marked `alone`. Such
   a test begins when the other worker is between two tests or has none left, and that one waits for its end.

The groups of pytest-xdist (3.8) would do for a part of this, but it writes them where pytest 9.2 no longer looks. So
the workers, who know the marks, tell the controller, who deals, in a file. Without `-n` nothing waits for anything.
"""

from __future__ import annotations

import fcntl
import json
import signal
import tempfile
from collections.abc import Generator
from functools import cached_property
from pathlib import Path
from typing import Final

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]  # has no types
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]  # as above

IN_TURN: Final = "in turn"
ALONE: Final = "alone"
"""Also the name of the mark."""
DOCKER_FIXTURE: Final = "_docker"

FOLDER: Final = "streamproof_folder"
"""What the controller tells its workers: a folder for files of all of them."""
PIECES: Final = "pieces.json"
"""Test to piece, of those that are in one."""
LOCK: Final = "lock"
"""Locked while a test runs."""

_own_folder: Final = pytest.StashKey[tempfile.TemporaryDirectory[str]]()
_folder: Final = pytest.StashKey[Path]()


class Deal(LoadFileScheduling):  # type: ignore[misc]  # of a module without types
    """Deals the pieces out in the order above."""

    _in_turn: WorkerController | None = None

    @cached_property
    def _pieces(self) -> dict[str, str]:
        pieces: dict[str, str] = json.loads((self.config.stash[_folder] / PIECES).read_bytes())
        return pieces

    def _split_scope(self, nodeid: str) -> str:
        return self._pieces.get(nodeid) or str(super()._split_scope(nodeid))

    def _assign_work_unit(self, node: WorkerController) -> None:
        piece = min(self.workqueue, key=lambda name: (name == ALONE, name != IN_TURN))
        if piece == IN_TURN:
            self._in_turn = node
        if piece == ALONE and self._in_turn not in {None, node}:
            node.shutdown()  # when it has done what it has
            return
        self.workqueue.move_to_end(piece, last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Deal | None:
    return Deal(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)  # else tests of Ctrl-C hang
    if hasattr(config, "workerinput"):
        config.stash[_folder] = Path(config.workerinput[FOLDER])
    else:
        config.stash[_own_folder] = tempfile.TemporaryDirectory(prefix="streamproof-tests-")
        config.stash[_folder] = Path(config.stash[_own_folder].name)
        (config.stash[_folder] / LOCK).touch()


def pytest_unconfigure(config: pytest.Config) -> None:
    if _own_folder in config.stash:
        config.stash[_own_folder].cleanup()


def pytest_configure_node(node: WorkerController) -> None:
    node.workerinput[FOLDER] = str(node.config.stash[_folder])


def _piece(item: pytest.Item) -> str | None:
    if item.get_closest_marker(ALONE):
        return ALONE
    uses_docker = DOCKER_FIXTURE in getattr(item, "fixturenames", ())
    return IN_TURN if uses_docker or item.get_closest_marker("engine") else None


@pytest.hookimpl(tryfirst=True)  # xdist then tells the controller that it can deal
def pytest_collection_finish(session: pytest.Session) -> None:
    """All workers know the same; what the last one writes whole stays."""
    pieces = {item.nodeid: piece for item in session.items if (piece := _piece(item))}
    folder = session.config.stash[_folder]
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
        json.dump(pieces, file)
    Path(file.name).replace(folder / PIECES)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with (item.config.stash[_folder] / LOCK).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX if _piece(item) == ALONE else fcntl.LOCK_SH)
        try:
            return (yield)
        finally:
            fcntl.flock(held, fcntl.LOCK_UN)  # closing would not do where a process that the test forked has it too
