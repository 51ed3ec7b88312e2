"""The commit that an image bears: the last one that changed what decides it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bench.errors import StreamproofError
from bench.images.revision import revision_of, tracked_files


class Checkout:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "-q")

    def git(self, *arguments: str, time: int = 0) -> str:
        when = f"{time} +0000"
        who = {f"GIT_{role}_{what}": "x" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        environment = {**os.environ, **who, "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
        command = ["git", "-C", str(self.folder), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()

    def commit(self, time: int, **files: str) -> str:
        for name, text in files.items():
            (self.folder / name).write_text(text)
        self.git("add", ".")
        self.git("commit", "-qm", "x", time=time)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_commit_that_changes_something_else_is_not_it(checkout: Checkout) -> None:
    checkout.commit(1_000_000_000, a="1", b="1")
    changed_a = checkout.commit(1_000_000_100, a="2")
    checkout.commit(1_000_000_200, b="2")
    revision = revision_of(["a"], checkout.folder)
    assert (revision.commit, revision.time, revision.changed) == (changed_a, 1_000_000_100, ())
    assert revision.label == changed_a
    assert revision.created == "2001-09-09T01:48:20Z"


def test_what_is_not_committed_is_named(checkout: Checkout) -> None:
    commit = checkout.commit(1_000_000_000, a="1", b="1", c="1")
    (checkout.folder / "a").write_text("2")
    (checkout.folder / "b").write_text("2")
    (checkout.folder / "d").write_text("new")
    revision = revision_of(["a", "d", "c"], checkout.folder)
    assert revision.changed == ("a", "d")
    assert revision.label == f"{commit}-dirty"


def test_files_that_were_never_committed(checkout: Checkout) -> None:
    checkout.commit(1_000_000_000, a="1")
    with pytest.raises(StreamproofError, match="nothing that the image is made from is committed"):
        revision_of(["z"], checkout.folder)


def test_a_folder_without_git(tmp_path: Path) -> None:
    with pytest.raises(StreamproofError, match="not a git repository"):
        revision_of(["a"], tmp_path)


def test_without_the_program_git(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(checkout.folder))
    with pytest.raises(StreamproofError, match="git is not there"):
        revision_of(["a"], checkout.folder)


def test_new_files_count_and_ignored_and_deleted_ones_do_not(checkout: Checkout) -> None:
    checkout.commit(1_000_000_000, a="1", gone="1")
    (checkout.folder / ".gitignore").write_text("*.pyc\n")
    for name in ("b", "x.pyc"):
        (checkout.folder / name).write_text("")
    (checkout.folder / "gone").unlink()
    assert tracked_files(["."], checkout.folder) == [".gitignore", "a", "b"]
