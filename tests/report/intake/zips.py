"""ZIP archives byte by byte, so that a test can make one that no library would write."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

PLAIN = 0o100644 << 16


@dataclass(frozen=True)
class Member:
    """One member; what is None follows from the content.

    Attributes:
        central: fields of the header in the list that differ from the truth: flags, method, crc, packed, unpacked,
            attributes, offset, extra, name.
        local: likewise of the header before the content.
        behind: bytes after the content, e.g. a data descriptor.
    """

    name: bytes
    content: bytes = b""
    method: int = 8
    packed: bytes | None = None
    central: dict[str, Any] = field(default_factory=dict)
    local: dict[str, Any] = field(default_factory=dict)
    behind: bytes = b""


def zip_of(
    members: Sequence[Member], *, before: bytes = b"", entries: int | None = None, comment: bytes = b""
) -> bytes:
    """An archive of these members, one behind the other."""
    body, directory = bytearray(before), bytearray()
    for member in members:
        packed = _packed(member)
        fields: dict[str, Any] = {
            "flags": 0,
            "method": member.method,
            "crc": zlib.crc32(member.content),
            "packed": len(packed),
            "unpacked": len(member.content),
            "name": member.name,
            "extra": b"",
            "attributes": PLAIN,
            "offset": len(body),
        }
        one = fields | member.local
        body += _LOCAL.pack(
            b"PK\x03\x04", 20, one["flags"], one["method"], 0, 33, one["crc"], one["packed"], one["unpacked"],
            len(one["name"]), len(one["extra"]),
        )  # fmt: skip
        body += one["name"] + one["extra"] + packed + member.behind
        one = fields | member.central
        directory += _CENTRAL.pack(
            b"PK\x01\x02", 20, 3, 20, 0, one["flags"], one["method"], 0, 33, one["crc"], one["packed"],
            one["unpacked"], len(one["name"]), len(one["extra"]), 0, 0, 0, one["attributes"], one["offset"],
        )  # fmt: skip
        directory += one["name"] + one["extra"]
    count = len(members) if entries is None else entries
    end = _END.pack(b"PK\x05\x06", 0, 0, count, count, len(directory), len(body), len(comment))
    return bytes(body + directory) + end + comment


def overlapping(names: Sequence[bytes], content: bytes) -> bytes:
    """Members of which only the first has content of its own: the list gives all of them the same place."""
    first = Member(names[0], content)
    packed = _packed(first)
    shared = {"offset": 0, "method": 8, "crc": zlib.crc32(content), "packed": len(packed), "unpacked": len(content)}
    return zip_of([first, *(Member(name, method=0, central=shared) for name in names[1:])])


def _packed(member: Member) -> bytes:
    if member.packed is not None:
        return member.packed
    if member.method == 0:
        return member.content
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(member.content) + packer.flush()


_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s4B4H3I5H2I")
_END = struct.Struct("<4s4H2IH")
