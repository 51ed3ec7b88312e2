"""What a reader of the repository finds at its top: citation, license, and links that lead somewhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from recipes.fingerprint import file_sha256

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "keys/README.md", "evidence/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_inside_the_repository_leads_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        path = (document.parent / name) if name else document
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), target


def test_the_citation_is_of_this_release() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()  # what CFF 1.2.0 requires
    assert citation["cff-version"] == "1.2.0"
    assert citation["title"] == PROJECT["name"]
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"] == "Apache-2.0"
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {citation['version']} ({citation['date-released']})" in changelog


def test_the_license_is_apaches_own_text() -> None:
    """As most Apache-licensed packages carry it, byte by byte, the appendix included."""
    assert file_sha256(ROOT / "LICENSE") == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


def test_what_contributing_names_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for path in re.findall(r"`((?:bench|tests|recipes|docs|evidence|\.github)/[\w./*-]*)`", text):
        assert list(ROOT.glob(path.rstrip("/"))), path
    justfile = (ROOT / "justfile").read_text(encoding="utf-8")
    for command in re.findall(r"`just ([a-z-]+)", text):
        assert re.search(rf"^{command}[ :]", justfile, flags=re.MULTILINE), command


def test_every_command_is_described_somewhere() -> None:
    justfile = (ROOT / "justfile").read_text(encoding="utf-8")
    commands = re.findall(
        r"^([a-z][a-z-]*)[^:=\n]*:(?!=)", re.sub(r"\[private\]\n\w+:", "", justfile), flags=re.MULTILINE
    )
    assert len(commands) > 30
    described = " ".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    assert [
        command
        for command in commands
        if not re.search(rf"`just {command}\b|^just {command}\b", described, re.MULTILINE)
    ] == []
