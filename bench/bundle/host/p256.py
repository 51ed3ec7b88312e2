"""Checks ECDSA signatures over P-256 with SHA-256, in the standard library alone.

The target host need not have OpenSSL or any Python package. Verifying handles no secret, so that it does not matter
that this code takes a different time for different numbers; it must never be used to sign.

Sources: FIPS 186-5, section 6.4.2 (verification); SEC 1 v2.0, sections 2.2.1 (addition on the curve) and 2.3.4
(points); RFC 5480, section 2 (public key in DER); SEC 2 v2.0, section 2.4.2 (the curve).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Final, TypeAlias

_P: Final = 2**256 - 2**224 + 2**192 + 2**96 - 1
_A: Final = _P - 3
_B: Final = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
_N: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_G: Final = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)

_SPKI_HEAD: Final = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004")
"""DER of a SubjectPublicKeyInfo up to the point's coordinates: id-ecPublicKey, prime256v1, 65 bytes, uncompressed."""

Point: TypeAlias = "tuple[int, int] | None"
"""Affine coordinates; None is the point at infinity."""


class BadKeyError(ValueError):
    """Not an uncompressed P-256 public key in DER or PEM."""


def der_of_pem(pem: bytes) -> bytes:
    """DER of a PEM "PUBLIC KEY".

    Raises:
        BadKeyError: it is none.
    """
    head, tail = b"-----BEGIN PUBLIC KEY-----", b"-----END PUBLIC KEY-----"
    text = pem.strip()
    if not (text.startswith(head) and text.endswith(tail)):
        raise BadKeyError("not a PEM public key")
    try:
        return base64.b64decode(b"".join(text[len(head) : -len(tail)].split()), validate=True)
    except binascii.Error as error:
        raise BadKeyError("not base64") from error


def key_id(der: bytes) -> str:
    """SHA-256 of the DER SubjectPublicKeyInfo, lower-case hex."""
    return hashlib.sha256(der).hexdigest()


def verifies(der: bytes, signature: bytes, message: bytes) -> bool:
    """Whether `signature` (DER) is one of this key over `message`.

    Raises:
        BadKeyError: `der` is not a P-256 public key, or its point is not on the curve.
    """
    public = _public_point(der)
    try:
        r, s = _signature(signature)
    except ValueError:
        return False
    if not (0 < r < _N and 0 < s < _N):
        return False
    digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
    inverse = pow(s, -1, _N)
    point = _add(_multiply(_G, digest * inverse % _N), _multiply(public, r * inverse % _N))
    return point is not None and point[0] % _N == r


def _public_point(der: bytes) -> tuple[int, int]:
    if len(der) != len(_SPKI_HEAD) + 64 or not der.startswith(_SPKI_HEAD):
        raise BadKeyError("not an uncompressed P-256 public key")
    x = int.from_bytes(der[-64:-32], "big")
    y = int.from_bytes(der[-32:], "big")
    if x >= _P or y >= _P or (y * y - (x * x * x + _A * x + _B)) % _P:
        raise BadKeyError("its point is not on the curve")
    return x, y


def _signature(der: bytes) -> tuple[int, int]:
    """The two numbers of SEQUENCE { INTEGER, INTEGER }, in DER's one form."""
    tag, body, rest = _element(der)
    if tag != 0x30 or rest:
        raise ValueError("no sequence")
    numbers = []
    for _ in range(2):
        tag, content, body = _element(body)
        if tag != 0x02 or not content or (len(content) > 1 and content[0] == 0 and content[1] < 0x80):
            raise ValueError("no integer")
        numbers.append(int.from_bytes(content, "big", signed=True))
    if body:
        raise ValueError("something follows")
    return numbers[0], numbers[1]


def _element(der: bytes) -> tuple[int, bytes, bytes]:
    """Tag, content, rest. A P-256 signature has no element of 128 bytes or more."""
    if len(der) < 2 or der[1] >= 0x80 or len(der) < 2 + der[1]:
        raise ValueError("cut short or too long")
    end = 2 + der[1]
    return der[0], der[2:end], der[end:]


def _add(p: Point, q: Point) -> Point:
    if p is None:
        return q
    if q is None:
        return p
    if p[0] == q[0]:
        if (p[1] + q[1]) % _P == 0:
            return None
        slope = (3 * p[0] * p[0] + _A) * pow(2 * p[1], -1, _P)
    else:
        slope = (q[1] - p[1]) * pow(q[0] - p[0], -1, _P)
    x = (slope * slope - p[0] - q[0]) % _P
    return x, (slope * (p[0] - x) - p[1]) % _P


def _multiply(point: Point, times: int) -> Point:
    total: Point = None
    while times:
        if times & 1:
            total = _add(total, point)
        point = _add(point, point)
        times >>= 1
    return total
