"""Whether an image carries the versions that it is pinned to."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.images.inside.refusal import BuildRefusedError

_LIST: Final = """
import importlib.metadata
for distribution in reversed(list(importlib.metadata.distributions())):
    if distribution.metadata["Name"]:
        print(distribution.metadata["Name"], distribution.version)
"""
"""The first of a name on the path is the one that is imported; so it must come last here."""


def normalized(name: str) -> str:
    """A distribution's name as all its spellings are compared: "flashinfer_jit.cache" is "flashinfer-jit-cache"."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed(python: Path) -> dict[str, str]:
    """What an interpreter finds: normalized name to version."""
    answer = subprocess.run(  # noqa: S603  the image's own interpreter
        [str(python), "-I", "-c", _LIST], check=True, capture_output=True, text=True
    )
    pairs = (line.split() for line in answer.stdout.splitlines())
    return {normalized(name): version for name, version in pairs}


def check(carries: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Compare what must be inside with what is.

    A local part of a version that was found ("0.6.14+cu130") is how it was built, not which release it is.

    Args:
        carries: name to exact version.
        found: normalized name to version.

    Raises:
        BuildRefusedError: something is missing or has another version; all of it is named.
    """
    wrong = []
    for name, wanted in sorted(carries.items()):
        there = found.get(normalized(name))
        if there is None:
            wrong.append(f"{name} is missing (pinned: {wanted})")
        elif there.partition("+")[0] != wanted:
            wrong.append(f"{name} is {there} (pinned: {wanted})")
    if wrong:
        raise BuildRefusedError("; ".join(wrong))


def parse(text: str) -> dict[str, str]:
    """The argument CARRIES, "vllm==0.26.0 flashinfer-python==0.6.14", as a mapping.

    Raises:
        BuildRefusedError: an entry of another form.
    """
    carries = {}
    for entry in text.split():
        name, equals, version = entry.partition("==")
        if not (name and equals and version):
            raise BuildRefusedError(f"CARRIES has {entry!r}, which is no name==version")
        carries[name] = version
    return carries
