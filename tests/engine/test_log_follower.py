from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from bench.engine import log_follower
from bench.engine.log_follower import LogFollower

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from bench.engine.log_lines import LogLine

ENOUGH_S = 60.0


class Taken:
    def __init__(self) -> None:
        self.lines: list[tuple[str, float]] = []
        self.came = threading.Event()

    def __call__(self, line: LogLine, t: float) -> None:
        self.lines.append((line.text, t))
        self.came.set()


def test_lines_come_while_the_log_is_written_and_carry_the_time_of_reading(tmp_path: Path) -> None:
    log, taken, now = tmp_path / "log", Taken(), [1.0]
    log.touch()
    follower = LogFollower(log, lambda: now[0], taken)
    with log.open("ab", buffering=0) as writing:
        writing.write(b"first\n")
        assert taken.came.wait(ENOUGH_S)
        taken.came.clear()
        now[0] = 2.0
        writing.write(b"second\npart")
        assert taken.came.wait(ENOUGH_S)
        now[0] = 3.0
        follower.stop()
    assert taken.lines == [("first", 1.0), ("second", 2.0), ("part", 3.0)]


def test_stop_reads_what_was_written_last_and_may_be_called_again(tmp_path: Path) -> None:
    log, taken = tmp_path / "log", Taken()
    log.touch()
    follower = LogFollower(log, lambda: 0.0, taken)
    log.write_bytes(b"x\n" * 100_000)
    follower.stop()
    follower.stop()
    assert len(taken.lines) == 100_000


def test_whoever_cannot_wait_catches_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_follower, "READ_EVERY_S", 3600.0)
    log, taken = tmp_path / "log", Taken()
    log.touch()
    follower = LogFollower(log, lambda: 0.0, taken)
    log.write_bytes(b"whole\npart")
    follower.catch_up()
    assert [text for text, _ in taken.lines] == ["whole"]
    follower.stop()
    follower.catch_up()
    assert [text for text, _ in taken.lines] == ["whole", "part"]
