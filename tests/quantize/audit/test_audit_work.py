"""Spreading the work over processes, and what happens when it goes wrong."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import psutil
import pytest

from bench.errors import StreamproofError
from quantize.audit import work
from quantize.audit.folder import open_checkpoint
from quantize.audit.measure import CopyJob, Extent, compare_copy, forget_files
from quantize.audit.model import audit_json
from quantize.audit.run import audit_checkpoint
from quantize.audit.scene import build_scene, jobs_of
from quantize.audit.work import Progress, run_jobs
from tests.quantize.audit.synthetic import Folder
from tests.signal_masks import blocks_ctrl_c


@pytest.fixture
def folder(sound: Folder, tmp_path: Path) -> Path:
    return sound.write(tmp_path / "checkpoint")


def test_processes_change_nothing(folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = audit_json(audit_checkpoint(folder, source=source, processes=1))
    monkeypatch.setattr(work, "BATCH_BYTES", 50_000)
    assert audit_json(audit_checkpoint(folder, source=source, processes=2)) == alone
    assert multiprocessing.active_children() == []


def test_progress_ends_at_the_end(folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "BATCH_BYTES", 50_000)
    told: list[Progress] = []
    audit_checkpoint(folder, source=source, processes=1, on_progress=told.append)
    done = [step.done_bytes for step in told]
    assert len(told) > 5
    assert done == sorted(done)
    assert told[-1].done_bytes == told[-1].total_bytes
    assert all(step.doing for step in told)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_file_that_shrinks_while_it_is_read_is_an_error(
    processes: int, folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "BATCH_BYTES", 50_000)
    jobs = jobs_of(build_scene(open_checkpoint(folder), open_checkpoint(source)))
    forget_files()
    for shard in folder.glob("*.safetensors"):
        os.truncate(shard, shard.stat().st_size // 2)
    with pytest.raises(StreamproofError, match="was changed while it was read"):
        list(run_jobs(jobs, processes=processes, on_progress=None))


def test_a_killed_worker_is_an_error_with_a_remedy(folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise BrokenProcessPool

    monkeypatch.setattr(work, "_in_parallel", broken)
    monkeypatch.setattr(work, "BATCH_BYTES", 50_000)
    with pytest.raises(StreamproofError, match="A worker of the audit was killed") as caught:
        audit_checkpoint(folder, source=source, processes=2)
    assert "--processes" in caught.value.remedy


def test_memory_does_not_grow_with_a_tensor(tmp_path: Path) -> None:
    """A copy of 512 MiB (sparse) is compared in a process that may have 256."""
    script = """
import resource, sys
from quantize.audit.measure import CopyJob, Extent, compare_copy
resource.setrlimit(resource.RLIMIT_DATA, (1 << 28, 1 << 28))
extent = Extent(sys.argv[1], "big.safetensors", 0, 1 << 29)
print(compare_copy(CopyJob("big", extent, extent)).differing)
"""
    big = tmp_path / "big.safetensors"
    big.touch()
    os.truncate(big, 1 << 29)
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_differences_are_counted_over_all_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantize.audit.measure.COPY_PIECE", 10)
    (tmp_path / "a").write_bytes(b"x" * 35)
    (tmp_path / "b").write_bytes(b"x" * 12 + b"y" + b"x" * 20 + b"yy")
    a, b = (Extent(str(tmp_path), name, 0, 35) for name in "ab")
    found = compare_copy(CopyJob("t", a, b))
    forget_files()
    assert (found.differing, found.first) == (3, 12)


@pytest.mark.parametrize(
    ("end", "whom"), [(signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill), (signal.SIGKILL, os.kill)]
)
def test_however_it_ends_no_process_is_left(
    end: signal.Signals, whom: Callable[[int, int], None], folder: Path, source: Path
) -> None:
    """Ctrl-C goes to the whole group of processes, as in a terminal; the others to the audit alone."""
    script = """
import sys
from pathlib import Path
from quantize.audit import work
from quantize.audit.run import audit_checkpoint
if __name__ == "__main__":
    work.BATCH_BYTES = 1
    def told(step):
        if step.done_bytes < step.total_bytes:
            print("working", flush=True)
    audit_checkpoint(Path(sys.argv[1]), source=Path(sys.argv[2]), processes=2, on_progress=told)
"""
    file = folder.parent / "audit_it.py"
    file.write_text(script)
    environment = os.environ | {"PYTHONPATH": os.getcwd()}  # noqa: PTH109  as the tests were started
    with subprocess.Popen(
        [sys.executable, file, folder, source], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env=environment,
    ) as running:  # fmt: skip
        assert running.stdout is not None
        assert running.stdout.readline() == "working\n"
        everyone = psutil.Process(running.pid).children(recursive=True)
        workers = [child for child in everyone if "spawn_main" in " ".join(child.cmdline())]
        assert [blocks_ctrl_c(worker.pid) for worker in workers] == [True, True]
        whom(running.pid, end)
        _, errors = running.communicate(timeout=30)
        assert running.returncode != 0
        assert end is not signal.SIGINT or errors.rstrip().endswith("KeyboardInterrupt")
        _, left = psutil.wait_procs(everyone, timeout=30)
        assert left == []
