"""What an installer notes about itself, made the same in every build."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Final

_NOTES: Final = frozenset({"INSTALLER", "REQUESTED", "direct_url.json", "uv_build.json", "uv_cache.json"})
"""Who installed it, whether by name, from where and when: all of it is in the lock, or differs from build to build."""


def settle(site: Path) -> None:
    """Remove an installer's notes below a site folder, and put each RECORD in order, without them and bytecode."""
    for record in sorted(site.glob("*.dist-info/RECORD")):
        for name in _NOTES:
            (record.parent / name).unlink(missing_ok=True)
        with record.open(encoding="utf-8", newline="") as file:
            rows = sorted(row for row in csv.reader(file) if row and _stays(row[0]))
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        record.write_text(text.getvalue(), encoding="utf-8")


def _stays(path: str) -> bool:
    name = path.rpartition("/")[2]
    return not (path.endswith(".pyc") or (name in _NOTES and path.rpartition("/")[0].endswith(".dist-info")))
