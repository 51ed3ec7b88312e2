"""The files of a report folder: their names, how they are written, and the one form of JSON in them.

A report folder is `reports/<target>/<UTC time>-<first 12 digits of the fingerprint>/`. Everything in it is written
under another name and then renamed, so that a file that is there is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from datetime import UTC
from typing import TYPE_CHECKING, Final

from bench.errors import StreamproofError

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

REPORT: Final = "report.json"
RECORDS: Final = "requests.parquet"
OBSERVATIONS: Final = "observations.jsonl"
RECIPE: Final = "recipe.resolved.toml"
ENVIRONMENT: Final = "environment.json"
MARKDOWN: Final = "report.md"
PAGE: Final = "report.html"
ATTESTATION: Final = "attestation.sigstore.json"
"""Signs every file of the folder but itself, the key, and the model signature."""
TEST_RESULT: Final = "test-result.sigstore.json"
"""Says what the verdicts say of image, checkpoint and recipe. Reports of streamproof 0.2 and before have none."""
SIGNER: Final = "signer.pub.pem"
MODEL_SIGNATURE: Final = "model.sig"
"""The folder's OpenSSF model signature, over every file but itself; goes with `TEST_RESULT`."""

RUNNING_RECORDS: Final = "requests.jsonl"
"""The records while a run is under way, a line each; `RECORDS` takes its place at the end."""

EVIDENCE: Final = (RECIPE, ENVIRONMENT, OBSERVATIONS, RECORDS)
"""What every figure and verdict is computed from."""
RENDERED: Final = (REPORT, MARKDOWN, PAGE)
"""What is computed from the evidence."""
UNSIGNED: Final = (ATTESTATION, SIGNER, MODEL_SIGNATURE)
"""What the attestation does not cover: itself, the key to check it with, and what is written after it."""
SIGNATURES: Final = (TEST_RESULT, ATTESTATION, MODEL_SIGNATURE)
"""In the order in which they are made."""
NAMES: Final = (*EVIDENCE, *RENDERED, *SIGNATURES, SIGNER)
"""Every file of a finished folder, but the engine's logs."""

_BESIDE: Final = re.compile(r"\..+\.[0-9a-f]{16}")
ENGINE_LOG: Final = re.compile(r"engine-(0|[1-9][0-9]{0,3})(-replica-[1-9][0-9]?)?\.log")


def engine_log(run: int, replica: int = 0) -> str:
    """Name of the log of the engine of run `run`, or of one of its replicas (both from 0)."""
    return f"engine-{run}-replica-{replica}.log" if replica else f"engine-{run}.log"


def is_report_file(name: str) -> bool:
    """Whether a finished report folder may hold a file of this name."""
    return name in NAMES or ENGINE_LOG.fullmatch(name) is not None


def folder_of(reports: Path, target: str, fingerprint: str, started_at: datetime) -> Path:
    """The folder of one report; it is not made here.

    Args:
        reports: the folder of all reports.
        target: the recipe's target.
        fingerprint: of the recipe, in hex.
        started_at: an aware time; written in UTC to the second, so that names sort by time.
    """
    if started_at.tzinfo is None:  # `astimezone` would take it for local time
        raise ValueError("started_at needs a time zone")
    stamp = started_at.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    return reports / target / f"{stamp}-{fingerprint[:12]}"


def beside(path: Path) -> Path:
    """A hidden name in the same folder, for a file that is to be renamed to `path` when it is whole."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")


def is_leftover(name: str) -> bool:
    """Whether it is a name of `beside`: nobody but a killed writer leaves one."""
    return _BESIDE.fullmatch(name) is not None


def put(temporary: Path, path: Path) -> None:
    """Renames a whole file to its own name, on stable storage.

    Raises:
        OSError: the disk is full or the folder cannot be written.
    """
    _sync(temporary)
    temporary.replace(path)
    _sync(path.parent)


def write_whole(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Writes a file so that `path` holds all of it or what it held before, even when we are killed.

    Raises:
        StreamproofError: the disk is full or the folder cannot be written.
    """
    temporary = beside(path)
    try:
        create(temporary, content, mode=mode)
        put(temporary, path)
    except OSError as error:
        raise StreamproofError(
            f"cannot write {path}: {error.strerror}", remedy="Free some space, or mend the permissions of the folder."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def create(path: Path, content: bytes, *, mode: int) -> None:
    """Writes a file that is not there yet, with these permissions from its first byte on.

    Raises:
        OSError: it is there, the disk is full, or the folder cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def canonical_json(value: object) -> bytes:
    """The one form of JSON in a report: sorted keys, two spaces, UTF-8, a newline at the end, no NaN.

    Raises:
        ValueError: the value holds a NaN or an infinity.
    """
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"


def sha256(content: bytes) -> str:
    """Lower-case hex of bytes in memory."""
    return hashlib.sha256(content).hexdigest()


def file_sha256(path: Path) -> str:
    """Lower-case hex of a file of any size."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, would survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
