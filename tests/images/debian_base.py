"""A base image made of Debian's packages, where no registry with the pinned ones can be reached.

It has what the CPU engine needs of its base: Python with its headers and a C++ compiler, with which PyTorch compiles a
few functions at the start, the openssl program, which PyTorch makes names with, and the NUMA library.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PACKAGES = ("python3", "libpython3.11-dev", "g++", "libnuma1", "openssl")
PYTHON = "3.11"
GLIBC = 36
SUITE = "bookworm"
SETTINGS = ["ENV PATH=/usr/local/bin:/usr/bin:/bin", 'CMD ["python3"]']
""" As instructions of a Dockerfile."""

EMPTIED = ("var/cache/apt", "var/lib/apt/lists", "var/log", "usr/share/doc", "usr/share/info", "usr/share/locale")
OF_THIS_HOST = ("etc/hostname", "etc/hosts", "etc/resolv.conf", "etc/machine-id")
"""Emptied too, and made where they are missing: a builder mounts its own there, and BuildKit before 0.11, which makes
and removes them when they are missing, leaves its time at the folder (moby/buildkit issue 3148)."""


def debian_tar(cache: Path) -> Path:
    """The root file system as a tar file in `cache`; it is made there the first time (a minute).

    Raises:
        subprocess.CalledProcessError: debootstrap or tar failed; its output says why.
    """
    made_of = " ".join((SUITE, *PACKAGES, *EMPTIED, *OF_THIS_HOST))
    target = cache / f"debian-{hashlib.sha256(made_of.encode()).hexdigest()[:12]}.tar"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "debian.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=cache) as scratch:
                made = _make(Path(scratch))
                made.rename(target)
    return target


def _make(scratch: Path) -> Path:
    root = scratch / "root"
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "LC_ALL": "C"})
    for name in EMPTIED:
        for path in (root / name).iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for name in OF_THIS_HOST:
        (root / name).write_bytes(b"")
    made = scratch / "made.tar"
    subprocess.run(["tar", "--create", "--file", str(made), "--numeric-owner", "-C", str(root), "."], check=True)
    return made
