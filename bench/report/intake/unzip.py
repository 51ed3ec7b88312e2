"""Unpacks a ZIP archive that somebody hostile may have made.

`zipfile` reads the list of members. What it takes on trust is checked here: that the list is as long as the file can
hold, that every member stands where the list says, one behind the other from the first byte to the list without a gap
and without sharing a byte (Fifield 2019, "A better zip bomb", WOOT '19: overlapping members unpack 46 MB to 4.5 PB),
that the two headers of a member say the same, and that what unpacks is as long as was claimed. ZIP64 and comments are
refused: a report needs neither, and both are where readers of ZIP files differ.

Format: PKWARE, ".ZIP File Format Specification" (APPNOTE.TXT) 6.3.10, sections 4.3.7 to 4.3.16.
"""

from __future__ import annotations

import stat
import struct
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Final

from bench.report.intake.members import MEMBERS_LIMIT, Members, refuse
from bench.report.intake.write import Ratio, write_file
from bench.report.verify_files import MEBIBYTE, Finding, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_END: Final = struct.Struct("<4s4H2IH")
_LOCAL: Final = struct.Struct("<4s5H3I2H")
_END_SIGNATURE: Final = b"PK\x05\x06"
_LOCAL_SIGNATURE: Final = b"PK\x03\x04"
_ZIP64_LOCATOR: Final = (b"PK\x06\x07", 20)
"""Signature and length of the record that stands before the end where there are ZIP64 records."""
_ZIP64_EXTRA: Final = 1

_ENCRYPTED: Final = 0x1 | 0x40 | 0x2000
"""Flags: the member is encrypted, strongly encrypted, or its header is masked."""
_PATCH: Final = 0x20
_SIZES_BEHIND: Final = 0x8
"""Flag: the writer did not know the sizes beforehand, and wrote them behind the data as well as into the list."""
_DESCRIPTORS: Final = (0, 12, 16, 20, 24)
"""Bytes behind such a member: CRC and two sizes of 4 or 8 bytes, with or without a signature."""

_EMPTY_DEFLATED: Final = 2
"""Bytes that nothing at all deflates to: some programs deflate folders."""
_DIRECTORY_LIMIT: Final = MEMBERS_LIMIT * 1024
"""Bytes of the list of members."""
_PLAIN_KINDS: Final = (0, stat.S_IFREG, stat.S_IFDIR)

_PACK_AGAIN: Final = "Pack the folder again: zip -r report.zip FOLDER"


@dataclass(frozen=True, slots=True)
class _Stored:
    """A member and where its bytes are: from `start` the header, from `data` the packed content, until `end`."""

    info: zipfile.ZipInfo
    start: int
    data: int

    @property
    def end(self) -> int:
        return self.data + self.info.compress_size


def unzip(archive: IO[bytes], name: str, folder: Path) -> None:
    """Writes the files of a report into an empty folder.

    Args:
        archive: open for reading, at any position.
        name: of the archive, for messages.
        folder: to write to.

    Raises:
        RefusedError: the archive is damaged, or holds what no report does.
        OSError: the files cannot be written.
    """
    size = archive.seek(0, 2)
    entries, directory = _end_of(archive, name, size)
    with _reading(name), zipfile.ZipFile(archive) as opened:
        infos = opened.infolist()
    if len(infos) != entries:
        raise RefusedError(Finding(name, f"lists {len(infos):,} members and says that they are {entries:,}"))
    members = Members()
    ratio = Ratio(name, size)
    files = []
    for info in infos:
        original = info.orig_filename
        _check_kind(original, info)
        if original.endswith("/"):
            members.add_folder(original)
            if info.file_size or info.compress_size > _EMPTY_DEFLATED:
                refuse(original, "is a folder that holds data")
            continue
        files.append((members.add_file(original, info.file_size), info))
    ratio.check(members.claimed)
    with _reading(name):
        stored = _layout(archive, name, infos, directory)
    for file, info in files:
        with _reading(name):
            write_file(folder, file, info.file_size, _inflated(archive, stored[info.header_offset]))


def _end_of(archive: IO[bytes], name: str, size: int) -> tuple[int, int]:
    """Number of members and where their list begins, as the record at the very end says."""
    archive.seek(max(0, size - _END.size - _ZIP64_LOCATOR[1]))
    tail = archive.read()
    end = tail[-_END.size :]
    if len(end) < _END.size or not end.startswith(_END_SIGNATURE):
        reason = "does not end as a ZIP archive does: it was cut off, or something was added behind it"
        raise RefusedError(Finding(name, reason, "Fetch it again, or pack the folder again without a comment."))
    _, disk, first_disk, here, entries, length, offset, comment = _END.unpack(end)
    if tail[: -_END.size][-_ZIP64_LOCATOR[1] :].startswith(_ZIP64_LOCATOR[0]) or 0xFFFF in {here, entries}:
        raise RefusedError(Finding(name, "is a ZIP64 archive; no report is as large as to need that", _PACK_AGAIN))
    if comment or disk or first_disk or here != entries:
        raise RefusedError(Finding(name, "is one of several parts, or says that more follows behind its end"))
    if entries > MEMBERS_LIMIT or length > _DIRECTORY_LIMIT:
        raise RefusedError(Finding(name, f"lists {entries:,} members in {length:,} bytes; no report has as many"))
    if offset + length != size - _END.size:
        raise RefusedError(Finding(name, "has its list of members elsewhere than it says", _PACK_AGAIN))
    return entries, offset


def _check_kind(name: str, info: zipfile.ZipInfo) -> None:
    if info.flag_bits & _ENCRYPTED:
        refuse(name, "is encrypted; nothing in a report is secret", _PACK_AGAIN)
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind == stat.S_IFLNK:
        refuse(name, "is a symbolic link; a report holds plain files only")
    if kind not in _PLAIN_KINDS:
        refuse(name, "is no plain file")
    if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED} or info.flag_bits & _PATCH:
        refuse(name, f"is packed by method {info.compress_type}, which is neither stored nor deflated", _PACK_AGAIN)
    if _ZIP64_EXTRA in _extra_kinds(name, info.extra):
        refuse(name, "claims sizes in the form of ZIP64; no report is as large as to need that", _PACK_AGAIN)


def _extra_kinds(name: str, extra: bytes) -> Iterator[int]:
    while extra:
        if len(extra) < 4:
            refuse(name, "has a damaged header")
        kind, length = struct.unpack_from("<HH", extra)
        yield kind
        extra = extra[4 + length :]


def _layout(archive: IO[bytes], name: str, infos: list[zipfile.ZipInfo], directory: int) -> dict[int, _Stored]:
    """Where every member is, by the offset of its header, once it is sure that they fill the file up to their list."""
    stored = sorted((_stored(archive, info) for info in infos), key=lambda member: member.start)
    for one, other in pairwise(stored):
        if other.start < one.end:
            refuse(other.info.orig_filename, "shares its bytes with another member: a zip bomb")
    ends = [member.start for member in stored[1:]] + [directory]
    for member, end in zip(stored, ends, strict=True):
        behind = end - member.end
        if behind not in (_DESCRIPTORS if member.info.flag_bits & _SIZES_BEHIND else (0,)):
            refuse(member.info.orig_filename, "is not followed at once by what the archive lists next")
    if stored and stored[0].start:
        raise RefusedError(Finding(name, "has something before its first member", _PACK_AGAIN))
    return {member.start: member for member in stored}


def _stored(archive: IO[bytes], info: zipfile.ZipInfo) -> _Stored:
    """Reads the header before a member's content.

    Raises:
        RefusedError: it is not there, or says something else than the list does.
    """
    archive.seek(info.header_offset)
    raw = archive.read(_LOCAL.size)
    name = info.orig_filename
    if len(raw) < _LOCAL.size or not raw.startswith(_LOCAL_SIGNATURE):
        refuse(name, "is not where the archive says")
    _, _, flags, method, _, _, crc, packed, unpacked, name_length, extra_length = _LOCAL.unpack(raw)
    written = archive.read(name_length)
    said = (written.decode("utf-8" if flags & 0x800 else "cp437", "replace"), flags, method)
    if said != (name, info.flag_bits, info.compress_type):
        refuse(name, "has two headers that say different things: programs would unpack different files")
    sizes = (crc, packed, unpacked)
    if sizes != (info.CRC, info.compress_size, info.file_size) and not flags & _SIZES_BEHIND:
        refuse(name, "has two headers that claim different sizes: programs would unpack different files")
    return _Stored(info, info.header_offset, info.header_offset + _LOCAL.size + name_length + extra_length)


def _inflated(archive: IO[bytes], member: _Stored) -> Iterator[bytes]:
    """The content in pieces of at most a mebibyte, whatever it unpacks to; `write_file` counts them."""
    info = member.info
    archive.seek(member.data)
    left, crc = info.compress_size, 0
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS) if info.compress_type == zipfile.ZIP_DEFLATED else None
    while left:
        packed = archive.read(min(left, MEBIBYTE))
        if not packed:
            refuse(info.orig_filename, "is cut off")
        left -= len(packed)
        while packed:
            piece = packed if unpacker is None else unpacker.decompress(packed, MEBIBYTE)
            packed = b"" if unpacker is None else unpacker.unconsumed_tail
            crc = zlib.crc32(piece, crc)
            yield piece
    if unpacker is not None:
        piece = unpacker.flush()  # at most what one window holds
        crc = zlib.crc32(piece, crc)
        yield piece
        if not unpacker.eof or unpacker.unused_data:
            refuse(info.orig_filename, "does not end where its packed content does")
    if crc != info.CRC:
        refuse(info.orig_filename, "is damaged: its checksum is another one", "Fetch the archive again.")


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """What the libraries say of a damaged archive is a refusal; what the system says of a full disk is not."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, ValueError) as error:
        raise RefusedError(Finding(name, f"cannot be read as a ZIP archive: {error}", "Fetch it again.")) from error
