"""From a run on the real engine to a release that a stranger verifies: every step as a user takes it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from bench.errors import Exit
from bench.report import folder_files as files
from bench.report.folder import finish
from bench.report.keys import own_signer
from tests.release.github_server import REPOSITORY, TOKEN, GitHub, Release, running
from tests.run.former_release import three_starts_of
from tests.run.real_run import RealRun, bench

pytestmark = [pytest.mark.engine, pytest.mark.alone]


def told(*arguments: str, home: Path, code: Exit = Exit.OK, **environment: str) -> dict[str, Any]:
    """Runs a command to its end; what it says as JSON."""
    process = bench(*arguments, "--json", config=home, **environment)
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, (out, err)
    assert TOKEN not in out + err
    said: dict[str, Any] = json.loads(out) if out else {}
    return said


@pytest.fixture
def former(cpu_run: RealRun, tmp_path: Path) -> Path:
    """The report of a former release, signed by the same maintainer."""
    folder = three_starts_of(cpu_run.folder, tmp_path / "former")
    report = finish(folder, signer=own_signer(cpu_run.home / "streamproof" / "keys"))
    assert report.valid == cpu_run.report["valid"], [check for check in report.checks if check.verdict == "broken"]
    return folder


@pytest.fixture
def github() -> Iterator[GitHub]:
    with running(GitHub(page=2)) as server:
        yield server


def test_from_a_run_to_a_release_and_back(cpu_run: RealRun, former: Path, github: GitHub, tmp_path: Path) -> None:
    report, maintainer = str(cpu_run.folder), cpu_run.home
    # On a busy machine a run can be invalid: this is then about a release that says so, and a gate that stays shut.
    anyway = () if cpu_run.report["valid"] else ("--anyway",)
    if anyway:
        told("release-notes", report, "--out", str(tmp_path / "out"), home=maintainer, code=Exit.INVALID)

    former_report = ("--former", str(former))
    made = told("release-notes", report, *former_report, "--out", str(tmp_path / "out"), *anyway, home=maintainer)
    assert "Since the former release" in Path(made["notes"]).read_text()

    release = github.release("v1", body="# Version 1")
    place = ("--repo", REPOSITORY, "--api-url", github.api)
    attach = ("attach", "v1", report, *former_report, *place, *anyway)
    first = told(*attach, home=maintainer, GITHUB_TOKEN=TOKEN)
    assert [asset["action"] for asset in first["assets"]] == ["upload"] * 3
    assert {each.name: files.sha256(each.content) for each in release.assets} == {
        Path(asset["path"]).name: asset["sha256"] for asset in made["assets"]
    }
    again = told(*attach, home=maintainer, GITHUB_TOKEN=TOKEN)
    assert [asset["action"] for asset in again["assets"]] == ["leave alone"] * 3
    assert again["notes_changed"] is False

    address = check_as_the_notes_say(release, tmp_path / "stranger")
    assert told("verify", address, home=tmp_path, code=Exit.FAILURE)["verified"] is False
    key = ("--key", str(cpu_run.folder / files.SIGNER))
    verified = told("verify", address, *key, home=tmp_path)
    assert verified["verified"] is True
    assert verified["report"] == {"title": cpu_run.report["title"], "valid": cpu_run.report["valid"]}

    gate = ("--gate", "e2e:p50:+400%")
    compared = told("compare", str(former), report, *gate, home=maintainer, code=Exit.INVALID if anyway else Exit.OK)
    if not anyway:
        assert {gated["verdict"] for gated in compared["pairs"][0]["gates"]} == {"no regression"}
        undecided = told("compare", str(former), report, "--gate", "e2e:p50:+0%", home=maintainer, code=Exit.INVALID)
        assert {gated["verdict"] for gated in undecided["pairs"][0]["gates"]} == {"undecided"}


def check_as_the_notes_say(release: Release, folder: Path) -> str:
    """Fetches what the notes name and checks the hashes with their own command.

    Returns:
        The address of the report.
    """
    folder.mkdir()
    commands = re.search(
        r"```sh\n(?P<fetch>curl (?:.*\\\n)*.*)\n(?P<check>sha256sum .*)\njust verify (?P<name>.*)\n```",
        release.body or "",
    )
    assert commands is not None, release.body
    addresses: list[str] = re.findall(r"https?://\S+", commands["fetch"])
    for address in addresses:
        answer = requests.get(address, timeout=20)
        answer.raise_for_status()
        (folder / address.rpartition("/")[2]).write_bytes(answer.content)
    checked = subprocess.run(commands["check"].split(), cwd=folder, capture_output=True, text=True, check=True)
    assert checked.stdout == f"{commands['name']}: OK\n"
    (report,) = [address for address in addresses if address.endswith(commands["name"])]
    return report
