"""Checks that this host is one that the bundle was made for, before anything is unpacked."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
from pathlib import Path
from typing import Final

from .manifest import Manifest
from .refusal import Refusal

_MARGIN: Final = 1.1
"""Beside the files themselves: compiled bytecode, and the file system's own blocks."""


def check_machine(manifest: Manifest) -> None:
    """Processor, interpreter, C library and xz.

    Raises:
        Refusal: one of them does not fit.
    """
    if platform.machine() != manifest.machine:
        raise Refusal(
            f"the bundle is for {manifest.machine}; this machine is {platform.machine()}",
            f"Install it on a {manifest.machine} host.",
        )
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if sys.implementation.name != "cpython" or here != manifest.python:
        raise Refusal(
            f"the bundle is for CPython {manifest.python}; {sys.executable} is {platform.python_implementation()} "
            f"{platform.python_version()}",
            f"Name the right one: sh install.sh --python /path/to/python{manifest.python}. Or make the bundle for this "
            f"one: just bundle {manifest.target} --python {here}",
        )
    library = _glibc()
    if library is None or _numbers(library) < _numbers(manifest.glibc):
        raise Refusal(
            f"the bundle's programs need the GNU C library {manifest.glibc} or newer; this host has "
            f"{library or 'another C library'}",
            "Install it on a newer distribution (Ubuntu 24.04, Debian 13, RHEL 10 have 2.39 or newer).",
        )
    if any(archive.compression == "xz" for archive in manifest.archives) and shutil.which("xz") is None:
        raise Refusal("xz, which unpacks the bundle, is not on the path", "Install the package xz-utils (or xz).")


def check_host_packages(manifest: Manifest) -> dict[str, str]:
    """The versions of the packages that the bundle leaves to the host, by name.

    Raises:
        Refusal: one is missing, or has another version than the bundle was made for.
    """
    found: dict[str, str] = {}
    missing, other = [], []
    for name, wanted in sorted(manifest.host_provides.items()):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
            continue
        found[name] = version
        # A local version ("+cu130") says who built it, not what it is.
        if wanted and wanted not in (version, version.partition("+")[0]):
            other.append(f"{name} {version} instead of {wanted}")
    if missing or other:
        faults = [f"it lacks {', '.join(missing)}"] if missing else []
        faults += [f"it has {', '.join(other)}"] if other else []
        raise Refusal(
            f"the bundle was made for another host; {sys.executable} is not that Python: {'; '.join(faults)}",
            "Name the Python that has these packages: sh install.sh --python PATH. Or list what this one has "
            "(python3 -m pip freeze > host.txt) and make the bundle for it: "
            f"just bundle {manifest.target} --host-provides host.txt",
        )
    return found


def check_space(manifest: Manifest, destination: Path) -> None:
    """Room for everything, before anything is written.

    Raises:
        Refusal: there is too little.
    """
    needed = int(sum(archive.unpacked_size for archive in manifest.archives) * _MARGIN)
    place = next(folder for folder in (destination, *destination.parents) if folder.is_dir())
    free = shutil.disk_usage(place).free
    if free < needed:
        raise Refusal(
            f"the disk is too full: the bundle needs {needed / 1e6:,.0f} MB at {place}, {free / 1e6:,.0f} MB are free",
            "Make room there, or name a folder on a larger disk with --to.",
        )


def _glibc() -> str | None:
    try:
        said = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        return None
    return said.rpartition(" ")[2] if said else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))
