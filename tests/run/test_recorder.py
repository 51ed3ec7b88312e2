import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.errors import StreamproofError
from bench.load.journal import read
from bench.observe.observations import OBSERVATION, Finished, Interrupted
from bench.recorder import RESERVE_BYTES, Recorder, RunEnded
from bench.report import folder_files as files
from tests.report.factories import make_record


def test_what_was_recorded_is_read_back(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        recorder.record(make_record())
        recorder.observe(Finished(t=1.0, run=0))
        recorder.sync()
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) > RESERVE_BYTES
    assert read(tmp_path / files.RUNNING_RECORDS).records == (make_record(),)
    assert OBSERVATION.validate_json((tmp_path / files.OBSERVATIONS).read_bytes()) == Finished(t=1.0, run=0)
    assert sorted(path.name for path in tmp_path.iterdir()) == [files.OBSERVATIONS, files.RUNNING_RECORDS]


def test_the_reserve_of_a_killed_client_is_swept_away_as_a_leftover(tmp_path: Path) -> None:
    Recorder(tmp_path)
    reserve = [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert [files.is_leftover(path.name) for path in reserve] == [True]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 5 MiB: the reserve fits, and little more."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", disk], check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def test_a_full_disk_ends_the_run_and_still_takes_the_reason(small_disk: Path) -> None:
    kept: list[int] = []

    def fill(recorder: Recorder) -> None:
        for number in range(100_000):
            recorder.record(make_record())
            kept.append(number)

    with Recorder(small_disk) as recorder:
        with pytest.raises(RunEnded, match="No space left") as ended:
            fill(recorder)
        assert ended.value.cause == "disk"
        recorder.interrupted(ended.value, t=2.0, run=0)
    assert len(read(small_disk / files.RUNNING_RECORDS).records) == len(kept)
    last = OBSERVATION.validate_json((small_disk / files.OBSERVATIONS).read_bytes())
    assert isinstance(last, Interrupted)
    assert last.cause == "disk"


def test_what_an_engine_says_at_its_end_commands_no_terminal(tmp_path: Path) -> None:
    """The report quotes it, and a report that holds such characters is refused."""
    with Recorder(tmp_path) as recorder:
        recorder.interrupted(RunEnded("engine", "it died:\r\x1b[31m out of memory\n" + "x" * 500), t=2.0, run=0)
    last = OBSERVATION.validate_json((tmp_path / files.OBSERVATIONS).read_bytes())
    assert isinstance(last, Interrupted)
    assert last.detail.startswith("it died:\\r\\x1b[31m out of memory\\n")
    assert len(last.detail) == 300


def test_a_disk_without_room_for_a_report_is_refused_at_once(small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(bytes(3 * 1024 * 1024))
    with pytest.raises(StreamproofError, match="there is no room for a report"):
        Recorder(small_disk)
