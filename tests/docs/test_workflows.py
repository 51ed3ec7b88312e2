"""`.github/workflows`: pinned, with the least rights, nothing of an event in a shell, and commands that exist."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
OUR_OWN = re.compile(r"\./\.github/workflows/[a-z]+\.yml")
PINNED = re.compile(r"actions/[a-z-]+@[0-9a-f]{40}")
"""Only GitHub's own actions, each at a commit."""
ALLOWED = {
    ("ci", "test"): {"contents": "read"},
    ("release", "test"): {"contents": "read"},
    ("release", "measure"): {"contents": "read"},
    ("release", "publish"): {"contents": "write", "id-token": "write"},
}
"""Every job's rights; only the one that runs no engine may sign or write."""

Job = tuple[str, str, dict[str, Any]]


def workflow(path: Path) -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


def jobs() -> Iterator[Job]:
    for path in WORKFLOWS:
        for name, job in workflow(path)["jobs"].items():
            yield path.stem, name, job


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    for file, name, job in jobs():
        for step in job.get("steps", ()):
            yield f"{file}.{name}", step


def commands() -> list[str]:
    return [step["run"] for _, step in steps() if "run" in step]


def test_there_are_the_two_workflows() -> None:
    assert [path.stem for path in WORKFLOWS] == ["ci", "release"]


def test_every_action_is_at_a_commit_with_its_tag_beside_it() -> None:
    for path in WORKFLOWS:
        used = re.findall(r"uses: (\S+)(.*)", path.read_text(encoding="utf-8"))
        assert used
        for what, behind in used:
            if OUR_OWN.fullmatch(what):
                assert (ROOT / what).is_file()
            else:
                assert PINNED.fullmatch(what), what
                assert re.fullmatch(r" # v\d+\.\d+\.\d+", behind), what


def test_nobody_has_rights_but_those_that_a_job_needs() -> None:
    assert [workflow(path)["permissions"] for path in WORKFLOWS] == [{}, {}]
    assert {(file, name): job["permissions"] for file, name, job in jobs()} == ALLOWED


def test_no_secret_is_named_and_a_checkout_keeps_no_token() -> None:
    assert not [path for path in WORKFLOWS if "secrets." in path.read_text(encoding="utf-8")]
    checkouts = [step for _, step in steps() if step.get("uses", "").startswith("actions/checkout@")]
    assert len(checkouts) == 3
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_no_expression_reaches_a_shell() -> None:
    assert [command for command in commands() if "${{" in command] == []


@pytest.mark.parametrize("command", commands())
def test_every_shell_command_is_sound(command: str, tmp_path: Path) -> None:
    script = tmp_path / "step.sh"
    script.write_text(f"#!/usr/bin/env bash\nset -eo pipefail\n{command}\n", encoding="utf-8")
    checked = subprocess.run(["shellcheck", script], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_the_job_that_may_sign_measures_nothing() -> None:
    signing = [step["run"] for where, step in steps() if where == "release.publish" and "run" in step]
    assert not [command for command in signing if "just repro" in command]


@pytest.mark.parametrize("command", [found for text in commands() for found in re.findall(r"\bjust ([a-z-]+)", text)])
def test_every_command_is_in_the_justfile(command: str) -> None:
    assert re.search(rf"^{command}[ :]", (ROOT / "justfile").read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_what_is_run_is_what_the_readme_says() -> None:
    """CI runs `.ci/run`, which another test compares with the README; a release measures by its first command."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first, _ = re.findall(r"^python3 -m venv .*$", readme, flags=re.MULTILINE)
    assert ".ci/run" in commands()
    assert first in commands()


def test_every_job_ends() -> None:
    assert all("timeout-minutes" in job or "uses" in job for _, _, job in jobs())
