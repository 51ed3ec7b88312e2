"""Packages are installed in CI only, where they are missing only, and by one process at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.debian_packages import NotInstalledError, find_program

ROOT = Path(__file__).parents[1]
APT_GET = """#!/bin/sh
mkdir {folder}/busy || {{ echo 'Could not get lock' >&2; exit 100; }}
echo "$*" >> {folder}/asked
case "$1" in install) printf '#!/bin/sh\\n' > {folder}/wanted; chmod +x {folder}/wanted ;; esac
rmdir {folder}/busy
"""


def script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first on the path, with an apt-get that does not like to be called twice at once."""
    script(tmp_path / "apt-get", APT_GET.format(folder=tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def test_what_is_missing_is_installed_and_what_is_there_is_not(folder: Path) -> None:
    assert find_program("wanted", ("one", "two")) == str(folder / "wanted")
    asked = ["update", "install --yes --no-install-recommends one two"]
    assert (folder / "asked").read_text().splitlines() == asked
    assert find_program("wanted", ("one", "two")) == str(folder / "wanted")
    assert (folder / "asked").read_text().splitlines() == asked


def test_outside_ci_and_for_others_than_root_nothing_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert find_program("wanted", ("one",)) is None
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.delenv("CI")
    assert find_program("wanted", ("one",)) is None
    assert not (folder / "asked").exists()


def test_why_it_could_not_be_installed_is_said(folder: Path) -> None:
    script(folder / "apt-get", "#!/bin/sh\necho 'Unable to locate package' >&2; exit 100\n")
    with pytest.raises(NotInstalledError, match="apt-get update failed: Unable to locate package"):
        find_program("wanted", ("one",))


def test_two_at_once_install_once(folder: Path) -> None:
    look = (
        "import os; os.geteuid = lambda: 0\n"
        "from tests.debian_packages import find_program\n"
        "print(find_program('wanted', ('one',)))\n"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", look], cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [process.communicate()[0].strip() for process in both] == [str(folder / "wanted")] * 2
    assert len((folder / "asked").read_text().splitlines()) == 2
