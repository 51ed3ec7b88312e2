from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import zipfile
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest

from bench.engine import install
from bench.engine.environment import cache_root, ensure_environment
from bench.engine.install import Installation, find_uv
from bench.engine.pins import EnginePin, Pins
from bench.errors import StreamproofError, UsageError
from bench.observe.packages import packages_sha256

ENOUGH_S = 60.0


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A package of one module, with a script."""
    path = tmp_path / "wheels" / "tiny_engine-1.0-py3-none-any.whl"
    path.parent.mkdir()
    files = {
        "tiny_engine.py": "def main():\n    print('served')\n",
        "tiny_engine-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny-engine\nVersion: 1.0\n",
        "tiny_engine-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "tiny_engine-1.0.dist-info/entry_points.txt": "[console_scripts]\ntiny = tiny_engine:main\n",
    }
    record = "tiny_engine-1.0.dist-info/RECORD"
    with zipfile.ZipFile(path, "w") as archive:
        rows = [f"{record},,"]
        for name, text in files.items():
            archive.writestr(name, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(text)}")
        archive.writestr(record, "\n".join(rows) + "\n")
    return path


@pytest.fixture
def lock(wheel: Path, tmp_path: Path) -> Path:
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    path = tmp_path / "tiny.txt"
    path.write_text(f"--no-index\n--find-links {wheel.parent}\ntiny-engine==1.0 --hash=sha256:{digest}\n")
    return path


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def installation(lock: Path, tmp_path: Path, said: list[str]) -> Installation:
    return Installation(
        name="the tiny engine", lock=lock, target=tmp_path / "e" / "tiny", gib=0.01, say=said.append, terminal=False
    )


def left(installation: Installation) -> list[str]:
    return sorted(path.name for path in installation.target.parent.iterdir())


def test_an_environment_is_installed_compiled_and_works_where_it_was_moved_to(
    installation: Installation, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert not installation.is_there()
    installation.ensure()
    assert installation.is_there()
    script = installation.target / "bin" / "tiny"
    assert subprocess.run([script], check=True, capture_output=True, text=True).stdout == "served\n"
    assert list(installation.target.rglob("tiny_engine.*.pyc"))
    assert left(installation) == ["tiny", "tiny.lock"]
    assert said[0] == "Installing the tiny engine (0.0 GiB, once)"
    assert any(line.startswith("Installed 1 package") for line in said)
    assert not any(line.startswith(" + ") for line in said)


def test_what_is_there_is_not_installed_again(
    installation: Installation, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.ensure()
    said.clear()
    monkeypatch.setattr(install, "find_uv", lambda: pytest.fail("uv was asked for"))
    installation.ensure()
    assert said == []


def test_an_environment_whose_interpreter_is_gone_is_installed_again(installation: Installation) -> None:
    installation.ensure()
    installation.python.unlink()
    installation.python.symlink_to("/absent/python3")
    (installation.target / "old").touch()
    installation.ensure()
    assert installation.is_there()
    assert not (installation.target / "old").exists()


def test_a_package_that_is_not_the_locked_one_is_refused_and_nothing_is_left(
    installation: Installation, wheel: Path
) -> None:
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("smuggled.py", "")
    with pytest.raises(StreamproofError) as caught:
        installation.ensure()
    assert "the tiny engine could not be installed" in caught.value.message
    assert "Hash mismatch" in caught.value.message
    assert left(installation) == ["tiny.lock"]


def test_a_terminal_is_left_to_uv(
    installation: Installation, said: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    replace(installation, terminal=True).ensure()
    assert len(said) == 1
    assert "Installed 1 package" in capfd.readouterr().err


def test_too_little_disk_is_refused_before_anything_is_downloaded(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")  # noqa: PYI024  as shutil's own
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(100 << 30, 97 << 30, 3 << 30))
    monkeypatch.setattr(Installation, "_run", lambda *_: pytest.fail("uv was started"))
    with pytest.raises(StreamproofError) as caught:
        replace(installation, gib=6.2).ensure()
    assert caught.value.message.startswith("installing the tiny engine needs 6.2 GiB; 3.0 GiB are free at ")
    assert "UV_CACHE_DIR" in caught.value.remedy


def test_two_at_once_install_once(installation: Installation, said: list[str]) -> None:
    installation.target.parent.mkdir()
    waiting, done = threading.Event(), threading.Event()

    def say(line: str) -> None:
        said.append(line)
        waiting.set()

    def second() -> None:
        replace(installation, say=say).ensure()
        done.set()

    with installation.target.with_name("tiny.lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(ENOUGH_S)
        assert said == ["Another process is installing the tiny engine; waiting for it"]
        assert not done.is_set()
        (installation.target / "bin").mkdir(parents=True)
        installation.python.symlink_to(sys.executable)
    thread.join(ENOUGH_S)
    assert done.is_set()
    assert len(said) == 1


HALF_WAY = """
import os, sys
from pathlib import Path
from bench.engine import install
install.find_uv = lambda: sys.argv[4]
install.Installation(name="it", lock=Path(sys.argv[1]), target=Path(sys.argv[2]), gib=0.01, say=print,
                     terminal=False).ensure()
"""

HANGING_UV = """#!/bin/sh
case "$1" in
  cache) echo /tmp ;;
  venv) for last; do :; done; mkdir -p "$last/bin"; touch "$last/bin/python" ;;
  pip) echo $$ >"$FIFO"; exec cat "$FIFO.never" ;;
esac
"""


def test_an_interrupted_installation_leaves_nothing_that_looks_whole(
    installation: Installation, tmp_path: Path
) -> None:
    uv, fifo = tmp_path / "uv", tmp_path / "fifo"
    uv.write_text(HANGING_UV)
    uv.chmod(0o755)
    os.mkfifo(fifo)
    os.mkfifo(f"{fifo}.never")
    command = [sys.executable, "-c", HALF_WAY, str(installation.lock), str(installation.target), "", str(uv)]
    with subprocess.Popen(command, env={**os.environ, "FIFO": str(fifo)}, stdout=subprocess.DEVNULL) as client:
        reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        assert select.select([reading], [], [], ENOUGH_S)[0]  # until the environment is half there
        hanging = int(os.read(reading, 100))
        os.close(reading)
        client.kill()
    assert not installation.is_there()
    assert len(left(installation)) == 2
    # The installer that was left alone still keeps others away; when it is gone, so is what it began.
    with installation.target.with_name("tiny.lock").open("w") as mine, pytest.raises(BlockingIOError):
        fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.kill(hanging, signal.SIGKILL)
    installation.ensure()
    assert left(installation) == ["tiny", "tiny.lock"]


def test_uv_is_found_beside_the_interpreter_in_the_checkout_and_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(folder: Path) -> str:
        folder.mkdir(parents=True)
        (folder / "uv").touch(mode=0o755)
        return str(folder / "uv")

    monkeypatch.setattr(install, "REPOSITORY", tmp_path / "checkout")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    with pytest.raises(StreamproofError, match="uv, which installs environments, is not there") as caught:
        find_uv()
    assert "docker/locks/tools.txt" in caught.value.remedy
    for folder in ("path", "checkout/.tools/bin", "venv/bin"):
        uv = program(tmp_path / folder)
        assert find_uv() == uv


@pytest.fixture
def pins(lock: Path) -> Pins:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    pin = EnginePin.model_validate(
        {
            "lock": lock.name,
            "version": "1.0",
            "python": [version],
            "module": "tiny_engine",
            "installed-gib": 0.01,
            "env": {"HF_HUB_OFFLINE": "1"},
        }
    )
    return Pins(images={}, engines={"tiny": pin})


def test_the_environment_of_an_engine(
    pins: Pins, lock: Path, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first = ensure_environment("tiny", say=said.append, pins=pins, repository=lock.parent)
    assert first.command() == (str(first.python), "-m", "tiny_engine")
    assert first.env == {"HF_HUB_OFFLINE": "1"}
    assert first.packages_sha256 == packages_sha256({"tiny-engine": "1.0"})
    assert first.python.parents[2] == tmp_path / "cache" / "streamproof" / "engines"
    assert ensure_environment("tiny", say=said.append, pins=pins, repository=lock.parent) == first
    lock.write_text(lock.read_text() + "# another list\n")
    assert ensure_environment("tiny", say=said.append, pins=pins, repository=lock.parent).python != first.python


def test_another_interpreter_is_another_environment(
    pins: Pins, lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Installation, "ensure", lambda _: None)
    first = ensure_environment("tiny", say=print, pins=pins, repository=lock.parent)
    monkeypatch.setattr("platform.python_version", lambda: "3.11.99")
    assert ensure_environment("tiny", say=print, pins=pins, repository=lock.parent).python != first.python


def test_a_python_that_the_lock_was_not_made_for(pins: Pins, lock: Path) -> None:
    other = Pins(images={}, engines={"tiny": pins.engines["tiny"].model_copy(update={"python": ["3.8"]})})
    with pytest.raises(StreamproofError) as caught:
        ensure_environment("tiny", say=print, pins=other, repository=lock.parent)
    assert "is locked for Python 3.8; this is Python 3." in caught.value.message
    assert "uv sync --python 3.8" in caught.value.remedy


def test_an_environment_that_nobody_pinned(pins: Pins) -> None:
    with pytest.raises(UsageError, match='no engine environment "nope"'):
        ensure_environment("nope", say=print, pins=pins)


def test_a_lock_file_that_is_not_there(pins: Pins, tmp_path: Path) -> None:
    with pytest.raises(StreamproofError, match="the lock file of the engine environment tiny cannot be read"):
        ensure_environment("tiny", say=print, pins=pins, repository=tmp_path / "absent")


def test_a_relative_cache_folder_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_root() == Path.home() / ".cache" / "streamproof"
