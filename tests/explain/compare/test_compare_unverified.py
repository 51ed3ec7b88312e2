"""`just compare --unverified` of folders that nobody signed, made to do harm: refused, with what `verify` would say."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from bench.errors import StreamproofError
from bench.explain.compare.side import read_side
from bench.report import folder_files as files
from bench.report import verify as verify_module
from tests.explain.compare.sides import report
from tests.report.greedy import JUST_WITHIN, long_prompts
from tests.report.harm import EVERYWHERE, Hostile

if TYPE_CHECKING:
    from pathlib import Path

    from tests.report.folders import Signed


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    return report(tmp_path_factory.mktemp("honest"), runs=1)


def no_report(folder: Path) -> None:
    (folder / files.REPORT).unlink()
    os.mkfifo(folder / files.REPORT)


def key_of_many_parts(folder: Path) -> None:
    (folder / files.RECIPE).write_bytes(b"a" + b".a" * 500_000 + b" = 1\n")


def trillion_tokens(folder: Path) -> None:
    long_prompts(folder, 10**12)


def commands_terminal(folder: Path) -> None:
    path = folder / files.ENVIRONMENT
    path.write_bytes(path.read_bytes().replace(b"{", b'{"x": "\\u001b[2J", ', 1))


@pytest.mark.parametrize(
    "hostile",
    [
        *EVERYWHERE,
        Hostile(no_report, r"holds no report\.json"),
        Hostile(key_of_many_parts, r"recipe\.resolved\.toml line 1 has more than 200 dots"),
        Hostile(trillion_tokens, r"requests\.parquet names prompts and replies of .* cache blocks"),
        Hostile(commands_terminal, r"environment\.json holds characters that a terminal obeys"),
    ],
    ids=lambda each: each.make.__name__,
)
def test_what_is_taken_as_it_is_is_read_as_if_it_were_verified(
    honest: Signed, hostile: Hostile, tmp_path: Path
) -> None:
    folder = honest.copy(tmp_path / "r").path
    hostile.make(folder)
    with pytest.raises(StreamproofError, match=hostile.why):
        read_side(folder, {}, unverified=True)


# It is raised wherever Python is: in a callback of the garbage collector it is lost, which is told, and comes again.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_computing_it_again_may_take_no_more_time_than_a_verification(
    honest: Signed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = honest.copy(tmp_path / "r").path
    long_prompts(folder, JUST_WITHIN)
    monkeypatch.setattr(verify_module, "CPU_S", 0.3)
    with pytest.raises(StreamproofError, match=r"requests\.parquet cannot be computed again in .* of CPU time"):
        read_side(folder, {}, unverified=True)


def test_a_folder_may_hold_other_files_which_are_not_read(honest: Signed, tmp_path: Path) -> None:
    folder = honest.copy(tmp_path / "r").path
    (folder / "notes.txt").symlink_to("/dev/zero")
    side = read_side(folder, honest.trusted, unverified=True)
    assert side.report == honest.report
    assert "notes.txt no report has a file of this name" in str(side.unverified)
