from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from bench.engine import guarded
from bench.engine.guard import CANNOT_START
from bench.engine.guarded import GuardedProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

FAMILY = Path(__file__).with_name("standin_family.py")
ROLES = {"engine", "child", "grandchild", "orphan"}
HUNG_S = 60.0
"""No assertion: a test that has waited this long has found a process that was left behind."""


class Family:
    """The test's end of the FIFO that every process of the stand-in holds open."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        os.mkfifo(f"{path}.go")
        self.path = path
        self._reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        # Until the first process has opened it, the pipe would look ended: hold it open ourselves.
        self._holding = os.open(path, os.O_WRONLY)
        self._text = b""

    def command(self, *options: str) -> list[str]:
        return [sys.executable, str(FAMILY), str(self.path), *options]

    def pids(self) -> dict[str, int]:
        """Waits until all four are there."""
        while self._text.count(b"\n") < len(ROLES):
            assert self._read(), "a process ended before all were there"
        os.close(self._holding)
        pairs = (line.split() for line in self._text.decode().splitlines())
        found = {role: int(pid) for role, pid in pairs}
        assert set(found) == ROLES
        return found

    def let_engine_exit(self) -> None:
        os.close(os.open(f"{self.path}.go", os.O_WRONLY))

    def wait_until_gone(self) -> None:
        assert self._read() == b""

    def _read(self) -> bytes:
        ready, _, _ = select.select([self._reading], [], [], HUNG_S)
        assert ready, f"processes are left: {self._text.decode()}"
        data = os.read(self._reading, 4096)
        self._text += data
        return data


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    family = Family(tmp_path / "fifo")
    yield family
    for line in family._text.decode().splitlines():  # so that a failing test leaves nothing either
        with suppress(psutil.Error):
            process = psutil.Process(int(line.split()[1]))
            if FAMILY.name in " ".join(process.cmdline()):
                process.kill()


def start(family: Family, *options: str, grace_s: float = 60.0) -> GuardedProcess:
    return GuardedProcess(
        family.command(*options), env=dict(os.environ), log=family.path.with_name("log"), grace_s=grace_s
    )


def guards(process: GuardedProcess) -> tuple[psutil.Process, psutil.Process]:
    outer = psutil.Process(process._guard.pid)
    return outer, outer.children()[0]


def test_stop_ends_a_willing_engine_and_all_it_started(family: Family) -> None:
    process = start(family)
    family.pids()
    process.stop()
    family.wait_until_gone()
    assert process.poll() == 128 + signal.SIGTERM


def test_stop_kills_what_ignores_it_after_the_grace_period(family: Family) -> None:
    process = start(family, "--stubborn", grace_s=0.2)
    family.pids()
    process.stop()
    family.wait_until_gone()
    assert process.poll() == 128 + signal.SIGKILL


def test_a_child_that_ignores_sigterm_does_not_outlive_the_grace_period_of_a_willing_engine(family: Family) -> None:
    process = start(family)
    pids = family.pids()
    os.kill(pids["engine"], signal.SIGTERM)  # the first process alone; its children were not asked
    family.wait_until_gone()
    process.stop()
    assert process.poll() == 128 + signal.SIGTERM


def test_the_engine_killed_leaves_nothing(family: Family) -> None:
    process = start(family, "--stubborn")
    os.kill(family.pids()["engine"], signal.SIGKILL)
    family.wait_until_gone()
    process.stop()
    assert process.poll() == 128 + signal.SIGKILL


def test_the_exit_status_comes_through_and_what_the_engine_left_is_killed(family: Family) -> None:
    process = start(family, "--stubborn", "--exit", "7")
    family.pids()
    assert process.poll() is None
    family.let_engine_exit()
    family.wait_until_gone()
    process.stop()
    assert process.poll() == 7


@pytest.mark.parametrize("which", ["outer", "inner"])
def test_a_guard_killed_leaves_nothing(family: Family, which: str) -> None:
    process = start(family, "--stubborn")
    family.pids()
    outer, inner = guards(process)
    {"outer": outer, "inner": inner}[which].kill()
    family.wait_until_gone()
    process.stop()
    assert process.poll() == (-signal.SIGKILL if which == "outer" else 128 + signal.SIGKILL)
    _, left = psutil.wait_procs([outer, inner], timeout=HUNG_S)
    assert not left


def test_a_guard_that_does_not_answer_is_killed_and_leaves_nothing(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start(family, "--stubborn", grace_s=0.1)
    family.pids()
    outer, _ = guards(process)
    outer.suspend()
    monkeypatch.setattr(guarded, "_FORCE_WITHIN_S", 0.1)
    process.stop()
    family.wait_until_gone()
    assert process.poll() == -signal.SIGKILL


ENDING = """
import os, runpy, signal
class Last:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGTERM):
        kill(pid, number)  # Python has given up its signal handlers by now
last = Last()
runpy.run_module("bench.engine.guard", run_name="__main__")
"""


def test_a_stop_that_comes_while_the_guard_ends_does_not_change_the_exit_status() -> None:
    """Else an engine that died by itself was told to have ended as it was asked to."""
    lifeline, held = os.pipe()
    ending = [sys.executable, "-c", ENDING, "--lifeline", str(lifeline), "--grace", "60", "--", "sh", "-c", "exit 7"]
    try:
        assert subprocess.run(ending, pass_fds=(lifeline,), check=False, timeout=HUNG_S).returncode == 7
    finally:
        os.close(lifeline)
        os.close(held)


CLIENT = """
import os, signal, sys
from pathlib import Path
from bench.engine.guarded import GuardedProcess
process = GuardedProcess(sys.argv[2:], env=dict(os.environ), log=Path(sys.argv[1]), grace_s=60)
if os.fork() == 0:
    pass  # another process of the client, which holds a copy of the lifeline and lives on
else:
    print(process._guard.pid, flush=True)
signal.pause()
"""


def test_the_client_killed_leaves_nothing(family: Family, tmp_path: Path) -> None:
    command = [sys.executable, "-c", CLIENT, str(tmp_path / "log"), *family.command("--stubborn")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as client:
        family.pids()
        assert client.stdout
        guard = psutil.Process(int(client.stdout.readline()))
        client.kill()
        client.wait()
        family.wait_until_gone()
        _, left = psutil.wait_procs([guard], timeout=HUNG_S)
        assert not left
        os.killpg(client.pid, signal.SIGKILL)  # the copy that was forked


def test_a_program_that_is_not_there_is_named_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = GuardedProcess([str(tmp_path / "absent")], env={}, log=log, grace_s=1.0)
    process._guard.wait()
    assert process.poll() == CANNOT_START
    assert log.read_text() == f"{tmp_path}/absent: No such file or directory\n"
    process.stop()


def test_a_log_that_cannot_be_written_starts_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        GuardedProcess(["true"], env={}, log=tmp_path / "absent" / "log", grace_s=1.0)
