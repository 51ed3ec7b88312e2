"""`just release-notes` as its users run it: files, screens, scripts, wrong input; and the screens of both commands."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from bench.cli import app
from bench.errors import Exit, StreamproofError, UsageError
from bench.release import show
from bench.release.attach import Attached
from bench.release.notes import Links
from bench.release.progress import Progress
from bench.report import folder_files as files
from tests.release.conftest import Reports
from tests.report.folders import Signed


def invoke(*arguments: str | Path, trusting: tuple[Signed, ...] = ()) -> Any:
    keys = [word for each in trusting for word in ("--key", str(each.path / files.SIGNER))]
    return CliRunner().invoke(app, ["release-notes", *map(str, arguments), *keys], env={"COLUMNS": "160"})


def test_notes_and_assets_are_written_and_named(reports: Reports, tmp_path: Path) -> None:
    out = tmp_path / "out"
    former = ("--former", reports.former.path)
    done = invoke(reports.now.path, *former, "--out", out, trusting=(reports.now, reports.former))
    assert done.exit_code == 0, done.output
    assert "Since the former release" in (out / "notes.md").read_text()
    for path in out.iterdir():
        assert str(path) in done.output
    data = json.loads(invoke(reports.now.path, "--out", out, "--json", trusting=(reports.now,)).stdout)
    assert data["notes"] == str(out / "notes.md")
    assert {asset["path"]: asset["sha256"] for asset in data["assets"]} == {
        str(path): files.file_sha256(path) for path in out.iterdir() if path.name != "notes.md"
    }


def test_the_same_report_gives_the_same_files(reports: Reports, tmp_path: Path) -> None:
    for out in ("first", "second"):
        invoke(reports.now.path, "--out", tmp_path / out, trusting=(reports.now,))
    first, second = (
        {path.name: path.read_bytes() for path in (tmp_path / out).iterdir()} for out in ("first", "second")
    )
    assert first == second
    assert len(first) == 4


def test_a_report_comes_back_from_its_own_archive_as_it_was(reports: Reports, tmp_path: Path) -> None:
    invoke(reports.now.path, "--out", tmp_path / "first", trusting=(reports.now,))
    (packed,) = (tmp_path / "first").glob("*.zip")
    invoke(packed, "--out", tmp_path / "second", trusting=(reports.now,))
    assert (tmp_path / "second" / packed.name).read_bytes() == packed.read_bytes()


def test_what_is_wrong_is_told_and_nothing_is_written(reports: Reports, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    invalid = invoke(reports.invalid.path, *out, trusting=(reports.invalid,))
    assert isinstance(invalid.exception, StreamproofError)
    assert invalid.exception.exit_code is Exit.INVALID
    unknown = invoke(reports.now.path, *out)
    assert isinstance(unknown.exception, StreamproofError)
    assert "not trusted here" in unknown.exception.message
    assert isinstance(invoke(*out).exception, UsageError)
    address = invoke(reports.now.path, *out, "--base-url-of-assets", "here", trusting=(reports.now,))
    assert isinstance(address.exception, UsageError)
    assert isinstance(invoke(tmp_path / "nowhere", *out).exception, UsageError)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_told(reports: Reports, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    refused = invoke(reports.now.path, "--out", tmp_path / "file", trusting=(reports.now,))
    assert isinstance(refused.exception, StreamproofError)
    assert "cannot write" in refused.exception.message
    assert "--out" in refused.exception.remedy


@pytest.mark.parametrize("dry_run", [True, False])
def test_the_screen_of_attach_says_what_was_done_or_would_be(dry_run: bool) -> None:
    outcome = Attached(
        tag="v1",
        page="https://github.com/acme/voice/releases/tag/untagged-1",
        created=True,
        draft=True,
        actions={"a.zip": "upload", "b.svg": "leave alone", "c": "replace", "d": "complete", "e": "conflict"},
        links=Links("https://x"),
        notes_changed=True,
        dry_run=dry_run,
    )
    out = io.StringIO()
    Console(file=out, width=40).print(show.attached(outcome), soft_wrap=True)
    text = out.getvalue()
    assert ("would be uploaded  a.zip" in text) is dry_run
    assert "there already  b.svg" in text
    assert "another file has this name (--replace)" in text or not dry_run
    assert "https://github.com/acme/voice/releases/tag/untagged-1\n" in text
    assert "nobody else sees it until you publish it" in text


def test_progress_is_bars_for_people_lines_for_logs_and_nothing_when_quiet() -> None:
    for terminal, quiet in ((True, False), (False, False), (False, True)):
        out = io.StringIO()
        progress = Progress(quiet=quiet, console=Console(file=out, force_terminal=terminal, width=100))
        progress.say("verifying [bold]x[/]")
        with progress.of("uploading x.zip", 1000) as tell:
            tell(500)
            tell(1000)
        assert ("[bold]x[/]" in out.getvalue()) is not quiet
        assert ("1.0/1.0 kB" in out.getvalue()) is terminal
        assert ("uploading x.zip" in out.getvalue()) is not quiet
