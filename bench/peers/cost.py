"""What a tool costs: CPU and memory of its whole process tree, seen from outside.

Nothing of it is asked of the tool itself, so it is the same for every tool, ours included.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import psutil

POLL_S: Final = 0.5
"""Twice a second: a look at all processes of the host takes some milliseconds."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a process tree.

    Attributes:
        t: seconds of CLOCK_MONOTONIC.
        cpu_s: CPU seconds so far of every process that was ever seen in it.
        rss_mb: resident memory of those alive, added up: pages that they share count once for each.
    """

    t: float
    cpu_s: float
    rss_mb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a process tree took.

    Attributes:
        exit_code: of its first process; negative for the signal that ended it.
        timed_out: it was ended because it took too long.
        started_s, ended_s: when it was, seconds of CLOCK_MONOTONIC.
        cpu_s: user and system CPU seconds of all its processes, from start to end.
        peak_mb: peak of `Look.rss_mb`.
        looks: in order of time; the last one when it had ended.
    """

    exit_code: int
    timed_out: bool
    started_s: float
    ended_s: float
    cpu_s: float
    peak_mb: float
    looks: tuple[Look, ...]

    def cpu_between(self, begin: float, end: float) -> float | None:
        """CPU seconds between two times, interpolated between looks; None when there were no looks around them."""
        before, after = _at(self.looks, begin), _at(self.looks, end)
        return None if before is None or after is None else after - before


def _at(looks: Sequence[Look], t: float) -> float | None:
    for left, right in pairwise(looks):
        if left.t <= t <= right.t:
            return left.cpu_s + (right.cpu_s - left.cpu_s) * (t - left.t) / (right.t - left.t)
    return None


@dataclass(slots=True)
class _Tree:
    """Adds up a tree whose processes come and go."""

    root: psutil.Process
    cpu_s: dict[tuple[int, float], float] = field(default_factory=dict)

    def look(self) -> Look:
        rss = 0
        try:
            processes = [self.root, *self.root.children(recursive=True)]
        except psutil.NoSuchProcess:
            processes = []
        for process in processes:
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    rss += process.memory_info().rss
                    self.cpu_s[process.pid, process.create_time()] = times.user + times.system
            except psutil.NoSuchProcess:
                continue
        return Look(time.monotonic(), sum(self.cpu_s.values()), rss / 2**20)


def run(command: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path, timeout_s: float) -> Cost:
    """Run a command to its end in a session of its own and watch it.

    Args:
        command: what to run.
        env: its whole environment.
        cwd: working directory.
        log: takes what it says.
        timeout_s: it is killed after so long, with everything that it started.
    """
    looks: list[Look] = []
    ended = threading.Event()
    timed_out = False
    with log.open("wb") as output:
        started = time.monotonic()
        process = subprocess.Popen(  # noqa: S603  the pinned tools with our own arguments
            command,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

        tree = _Tree(psutil.Process(process.pid))  # before it can be reaped

        def watch() -> None:
            nonlocal timed_out
            while True:
                looks.append(tree.look())
                if ended.wait(POLL_S):
                    return
                if time.monotonic() - started > timeout_s:
                    timed_out = True
                    _kill(process.pid)

        watcher = threading.Thread(target=watch, name="watch")
        watcher.start()
        try:
            # wait4 gives the CPU of the process and of all descendants that were waited for: exact, where looks miss
            # what happened after the last one. Looks see those that nobody waited for.
            _, status, usage = os.wait4(process.pid, 0)
            ended_s = time.monotonic()
        except BaseException:
            _kill(process.pid)
            process.wait()
            raise
        finally:
            ended.set()
            watcher.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        _kill(process.pid)
    cpu_s = max(usage.ru_utime + usage.ru_stime, looks[-1].cpu_s)
    looks.append(Look(ended_s, cpu_s, 0.0))
    return Cost(
        exit_code=process.returncode,
        timed_out=timed_out,
        started_s=started,
        ended_s=ended_s,
        cpu_s=cpu_s,
        peak_mb=max(look.rss_mb for look in looks),
        looks=tuple(looks),
    )


def _kill(session: int) -> None:
    """End whatever is left of a session that we started."""
    try:
        os.killpg(session, signal.SIGKILL)
    except ProcessLookupError:
        return
