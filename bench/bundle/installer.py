"""`install.pyz`: the package `bench.bundle.host` as one file that Python runs, the same bytes every time."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Final

_HOST: Final = Path(__file__).with_name("host")
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip file knows."""

_MAIN: Final = """\
import sys
from pathlib import Path

from host.install import main

sys.exit(main(bundle=Path(sys.argv[0]).resolve().parent))
"""


def installer() -> bytes:
    """The zip file."""
    sources = {f"host/{path.name}": path.read_bytes() for path in sorted(_HOST.glob("*.py"))}
    packed = io.BytesIO()
    # Stored, not compressed: an interpreter without zlib reads it too.
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name, content in {"__main__.py": _MAIN.encode(), **sources}.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)
    return packed.getvalue()
