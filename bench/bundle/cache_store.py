"""The caches that are on this host: what each was made with, how large it is, when it was last used."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.bundle.installed import installed_bundle
from bench.engine.caches import MANIFEST, MadeWith, is_cold, read_manifest
from bench.engine.environment import cache_root
from bench.errors import StreamproofError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class StoredCaches:
    """The caches of one recipe on one kind of machine.

    Attributes:
        folder: where they are.
        made_with: what they were made with; None where nobody says: no start uses them then.
        size: bytes of all files.
        used: seconds since 1970 of the last start that used them.
        cold: nothing is compiled in them yet.
    """

    folder: Path
    made_with: MadeWith | None
    size: int
    used: float
    cold: bool


def caches_home() -> Path:
    """The folder of all caches: of the installed bundle, or of this user."""
    bundle = installed_bundle()
    return bundle.caches if bundle else cache_root() / "compiled"


def stored_caches(root: Path) -> list[StoredCaches]:
    """All caches, the one that was used last first."""
    found = [_stored(folder) for folder in root.glob("[!.]*/*/")]  # hidden: an import that is under way
    return sorted(found, key=lambda stored: -stored.used)


def newest_caches(root: Path, fingerprint: str) -> StoredCaches | None:
    """The caches of a recipe that were used last and hold something; None where there are none."""
    return next(
        (
            stored
            for stored in stored_caches(root)
            if stored.made_with is not None and stored.made_with.fingerprint == fingerprint and not stored.cold
        ),
        None,
    )


def remove(stored: StoredCaches) -> None:
    """Removes caches, and the folder of their recipe with the last of them.

    Raises:
        StreamproofError: something cannot be removed.
    """
    try:
        shutil.rmtree(stored.folder)
        if not any(stored.folder.parent.iterdir()):
            stored.folder.parent.rmdir()
    except OSError as error:
        raise StreamproofError(
            f"{error.filename} cannot be removed: {error.strerror}", remedy="Remove it as the user that it belongs to."
        ) from error


def _stored(folder: Path) -> StoredCaches:
    files = [path.lstat() for path in folder.rglob("*") if not path.is_dir()]
    manifest = folder / MANIFEST
    return StoredCaches(
        folder=folder,
        made_with=read_manifest(folder),
        size=sum(status.st_size for status in files),
        used=(manifest if manifest.exists() else folder).stat().st_mtime,
        cold=is_cold(folder),
    )
