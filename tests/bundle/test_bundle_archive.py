from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.bundle import archive as module
from bench.bundle.archive import pack, parse_size
from bench.bundle.entries import Entry
from bench.bundle.host.manifest import FILE_LIST, Archive
from bench.bundle.host.unpack import unpack
from bench.errors import StreamproofError, UsageError

TIME = 1_764_463_904
NOISE = os.urandom(20_000)


def entries(folder: Path) -> list[Entry]:
    (folder / "source").write_bytes(NOISE)
    return [
        Entry("b/twin", folder / "source"),
        Entry("a/first", NOISE),
        Entry("run", b"#!/bin/sh\n", executable=True),
        Entry("empty", b""),
        Entry("empty-too", b""),
        Entry("long/" + "x" * 240, b"a name beyond the hundred bytes of old tar"),
    ]


def made(folder: Path, *, compress: bool = True, part_size: int = 5000) -> Archive:
    folder.mkdir()
    return pack("all", entries(folder), folder, file_name="all.tar", compress=compress, part_size=part_size, time=TIME)


def test_two_makes_give_the_same_bytes(tmp_path: Path) -> None:
    one, two = made(tmp_path / "one"), made(tmp_path / "two")
    assert one == two
    for part in one.parts:
        assert (tmp_path / "one" / part.name).read_bytes() == (tmp_path / "two" / part.name).read_bytes()


@pytest.mark.parametrize("compress", [True, False])
def test_what_is_packed_is_unpacked(tmp_path: Path, *, compress: bool) -> None:
    archive = made(tmp_path / "made", compress=compress)
    root = tmp_path / "root"
    root.mkdir()
    listed = unpack(archive, tmp_path / "made", root)
    assert {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()} == set(listed)
    for entry in entries(tmp_path / "made"):
        expected = entry.source if isinstance(entry.source, bytes) else entry.source.read_bytes()
        assert (root / entry.path).read_bytes() == expected
        assert os.access(root / entry.path, os.X_OK) == entry.executable
        assert (root / entry.path).stat().st_mtime == TIME
    assert archive.unpacked_size == sum(file.size for file in listed.values())
    assert archive.file_count == 6


def test_of_twins_one_is_packed(tmp_path: Path) -> None:
    archive = made(tmp_path / "made")
    assert sum(part.size for part in archive.parts) < 1.2 * len(NOISE)


def test_parts_have_the_size_that_was_asked_for(tmp_path: Path) -> None:
    archive = made(tmp_path / "made")
    *full, last = archive.parts
    assert {part.size for part in full} == {5000}
    assert 0 < last.size <= 5000
    assert [part.name for part in archive.parts] == [f"all.tar.{n:03d}" for n in range(1, len(archive.parts) + 1)]
    for part in archive.parts:
        assert (tmp_path / "made" / part.name).stat().st_size == part.size


def test_a_last_part_can_be_full_too(tmp_path: Path) -> None:
    archive = made(tmp_path / "made", compress=False, part_size=10240)  # a tar file is a multiple of this
    assert {part.size for part in archive.parts} == {10240}


def test_tar_and_xz_of_the_host_read_it_too(tmp_path: Path) -> None:
    archive = made(tmp_path / "made")
    whole = tmp_path / "whole.tar.xz"
    whole.write_bytes(b"".join((tmp_path / "made" / part.name).read_bytes() for part in archive.parts))
    subprocess.run(["tar", "-xJf", str(whole), "-C", str(tmp_path)], check=True)
    assert (tmp_path / "b" / "twin").read_bytes() == NOISE
    assert (tmp_path / FILE_LIST).read_text().count("\n") == 6


def test_two_files_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(StreamproofError, match="two files of the bundle are called a"):
        pack(
            "all",
            [Entry("a", b""), Entry("a", b"x")],
            tmp_path,
            file_name="x",
            compress=False,
            part_size=9999,
            time=TIME,
        )


def test_a_name_that_no_installer_takes(tmp_path: Path) -> None:
    with pytest.raises(StreamproofError, match="cannot carry"):
        pack("all", [Entry("a\nb", b"")], tmp_path, file_name="x", compress=False, part_size=9999, time=TIME)


def test_too_many_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_PARTS", 2)
    with pytest.raises(StreamproofError, match="does not fit in 2 parts"):
        made(tmp_path / "made")


def test_no_xz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_XZ", ("no-such-xz",))
    with pytest.raises(StreamproofError, match="xz") as caught:
        made(tmp_path / "made")
    assert "xz-utils" in caught.value.remedy


def test_xz_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_XZ", ("sh", "-c", "echo 'no memory' >&2; exit 3"))
    with pytest.raises(StreamproofError, match="xz failed: no memory"):
        made(tmp_path / "made")


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(StreamproofError, match="No space left on device") as caught:
        made(tmp_path / "made")
    assert "--out" in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("60MB", 60_000_000),
        ("64MiB", 64 << 20),
        ("1.5 GB", 1_500_000_000),
        ("2kb", 2000),
        ("5000", 5000),
        ("1000B", 1000),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "60XB", "-5MB", "999", "1e9", "60 M B"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="is no size"):
        parse_size(text)
