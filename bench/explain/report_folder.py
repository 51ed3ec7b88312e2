"""A report's folder as the explaining commands read it: whole, of this schema, and as it was signed.

Whether its signer is trusted and its figures follow from its records is `just verify`'s to say; here it is only made
sure that nobody explains a file that was edited after it was signed.
"""

from __future__ import annotations

import base64
import json
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from bench.errors import StreamproofError, UsageError
from bench.report import folder_files as files
from bench.report.model import SCHEMA_VERSION, Report
from bench.report.verify_json import HostileJsonError, strict_loads
from bench.report.verify_text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def read_report(folder: Path) -> Report:
    """The report of a folder.

    Raises:
        UsageError: no report is there, or it is of another schema.
        StreamproofError: it cannot be read, or was changed after it was signed.
    """
    path = folder / files.REPORT
    if not path.is_file():
        raise UsageError(
            f"{folder} holds no {files.REPORT}.",
            remedy=f"Name the folder of a report. If its run was cut off: just finish {folder}",
        )
    raw = read_signed(folder, files.REPORT)
    try:
        stored = strict_loads(raw)
    except HostileJsonError as error:
        raise StreamproofError(f"{path} cannot be read: {error}.", remedy=_EDITED) from error
    schema = stored.get("schema_version") if isinstance(stored, dict) else None
    if schema != SCHEMA_VERSION:
        raise UsageError(
            f"{path} has the schema {str(schema)[:20]!r}; this version of streamproof reads {SCHEMA_VERSION!r}.",
            remedy="Use the version of streamproof that made it.",
        )
    try:
        return Report.model_validate(stored)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise StreamproofError(
            f"{path} is no report: {where} is not right.", remedy=_other_version(stored) or _EDITED
        ) from error


def read_signed(folder: Path, name: str) -> bytes:
    """A file of a report, when it is the one that was signed; as it is where the folder bears no signature.

    Raises:
        StreamproofError: it cannot be read, or was changed after it was signed.
    """
    try:
        raw = (folder / name).read_bytes()
    except OSError as error:
        raise StreamproofError(f"cannot read {folder / name}: {error.strerror}", remedy=_EDITED) from error
    digest = _signed_digests(folder).get(name)
    if digest is not None and digest != files.sha256(raw):
        raise StreamproofError(
            f"{folder / name} was changed after it was signed.",
            remedy=f"Nothing is explained from it. See: just verify {folder}",
        )
    return raw


_EDITED = "It was changed or damaged after it was written."


def _other_version(stored: dict[str, Any]) -> str:
    """What to do where the report says that another version than this one made it; empty where it does not."""
    producer, own = stored.get("producer"), version("streamproof")
    made = producer.get("version") if isinstance(producer, dict) else None
    if not isinstance(made, str) or made == own:
        return ""
    return f"streamproof {printable(made, 40)} made it and this is {own}: use that version."


def _signed_digests(folder: Path) -> Mapping[str, str]:
    """File to SHA-256, from the attestation's statement; empty where there is none."""
    path = folder / files.ATTESTATION
    if not path.is_file():
        return {}
    try:
        bundle: Any = json.loads(path.read_bytes())
        statement: Any = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"], validate=True))
        return {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StreamproofError(f"{path} cannot be read.", remedy=_EDITED) from error
