"""What the host already has, so that a bundle need not bring it.

A list is a text file, a package a line: `name` (any version) or `name==version` (just this one). What
`python3 -m pip freeze` prints on the host is such a list. Lists that ship with streamproof lie beside this file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

PRESETS: Final = Path(__file__).parent
_LINE: Final = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:==\s*(?P<version>\S+)|@\s.*)?")


def presets() -> list[str]:
    """Names of the lists that ship with streamproof."""
    return sorted(path.stem for path in PRESETS.glob("*.txt"))


def normalized(name: str) -> str:
    """A package's name in the form of PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def host_packages(named: str) -> dict[str, str]:
    """Version by normalized name; "" where any is right.

    Args:
        named: a preset, or the path of a list.

    Raises:
        UsageError: there is no such list, or a line of it is not understood.
    """
    path = PRESETS / f"{named}.txt" if named in presets() else Path(named)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the list of the host's packages cannot be read: {path}: {error}",
            remedy=f"Name a file (python3 -m pip freeze > host.txt, on the host) or one of: {', '.join(presets())}.",
        ) from error
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.partition("#")[0].strip()
        if not entry or entry.startswith("-"):  # pip freeze writes "-e ..." for a checkout, which is no package
            continue
        match = _LINE.fullmatch(entry)
        if match is None:
            raise UsageError(
                f"{path}:{number}: {entry!r} is no package of a host.", remedy="Write name or name==version."
            )
        # A local version ("+cu130") says who built it: the host's own may have been built by somebody else.
        found[normalized(match["name"])] = (match["version"] or "").partition("+")[0]
    return found


def provided(locked: Mapping[str, object], host: Mapping[str, str]) -> dict[str, str]:
    """Those of a closure's packages that the host has, with the version that it must be ("" for any)."""
    return {name: host[name] for name in sorted(locked) if name in host}
