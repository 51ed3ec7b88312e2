"""SHA-256 of many large files, on every core, and not twice of a file that has not changed.

A file counts as unchanged while its inode, size and modification time are the same, as `make` and `git` have it. The
times are kept in the work folder; nothing that is published holds one.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from bench.report.folder_files import canonical_json, file_sha256, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_THREADS: Final = 16


class Hashes:
    """Hashes of files, remembered.

    Args:
        store: file to remember them in; what cannot be read there is forgotten. None remembers nothing.
    """

    def __init__(self, store: Path | None) -> None:
        self._store = store
        self._known: dict[str, str] = {}
        if store is None:
            return
        with suppress(OSError, ValueError):
            known = json.loads(store.read_bytes())
            self._known = {key: value for key, value in known.items() if isinstance(value, str)}

    def of(self, paths: Iterable[Path], *, on_file: Callable[[Path], None] | None = None) -> dict[Path, str]:
        """The hash of every file.

        Args:
            paths: of the files.
            on_file: told each file that was read.

        Raises:
            OSError: one of them cannot be read.
        """
        keys = {path: _key(path) for path in paths}
        missing = [path for path, key in keys.items() if key not in self._known]
        with ThreadPoolExecutor(max_workers=min(_THREADS, os.cpu_count() or 1)) as pool:  # hashing releases the GIL
            for path, digest in zip(missing, pool.map(file_sha256, missing), strict=True):
                self._known[keys[path]] = digest
                if on_file is not None:
                    on_file(path)
        if missing and self._store is not None:
            self._store.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._store, canonical_json(self._known))
        return {path: self._known[key] for path, key in keys.items()}


def _key(path: Path) -> str:
    status = path.stat()
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
