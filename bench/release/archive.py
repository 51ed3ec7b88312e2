"""One ZIP file per report: the same report gives the same bytes, wherever and whenever it is packed.

Files are stored and not compressed: what deflate writes differs between zlib and its faster relatives, and an asset
that is left alone because its SHA-256 is the same must not depend on the machine that packed it. What is large in a
report (Parquet) is compressed already.
"""

from __future__ import annotations

import shutil
import stat
import zipfile
from typing import TYPE_CHECKING, Final

from bench.report import folder_files as files

if TYPE_CHECKING:
    from pathlib import Path

    from bench.report.model import Report

PREFIX: Final = "streamproof-"
"""Every asset's name begins with it: a release may have a SHA256SUMS and pictures of its own."""
EARLIEST: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every entry: the first that the format can express (APPNOTE.TXT, section 4.4.6)."""
DIGITS: Final = 12
"""Of fingerprint and attestation in a name: 48 bits, enough to tell the reports of one release apart."""
PIECE: Final = 1 << 20
"""Bytes that are held in memory at once."""
_PLAIN_FILE: Final = (stat.S_IFREG | 0o644) << 16


def stem_of(report: Report, attestation: bytes) -> str:
    """Name of a report's ZIP file without ".zip", and of the folder in it.

    Two signatures of one report are two files: a signature is part of what is published.

    Args:
        report: the report.
        attestation: bytes of its `attestation.sigstore.json`.
    """
    return f"{PREFIX}{report.target}-{report.fingerprint[:DIGITS]}-{files.sha256(attestation)[:DIGITS]}"


def pack(folder: Path, path: Path) -> None:
    """Packs the files of a verified report, under one folder that is named as the ZIP file.

    Args:
        folder: of the report. It was verified, so it holds plain files with the names that a report has.
        path: the file to write, "<stem>.zip".

    Raises:
        OSError: the disk is full, or a file cannot be read.
    """
    temporary = files.beside(path)
    try:
        with zipfile.ZipFile(temporary, "x", compression=zipfile.ZIP_STORED) as archive:
            for source in sorted(folder.iterdir(), key=lambda entry: entry.name):
                entry = zipfile.ZipInfo(f"{path.stem}/{source.name}", EARLIEST)
                entry.external_attr = _PLAIN_FILE
                entry.file_size = source.stat().st_size
                with source.open("rb") as content, archive.open(entry, "w") as packed:
                    shutil.copyfileobj(content, packed, PIECE)
        files.put(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
