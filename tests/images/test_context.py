"""A context is the same on every host, whatever its clock, its umask and the state of its files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from bench.engine.pins import REPOSITORY
from bench.images.context import Packages, stage
from bench.images.definition import image_definition
from tests.images.handmade_wheels import wheel


def described(folder: Path) -> dict[str, tuple[int, float, bytes]]:
    found = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[path.relative_to(folder).as_posix()] = (stat.S_IMODE(status.st_mode), status.st_mtime, content)
    return found


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_modes_and_times_are_set(umask: int, tmp_path: Path) -> None:
    definition = image_definition("quantize")
    packages = Packages(lock="lock", wheels=[wheel(tmp_path, "thing")], uv=b"program")
    caches = tmp_path / "caches"
    caches.mkdir(mode=0o700)
    (caches / "kernel").write_text("1")
    before = os.umask(umask)
    try:
        stage(
            definition, tmp_path / "context", repository=REPOSITORY, packages=packages, caches=caches, version="0.1.0"
        )
    finally:
        os.umask(before)
    found = described(tmp_path / "context")
    assert {time for _, time, _ in found.values()} == {315532800.0}
    for name, (mode, _, _) in found.items():
        runnable = name == "uv" or (tmp_path / "context" / name).is_dir()
        assert mode == (0o755 if runnable else 0o644), name
    assert found["lock.txt"][2] == b"lock"
    assert found["caches/kernel"][2] == b"1"
    assert found["METADATA"][2] == b"Metadata-Version: 2.1\nName: streamproof\nVersion: 0.1.0\n"
    assert found["source/quantize/worker/job.py"][2] == (REPOSITORY / "quantize/worker/job.py").read_bytes()
    assert "source/bench/images/inside/assemble.py" not in found


def test_a_module_that_assembles_the_client_is_in_the_client_too(tmp_path: Path) -> None:
    definition = image_definition("bench")
    stage(definition, tmp_path / "context", repository=REPOSITORY, packages=None, caches=None, version="0.1.0")
    missing = [name for name in definition.source if not (tmp_path / "context" / "source" / name).is_file()]
    assert missing == []
    assert "bench/images/layout.py" in {*definition.source} & {*definition.tools}


def test_wheels_are_linked_and_not_copied(tmp_path: Path) -> None:
    made = wheel(tmp_path / "store", "thing")
    packages = Packages(lock="", wheels=[made], uv=b"")
    definition = image_definition("cpu")
    stage(definition, tmp_path / "context", repository=REPOSITORY, packages=packages, caches=None, version="")
    assert (tmp_path / "context" / "wheels" / made.name).samefile(made)


def test_an_image_without_packages_and_modules_gets_what_assembles_it_and_no_more(tmp_path: Path) -> None:
    definition = image_definition("h200-fp8")
    stage(definition, tmp_path / "context", repository=REPOSITORY, packages=None, caches=None, version="0.1.0")
    files = {path.relative_to(tmp_path / "context").as_posix() for path in (tmp_path / "context").rglob("*.*")}
    assert {Path(name).parts[0] for name in files} == {"tools"}
    assert files == {f"tools/{path}" for path in definition.tools}
