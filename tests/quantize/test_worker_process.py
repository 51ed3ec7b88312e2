import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.errors import StreamproofError, UsageError
from quantize.available import available, choose_device
from quantize.environment import WorkerPython, worker_python
from quantize.needs import Available
from quantize.stages.stage import Environment
from quantize.worker_process import Progress, run_worker

DONE = (
    '{"event": "done", "worker_s": 1, "peak_rss_bytes": 7, "peak_gpu_bytes": 0, "facts": {"versions": {"torch": "2"}}}'
)


def worker(folder: Path, *lines: str) -> WorkerPython:
    script = folder / "python"
    script.write_text("\n".join(("#!/bin/sh", *lines)) + "\n")
    script.chmod(0o755)
    return WorkerPython(python=script, environment=Environment(locked=False, packages_sha256="0" * 64))


def test_progress_and_outcome_are_told(tmp_path: Path) -> None:
    told: list[Progress] = []
    step = '{"event": "progress", "done": 1, "of": 4, "what": "layer 2"}'
    script = worker(tmp_path, f"echo '{step}'", f"echo '{DONE}'")
    outcome = run_worker("export", {"a": 1}, worker=script, folder=tmp_path, on_progress=told.append)
    assert told == [Progress(done=1, of=4, what="layer 2")]
    assert (outcome.peak_rss_bytes, outcome.versions) == (7, {"torch": "2"})
    assert (tmp_path / ".job.json").read_text() == '{\n  "a": 1\n}\n'


@pytest.mark.parametrize("lines", [("echo out of memory >&2", "exit 3"), ("echo out of memory >&2", "exit 0")])
def test_a_worker_that_failed_says_why(tmp_path: Path, lines: tuple[str, ...]) -> None:
    with pytest.raises(StreamproofError, match="worker export ended with status") as caught:
        run_worker("export", {}, worker=worker(tmp_path, *lines), folder=tmp_path, on_progress=lambda _step: None)
    assert "out of memory" in caught.value.message


def test_a_worker_sees_only_what_it_must(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somebody/elses")
    monkeypatch.setenv("TORCH_LOGS", "all")
    script = worker(tmp_path, f"env > {tmp_path}/env", f"echo '{DONE}'")
    run_worker("export", {}, worker=script, folder=tmp_path, on_progress=lambda _step: None)
    seen = (tmp_path / "env").read_text()
    assert "TORCH_LOGS" not in seen
    assert "/somebody/elses" not in seen
    assert "HF_HUB_OFFLINE=1" in seen


def test_an_interpreter_of_ones_own_is_listed_and_keeps_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/a/site")
    listing = '{"Torch": "2.11.0", "nvidia_modelopt": "0.47.0"}'
    found = worker_python(worker(tmp_path, f"echo '{listing}'").python, say=print, terminal=False)
    assert found.environment.packages == {"nvidia-modelopt": "0.47.0", "torch": "2.11.0"}
    assert not found.environment.locked
    assert found.extra_path == "/a/site"


def test_an_interpreter_that_is_none(tmp_path: Path) -> None:
    for python in (tmp_path / "nowhere", worker(tmp_path, "exit 1").python, worker(tmp_path, "echo hello").python):
        with pytest.raises(UsageError, match="no Python interpreter that runs"):
            worker_python(python, say=print, terminal=False)


def test_devices() -> None:
    without, with_gpu = Available(gpu=None, memory=1, disk=1), Available(gpu=1, memory=1, disk=1)
    assert (choose_device("auto", without), choose_device("auto", with_gpu)) == ("cpu", "cuda")
    assert choose_device("cpu", with_gpu) == "cpu"
    with pytest.raises(UsageError, match="no NVIDIA GPU"):
        choose_device("cuda", without)


def test_what_the_work_folder_holds_counts_as_free_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=0))
    (tmp_path / "a").write_bytes(os.urandom(1 << 20))
    os.link(tmp_path / "a", tmp_path / "b")
    assert 1 << 20 <= available(tmp_path).disk < 2 << 20
    assert available(tmp_path / "nowhere").disk == 0
