from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bench.bundle.entries import Entry, committed_files, folder_files, head, site_files
from bench.bundle.left_out import Rule
from bench.bundle.wheels import glibc_needed
from bench.errors import StreamproofError

WHEN = {"GIT_AUTHOR_DATE": "1764463904 +0000", "GIT_COMMITTER_DATE": "1764463904 +0000"}


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, env=os.environ | WHEN, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "bench").mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "bench" / "run.sh").write_text("#!/bin/sh\n")
    (folder / "bench" / "run.sh").chmod(0o755)
    (folder / "bench" / "data.toml").write_text("x = 1\n")
    (folder / "tests" / "test_x.py").write_text("")
    (folder / "LICENSE").write_text("free")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def test_the_client_is_what_is_committed(repository: Path) -> None:
    (repository / "bench" / "data.toml").write_text("x = 2\n")
    (repository / "bench" / "new.py").write_text("")
    (repository / "tests" / "new.py").write_text("")
    commit = head(repository)
    assert commit.time == 1764463904
    assert sorted(commit.uncommitted) == ["bench/data.toml", "bench/new.py"]
    assert committed_files(repository, commit.id, "client/") == [
        Entry("client/LICENSE", b"free"),
        Entry("client/bench/data.toml", b"x = 1\n"),
        Entry("client/bench/run.sh", b"#!/bin/sh\n", executable=True),
    ]


def test_a_committed_link_is_refused(repository: Path) -> None:
    (repository / "bench" / "link").symlink_to("/etc/passwd")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "second")
    with pytest.raises(StreamproofError, match="bench/link is committed as a link"):
        committed_files(repository, head(repository).id, "")


def test_no_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "plain").mkdir()
    with pytest.raises(StreamproofError) as caught:
        head(tmp_path / "plain")
    assert "git checkout" in caught.value.remedy


def test_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(StreamproofError, match="git is not there"):
        head(tmp_path)


def test_a_sites_record_names_what_is_carried(tmp_path: Path) -> None:
    site = tmp_path / "site"
    info = site / "pack-1.dist-info"
    info.mkdir(parents=True)
    (site / "pack.py").write_text("")
    (site / "bin").mkdir()
    (site / "bin" / "pack").write_text("#!/here/python")
    (info / "RECORD").write_text(
        'bin/pack,sha256=x,1\npack-1.dist-info/RECORD,,\npack.py,sha256=y,0\n"a,b.py",sha256=z,0\n'
    )
    rule = Rule(name="scripts", of="any", why="because", files=["bin/*"])
    entries, savings = site_files(site, "engine/", [rule], "312")
    assert [entry.path for entry in entries] == ["engine/pack-1.dist-info/RECORD", "engine/pack.py"]
    assert entries[0].source == b"pack-1.dist-info/RECORD,,\npack.py,sha256=y,0\n"
    assert [(saving.rule.name, saving.size) for saving in savings] == [("scripts", 14)]


def test_a_folder_with_something_else_in_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "link").symlink_to("a")
    assert [entry.path for entry in folder_files(tmp_path, "p/")] == ["p/a", "p/link"]
    (tmp_path / "gone").symlink_to("nowhere")
    with pytest.raises(StreamproofError, match="gone is neither a file nor a folder"):
        folder_files(tmp_path, "p/")


def test_the_c_library_that_wheels_ask_for(tmp_path: Path) -> None:
    assert glibc_needed(tmp_path) == 17

    def wheel(name: str, *tags: str) -> None:
        folder = tmp_path / f"{name}-1.dist-info"
        folder.mkdir()
        (folder / "WHEEL").write_text("".join(f"Tag: cp312-cp312-{tag}\n" for tag in tags))

    wheel("pure", "any")
    wheel("plain", "linux_x86_64")
    wheel("old", "manylinux1_x86_64")
    wheel("both", "manylinux_2_17_x86_64.manylinux2014_x86_64", "manylinux_2_35_x86_64")
    assert glibc_needed(tmp_path) == 17
    wheel("new", "manylinux_2_28_x86_64")
    assert glibc_needed(tmp_path) == 28
