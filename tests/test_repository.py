"""Promises that the repository as a whole makes."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


def test_ci_runs_the_readmes_test_command_and_nothing_else() -> None:
    commands = re.findall(r"^python3 -m venv .*$", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    assert [command.rsplit("just ", 1)[1] for command in commands] == ["repro cpu", "test"]
    ci = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line and not line.startswith("#")]
    assert ci == ["set -euo pipefail", 'cd "$(dirname "$0")/.."', commands[1]]


def test_every_dependency_is_exact() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = [project["project"]["dependencies"], *project["dependency-groups"].values()]
    wanted = [requirement for group in groups for requirement in group] + project["build-system"]["requires"]
    assert [r for r in wanted if not re.fullmatch(r"[a-z0-9-]+(\[[a-z0-9,]+\])?==[0-9a-z.]+", r)] == []


@pytest.mark.parametrize("lock", sorted(p.name for p in (ROOT / "docker" / "locks").glob("*.txt")))
def test_every_locked_requirement_is_exact_and_hashed(lock: str) -> None:
    if lock.endswith("overrides.txt"):
        return
    text = (ROOT / "docker" / "locks" / lock).read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert lines
    for line in lines:
        assert re.match(r"^[a-z0-9.-]+==\S+ ", line), line
        assert "--hash=sha256:" in line, line


def test_every_just_recipe_is_one_line_without_logic_and_says_what_it_is() -> None:
    lines = (ROOT / "justfile").read_text().splitlines()
    bodies = [n for n, line in enumerate(lines) if line.startswith("    ")]
    assert bodies
    for number in bodies:
        assert lines[number].startswith("    @")
        assert not re.search(r"[;|]|&&|\bif\b|\bfor\b", lines[number])
        assert not lines[number - 1].startswith("    ")


def test_no_file_needs_a_table_of_contents() -> None:
    """A test file may be longer: it is a list, read entry by entry."""
    long = {}
    for name in tracked():
        if name.endswith(".py"):
            count = len((ROOT / name).read_text().splitlines())
            if count > (600 if name.startswith("tests/") else 400):
                long[name] = count
    assert long == {}
