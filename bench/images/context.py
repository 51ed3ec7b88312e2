"""What a build gets: one folder with nothing in it but what the definition names, the same on every host.

    Dockerfile
    tools/bench/...      what assembles the image (`bench.images.inside`), and where things go (`bench.images.layout`)
    uv, lock.txt         the program that installs, and the hashes
    wheels/              links to the kept wheels
    source/, METADATA    modules of ours
    caches/              compile caches

No host's umask, clock or environment is in it: modes and times are set.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.images.definition import DOCKERFILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.images.definition import ImageDefinition

_TIME: Final = 315532800
"""1980: of every file of a context. A builder compares times to see what it has already."""


@dataclass(frozen=True, kw_only=True)
class Packages:
    """What is installed into an image.

    Attributes:
        lock: text of the requirements file.
        wheels: of the lock, for the base's Python.
        uv: the program.
    """

    lock: str
    wheels: Sequence[Path]
    uv: bytes


def stage(  # noqa: PLR0913  all that an image is made of
    definition: ImageDefinition,
    folder: Path,
    *,
    repository: Path,
    packages: Packages | None,
    caches: Path | None,
    version: str,
) -> None:
    """Fill a folder that is empty or not there.

    Args:
        definition: of the image.
        folder: to be the context; wheels are linked into it, so it should be on their file system.
        repository: the checkout.
        packages: to install; None for none.
        caches: folder of compile caches to bake in.
        version: of streamproof.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _copy(repository / DOCKERFILE, folder / DOCKERFILE)
    for path in definition.files:
        if path in definition.tools:
            _copy(repository / path, folder / "tools" / path)
        if path in definition.source:  # the client has what assembles images, too
            _copy(repository / path, folder / "source" / path)
    if definition.source:
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: streamproof\nVersion: {version}\n")
    if packages is not None:
        (folder / "lock.txt").write_text(packages.lock, encoding="utf-8")
        (folder / "uv").write_bytes(packages.uv)
        (folder / "wheels").mkdir()
        for wheel in packages.wheels:
            _link(wheel, folder / "wheels" / wheel.name)
    if caches is not None:
        shutil.copytree(caches, folder / "caches", symlinks=True, copy_function=shutil.copyfile)
    _settle(folder)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:  # another file system
        shutil.copyfile(source, target)


def _settle(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path == folder / "uv" else 0o644)
        os.utime(path, (_TIME, _TIME), follow_symlinks=False)
