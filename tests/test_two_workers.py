"""A small suite on two workers: who runs what, and what runs beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

CONFTEST = """
import json, os, pathlib, threading, pytest

HERE = pathlib.Path(__file__).parent

@pytest.fixture(scope="session")
def _docker():
    return 1

@pytest.fixture
def docker_host(_docker):
    return _docker

@pytest.fixture(autouse=True)
def seen(request):
    worker = os.environ.get("PYTEST_XDIST_WORKER", "none")
    running = HERE / "running" / request.node.name
    running.touch()
    beside = sorted(path.name for path in running.parent.iterdir() if path != running)
    with (HERE / "seen.jsonl").open("a") as file:
        file.write(json.dumps([request.node.name, worker, beside]) + "\\n")
    yield
    running.unlink()

@pytest.fixture
def until_alone_began():
    \"\"\"Waits for it as long as it would need to begin.\"\"\"
    wait = threading.Event()
    for _ in range(30):
        if "test_measures" in (HERE / "seen.jsonl").read_text():
            break
        wait.wait(0.05)
"""
FILES = {
    "test_a.py": "import pytest\n@pytest.mark.alone\ndef test_measures(docker_host): ...\n",
    "test_b.py": "def test_builds(docker_host): ...\ndef test_b(): ...\n",
    "test_c.py": "import pytest\n@pytest.mark.engine\ndef test_starts(): ...\n",
    "test_d.py": "\n".join(f"def test_d{n}(): ..." for n in range(3)),
    # The largest file goes to the worker that does not get the first piece, and keeps it busy to the end.
    "test_e.py": "\n".join(f"def test_e{n}({'until_alone_began' if n > 2 else ''}): ..." for n in range(5)),
}


def ran(tmp_path: Path, *options: str) -> dict[str, tuple[str, list[str]]]:
    """Test to its worker, and to what ran when it began."""
    (tmp_path / "running").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    alone\n    engine\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.two_workers", "-p", "no:cacheprovider", *options],
        cwd=tmp_path,
        env={**outside, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (json.loads(line) for line in (tmp_path / "seen.jsonl").read_text().splitlines())
    return {name: (worker, beside) for name, worker, beside in lines}


def test_what_measures_is_alone_on_the_worker_of_what_is_there_once(tmp_path: Path) -> None:
    seen = ran(tmp_path, "-n", "2", "--dist", "loadfile")
    workers = {name: worker for name, (worker, _) in seen.items()}
    assert len(workers) == 12
    assert set(workers.values()) == {"gw0", "gw1"}
    assert workers["test_builds"] == workers["test_starts"] == workers["test_measures"]
    assert len({workers[f"test_e{n}"] for n in range(5)}) == 1, "a file stays together"
    assert seen["test_measures"][1] == []
    assert not any("test_measures" in beside for _, beside in seen.values())


@pytest.mark.parametrize("options", [(), ("-n", "0", "--dist", "loadfile")])
def test_without_workers_everything_runs_in_its_order(tmp_path: Path, options: tuple[str, ...]) -> None:
    seen = ran(tmp_path, *options)
    assert list(seen)[:3] == ["test_measures", "test_builds", "test_b"]
    assert {worker for worker, _ in seen.values()} == {"none"}
