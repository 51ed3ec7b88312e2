"""Brings a report from wherever it is into a folder: an address, an archive, or the folder that it is in already."""

from __future__ import annotations

import hashlib
import io
import re
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from bench.errors import StreamproofError, UsageError
from bench.report import folder_files as files
from bench.report.intake.untar import untar
from bench.report.intake.unzip import unzip
from bench.report.verify_files import MEBIBYTE, Finding, RefusedError
from bench.report.verify_text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_BYTES: Final = 512 * MEBIBYTE
"""Of an archive, by default: the records of a million requests take some 30 MB, and logs pack well."""

_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_SHA256: Final = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})")
_ASSET: Final = re.compile(r"streamproof-.+-(?P<fingerprint>[0-9a-f]{12})-(?P<attestation>[0-9a-f]{12})\.zip")
"""What `just release-notes` calls an archive: it names the fingerprint and the attestation that are in it."""
_MAGIC_BYTES: Final = 512
_OTHER_ARCHIVES: Final = {
    b"\xfd7zXZ\x00": "an xz archive",
    b"\x28\xb5\x2f\xfd": "a Zstandard archive",
    b"BZh": "a bzip2 archive",
    b"7z\xbc\xaf\x27\x1c": "a 7-Zip archive",
    b"Rar!": "a RAR archive",
    b"<": "a page for people, not a file: an address that one can look at in a browser is not the one of the file",
}
_READ_KINDS: Final = "Only ZIP and tar(.gz) archives are read. Unpack others yourself and name the folder."


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the user asked for besides.

    Attributes:
        sha256: the archive must have this SHA-256, in hex; None for any.
        most: bytes that an archive may have.
        keep: where an unpacked report is put to stay; None for nowhere.
    """

    sha256: str | None = None
    most: int = MOST_BYTES
    keep: Path | None = None

    @property
    def any_given(self) -> bool:
        """Whether there is a wish that makes sense for archives only."""
        return self.sha256 is not None or self.keep is not None


@dataclass(frozen=True, slots=True)
class Brought:
    """A report that is here.

    Attributes:
        folder: with its files, and whatever else its folder holds.
        sha256: of the archive that it came in; None for a folder.
    """

    folder: Path
    sha256: str | None


def parse_sha256(text: str) -> str:
    """What `--sha256` was given, in lower-case hex; `sha256:` may stand before it.

    Raises:
        UsageError: it is none.
    """
    found = _SHA256.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"--sha256 {printable(text, 80)}: this is no SHA-256.", remedy="It has 64 hexadecimal digits (sha256sum)."
        )
    return found[1].lower()


def is_address(place: str) -> bool:
    """Whether a place is an address and no path."""
    return _ADDRESS.match(place) is not None


@contextmanager
def brought(place: str, wishes: Wishes, tell: Callable[[int, int | None], object]) -> Iterator[Brought]:
    """The report's folder, for as long as the context lasts; what was fetched or unpacked for it is then removed.

    Args:
        place: address, path of an archive, or of a folder.
        wishes: see above.
        tell: called with the bytes fetched so far and those announced.

    Raises:
        UsageError: no such place, or a wish that does not go with it.
        StreamproofError: it cannot be fetched, or the disk is full.
        RefusedError: what is there is no report, or a hostile one.
    """
    if not is_address(place) and not Path(place).is_file():
        if wishes.any_given:
            raise UsageError(
                f"{place} is no archive: --sha256 and --keep are for one.", remedy="Name a file or an address."
            )
        yield Brought(Path(place), None)
        return
    if wishes.keep is not None and wishes.keep.exists():
        raise UsageError(f"{wishes.keep} is there already.", remedy="Name a folder with --keep that is not there yet.")
    with tempfile.TemporaryDirectory(prefix="streamproof-verify-") as name:
        temporary = Path(name)
        folder = wishes.keep or temporary / "report"
        try:
            with _archive(place, temporary, wishes, tell) as (archive, digest):
                if wishes.sha256 is not None and digest != wishes.sha256:
                    raise RefusedError(
                        Finding(_last(place), f"has the SHA-256 {digest}, not {wishes.sha256}, which was asked for")
                    )
                folder.mkdir(parents=True)
                try:
                    _unpack(archive, _last(place), folder)
                    _check_asset_name(_last(place), folder)
                except BaseException:
                    _remove(folder)
                    raise
        except OSError as error:
            raise StreamproofError(
                f"{printable(place, 300)} cannot be unpacked to {folder}: {error.strerror or error}",
                remedy="Make room there, or set TMPDIR to a folder that has some.",
            ) from error
        yield Brought(folder, digest)


@contextmanager
def _archive(
    place: str, temporary: Path, wishes: Wishes, tell: Callable[[int, int | None], object]
) -> Iterator[tuple[IO[bytes], str]]:
    """The archive, open for reading, and its SHA-256."""
    if is_address(place):
        from bench.report.intake.download import download  # noqa: PLC0415  an HTTP client: only where there is an address

        with (temporary / "archive").open("x+b") as archive:
            yield archive, download(place, archive, most=wishes.most, tell=tell)
        return
    with _open_here(place) as archive:
        size = archive.seek(0, 2)
        if size > wishes.most:
            raise UsageError(
                f"{place} has {size:,} bytes; at most {wishes.most:,} are unpacked.",
                remedy="No report of ours is as large. If you expect this one to be: --max-size.",
            )
        archive.seek(0)
        yield archive, hashlib.file_digest(archive, "sha256").hexdigest()


def _open_here(place: str) -> io.BufferedReader:
    try:
        return Path(place).open("rb")
    except OSError as error:
        raise UsageError(f"{place} cannot be read: {error.strerror}.", remedy="Mend its permissions.") from error


def _unpack(archive: IO[bytes], name: str, folder: Path) -> None:
    """Unpacks by content: the name of an archive says nothing."""
    archive.seek(0)
    head = archive.read(_MAGIC_BYTES)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        unzip(archive, name, folder)
    elif head.startswith(b"\x1f\x8b"):
        untar(archive, name, folder, gzipped=True)
    elif head[257:262] == b"ustar":
        untar(archive, name, folder, gzipped=False)
    else:
        what = next((what for magic, what in _OTHER_ARCHIVES.items() if head.lstrip().startswith(magic)), "no archive")
        raise RefusedError(Finding(name, f"is {what}", _READ_KINDS))


def _check_asset_name(name: str, folder: Path) -> None:
    """An archive that is named after an attestation must hold that one: whoever followed a link gets what it named.

    Raises:
        RefusedError: it holds another report.
    """
    named = _ASSET.fullmatch(name)
    attestation = folder / files.ATTESTATION
    if named is None or not attestation.is_file():  # that it is missing is said by the verification
        return
    digest = files.file_sha256(attestation)
    if not digest.startswith(named["attestation"]):
        reason = f"is named after an attestation {named['attestation']}..., and holds {digest[:12]}...: another report"
        raise RefusedError(Finding(name, reason, "Ask whoever gave you the address or the file which one they mean."))


def _last(place: str) -> str:
    """The last part of a path or an address, without query."""
    if is_address(place):
        place = re.split(r"[?#]", place, maxsplit=1)[0]
    return place.rstrip("/").rpartition("/")[2] or "archive"


def _remove(folder: Path) -> None:
    """Removes a folder of plain files."""
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
