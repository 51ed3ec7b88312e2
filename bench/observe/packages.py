"""What is installed in a Python environment, and one hash over it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def installed_packages(site_packages: Path | None = None) -> dict[str, str]:
    """Normalized name (PEP 503) to version, sorted by name.

    Args:
        site_packages: folder to look in; None means the running interpreter's own path.
    """
    if site_packages is None:
        distributions = importlib.metadata.distributions()
    else:
        distributions = importlib.metadata.distributions(path=[str(site_packages)])
    found: dict[str, str] = {}
    for distribution in distributions:
        name = re.sub(r"[-_.]+", "-", distribution.name).lower()
        found.setdefault(name, distribution.version)  # the first on the path is the one that is imported
    return dict(sorted(found.items()))


def packages_sha256(packages: Mapping[str, str]) -> str:
    """SHA-256, in hex, over the lines "name==version", sorted by name, each with a line feed."""
    text = "".join(f"{name}=={version}\n" for name, version in sorted(packages.items()))
    return hashlib.sha256(text.encode()).hexdigest()
